"""One training step of a model on the CPU and on the device, and how close the two must be."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from neuron_lab.emulator import shim
from tests.emulated import DEVICE

RELATIVE, OF_LARGEST = 1e-3, 5e-6
"""A value may differ by this part of itself, or by this part of the largest value beside it: float32 sums in another order."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one forward and backward gave."""

    loss: Tensor
    outputs: dict[str, Tensor]
    gradients: dict[str, Tensor]


def moved(value: Any, device: str) -> Any:
    """The same nesting with its tensors on `device`."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: moved(item, device) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(moved(item, device) for item in value)
    return value


def step(model: Callable[..., Any], parameters: nn.Module, inputs: Mapping[str, Any], device: str) -> Step:
    """Call the model, which must return a loss among its outputs, and run backward; random numbers start alike."""
    torch.manual_seed(1)
    numpy.random.seed(1)
    output = model(**moved(dict(inputs), device))
    output.loss.backward()
    gradients = {name: p.grad for name, p in parameters.named_parameters() if p.grad is not None}
    return Step(output.loss.detach(), dict(_tensors("", output)), gradients)


def steps(make: Callable[[], nn.Module], inputs: Callable[[], Mapping[str, Any]]) -> tuple[Step, Step]:
    """The step on the device and the one on the CPU, of equal models in training mode."""
    torch.manual_seed(0)
    model, batch = make().train(), inputs()
    there = copy.deepcopy(model).to(DEVICE)
    return step(there, there, batch, DEVICE), step(model, model, batch, "cpu")


def _tensors(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value.detach()
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(f"{name}.{key}", item)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _tensors(f"{name}[{index}]", item)


def assert_close(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], of_largest: float = OF_LARGEST) -> None:
    """Equal names, dtypes, shapes and values; gradients and the like belong in one mapping, outputs each in its own."""
    assert actual.keys() == expected.keys()
    largest = max(
        (float(t.detach().abs().max()) for t in expected.values() if t.is_floating_point() and t.numel()), default=0.0
    )
    for name, value in expected.items():
        torch.testing.assert_close(
            actual[name].detach().cpu(),
            value.detach().cpu(),
            rtol=RELATIVE,
            atol=of_largest * largest,
            equal_nan=True,
            msg=lambda text, name=name: f"{name}: {text}",
        )


def assert_steps_agree(actual: Step, expected: Step, of_largest: float = OF_LARGEST) -> None:
    """The loss to 1e-5 of itself, every output and every gradient to the tolerance above."""
    torch.testing.assert_close(actual.loss.cpu(), expected.loss.cpu(), rtol=1e-5, atol=1e-6)
    assert actual.outputs.keys() == expected.outputs.keys()
    for name, output in expected.outputs.items():
        assert_close({name: actual.outputs[name]}, {name: output}, of_largest)
    assert expected.gradients
    assert_close(actual.gradients, expected.gradients, of_largest)


@contextmanager
def counted() -> Iterator[Counter[tuple[str, str]]]:
    """Filled at the end with the calls by (op, kind): compiled, decomposed, host or fallback; without elements nothing is called."""
    calls: Counter[tuple[str, str]] = Counter()
    session = shim().open_session(1)
    try:
        yield calls
    finally:
        shim().close_session(session)
        for op, kind, _neff, _core, count, *_ in shim().drain(session)["totals"]:
            if kind != "empty":
                calls[op, kind] += count
