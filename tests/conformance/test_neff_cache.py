"""The NEFF cache of the emulator and `neuron_lab.cache()`: what was cleared is compiled again, what runs goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import neuron_lab
from neuron_lab.emulator import events
from tests.emulated import DEVICE


@pytest.fixture
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCH_NEURONX_NEFF_CACHE_DIR", str(tmp_path))
    return tmp_path


def row_of(signature: str) -> neuron_lab.report.NeffEntry:
    """Of a call that no other test makes: executables of earlier tests are in memory too."""
    (found,) = [row for row in neuron_lab.cache().entries if row.signature.startswith(signature)]
    return found


def test_a_neff_is_listed_opened_cleared_and_made_again(own_directory: Path) -> None:
    x = torch.full((3, 41), 0.5, device=DEVICE)
    want = x.cpu().asinh()
    for _ in range(3):
        got = x.asinh()
    row = row_of("aten::asinh(float32[3, 41])")
    assert row.hits == 2 and row.emulated and row.op == "aten::asinh"
    found = neuron_lab.open_neff(row.key[:20])
    assert found.account.flops is not None and "stablehlo" in found.stablehlo
    assert found.account.memory is not None and found.account.memory.inputs == 3 * 41 * 4
    assert "TORCH_NEURONX_NEFF_CACHE_DIR" in neuron_lab.cache().to_text()
    compiled = events.counters.compiled
    done = neuron_lab.cache().clear().change
    assert done.forgotten and done.left == 0 and not list(own_directory.rglob("*.neff"))
    assert neuron_lab.cache().entries == ()
    torch.testing.assert_close(got.cpu(), want)
    torch.testing.assert_close(x.asinh().cpu(), want)
    assert events.counters.compiled == compiled + 1 and row_of("aten::asinh(float32[3, 41])").hits == 0


def test_a_pruned_neff_stays_in_memory(own_directory: Path) -> None:
    x = torch.full((3, 43), 0.5, device=DEVICE)
    x.acosh()
    compiled = events.counters.compiled
    assert neuron_lab.cache().prune(keep=0).change.forgotten is None
    x.acosh()
    assert events.counters.compiled == compiled and row_of("aten::acosh(float32[3, 43])").bytes is None


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_a_compiled_model_keeps_its_graph(own_directory: Path) -> None:
    model = torch.compile(lambda x: (x.sin() * 3).tanh(), backend="neuron")
    x = torch.ones(47, device=DEVICE)
    want = model(x).cpu()
    compiled = events.counters.compiled
    neuron_lab.cache().clear()
    assert torch.equal(model(x).cpu(), want) and events.counters.compiled == compiled


def test_the_variable_that_decides_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_NEURONX_NEFF_DISABLE_CACHE", "1")
    for found in (neuron_lab.cache(), neuron_lab.status()):
        assert "switched off by TORCH_NEURONX_NEFF_DISABLE_CACHE=1" in found.to_text()
