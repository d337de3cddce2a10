"""What the emulated device records survives a file, and every export of it is sound."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import neuron_lab
from neuron_lab.render import chrome_trace, speedscope
from tests.emulated import neff_cache, nothing_stays_behind
from tests.unit.test_exports import read_speedscope, read_trace
from tests.unit.test_findings_on_device import Trained

__all__ = ["neff_cache", "nothing_stays_behind"]


@pytest.fixture(scope="module")
def steps(neff_cache: Path) -> tuple[neuron_lab.Profile, neuron_lab.Profile]:
    """A cold and a warm step of training."""
    trained = Trained()
    with neuron_lab.profile(label="cold") as cold:
        print(trained.step(), torch.unique(torch.ones(3, device="neuron")).shape)
    with neuron_lab.profile(label="warm") as warm:
        print(trained.step(), torch.unique(torch.ones(3, device="neuron")).shape)
    return cold, warm


def test_saved_and_loaded(steps: tuple[neuron_lab.Profile, neuron_lab.Profile], tmp_path: Path) -> None:
    for p in steps:
        p.save(tmp_path / "p.json")
        again = neuron_lab.load(tmp_path / "p.json")
        assert again.recording == p.recording
        assert again.findings == p.findings
        assert again.lines.equals(p.lines)
        assert again.recording.unix_ns > 1_700_000_000 * 10**9


def test_exports_are_sound(steps: tuple[neuron_lab.Profile, neuron_lab.Profile]) -> None:
    for p in steps:
        lanes = read_trace(chrome_trace(p.report))
        kernels = sum(len(events) for (process, name), events in lanes.items() if name.startswith("device"))
        assert kernels == sum(call.kind == "compiled" for call in p.recording.ops)
        assert any(name == "compile" for _, name in lanes) == (p is steps[0])
        stacks = read_speedscope(speedscope(p.report))
        spent = sum(item.total_ns for item in (*p.recording.op_totals, *p.recording.copy_totals))
        assert sum(stacks.values()) == spent
        assert {stack[0].split(":")[0].split(" line")[0] for stack in stacks} >= {"test_findings_on_device.py"}


def test_cold_is_not_subtracted_from_warm(steps: tuple[neuron_lab.Profile, neuron_lab.Profile]) -> None:
    cold, warm = steps
    found = warm.compare(cold)
    assert not found.times_compared
    assert found.caveats[0].startswith("cold against warm: cold compiled ")
    assert warm.compare(warm).times_compared
    assert found.new_neffs == ()
    assert {row.label for row in neuron_lab.session().rows} >= {"cold", "warm"}
