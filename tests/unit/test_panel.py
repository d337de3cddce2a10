"""The control panel without a front end: its button is pressed by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import neuron_lab
from neuron_lab import device
from neuron_lab.errors import DeviceProblem, UsageProblem
from tests.fakes.device import FakeDevice


def test_nothing_runs_before_the_button(fake: FakeDevice) -> None:
    calls: list[Any] = []
    panel = neuron_lab.panel(lambda batch, model: calls.append((batch, model)), batch=(1, 9), model=fake)
    assert calls == []
    assert panel.result is None


def test_button_runs_with_the_values_of_the_controls(fake: FakeDevice) -> None:
    calls: list[Any] = []

    def step(size: str, batch: int, model: FakeDevice, exact: bool) -> None:
        calls.append((size, batch, exact))
        model.run("aten::mm", device_ms=batch)

    panel = neuron_lab.panel(step, "large", batch=(1, 9), model=fake, exact=True)
    panel._controls["batch"].value = 7
    panel._run.click()
    assert calls == [("large", 7, True)] * 2, "once to be warm, once measured"
    assert panel.result is neuron_lab.last()
    assert panel.result.summary.op_calls == 1
    assert "step(batch=7, exact=True)" in panel.result.summary.label
    panel._start.value = "cold"
    panel._run.click()
    assert len(calls) == 3
    assert panel.result.summary.label == "step(batch=7, exact=True) cold"
    assert len(panel.children) == 3, "one explorer, of the latest run"
    assert not panel._run.disabled


def test_failed_run_is_told_and_the_panel_lives_on(fake: FakeDevice) -> None:
    def step(batch: int) -> None:
        fake.run("aten::mm")
        if batch == 5:
            raise ZeroDivisionError

    panel = neuron_lab.panel(step, batch=(5, 5))
    panel._start.value = "cold"
    with pytest.raises(ZeroDivisionError):  # shown by the output area where there is a shell
        panel.run()
    assert panel.result is not None and panel.result.summary.error == "ZeroDivisionError"
    assert not panel._run.disabled


def test_what_cannot_be_profiled_is_told(fake: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise DeviceProblem("it tells too little")

    monkeypatch.setattr(device, "hook", refuse)
    panel = neuron_lab.panel(lambda batch: None, batch=(1, 9))
    with pytest.raises(DeviceProblem, match="it tells too little"):
        panel.run()
    assert panel.result is None and not panel._run.disabled


def test_what_is_no_function_is_told_before_any_button() -> None:
    with pytest.raises(UsageProblem, match="was given a int: panel"):
        neuron_lab.panel(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "said"), [({"btach": (1, 9)}, "missing a required argument: 'batch'"), ({"batch": 1, "x": 2}, "'x'")]
)
def test_arguments_that_do_not_fit_are_told_before_any_button(arguments: dict[str, Any], said: str) -> None:
    def step(batch: int) -> None:
        raise AssertionError

    class Step(torch.nn.Module):
        def forward(self, batch: int) -> None:
            raise AssertionError

    with pytest.raises(UsageProblem, match=r"Step\(batch: 'int'\).*" + said):
        neuron_lab.panel(Step(), **arguments)
    with pytest.raises(UsageProblem, match=r"step\(batch: 'int'\).*" + said):
        neuron_lab.panel(step, **arguments)
    assert neuron_lab.panel(max, 1, 2) is not None, "what has no signature is taken as it is"


def test_cold_compiles_again_what_was_compiled_and_leaves_the_caches_as_they_were() -> None:
    def step(rows: int) -> None:
        torch.ones(rows, 3, device="neuron") * 5

    panel = neuron_lab.panel(step, rows=(7, 7))
    made = []
    for start in ("warm", "cold", "warm", "cold"):
        panel._start.value = start
        panel.run()
        assert panel.result is not None
        made.append(panel.result.summary.neffs_compiled)
    assert made[0] == made[2] == 0
    assert made[1] == made[3] > 0
