"""`torch.compile` of programs on another core than `neuron:0`, or on several: every result is on the core where eager has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.emulated import DEVICE, fresh_dynamo  # noqa: F401  # a fixture

ZERO, ONE = (torch.device(DEVICE, core) for core in range(2))

Function = Callable[[Tensor, Tensor], tuple[Tensor, ...]]


def _there_and_back(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    there = (x * 2).to(ZERO) * y
    return there, (there.to(ONE) + x).cpu(), y * 3


def _written(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = x * 1
    z.copy_(y * 2)
    return z + x, y + 1


FUNCTIONS: dict[str, Function] = {
    "one moves": lambda x, y: ((x * 2).to(ZERO) * 3, x + 1),
    "there and back": _there_and_back,
    "nothing moves": lambda x, y: (x.sin(), y.cos(), (x * 2).cpu(), (y * 2).cpu()),
    "written": _written,
    "drawn": lambda x, y: (F.dropout(y), F.dropout(x * 2), torch.rand(2, device=ONE), torch.rand(2, device=ZERO)),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_programs_on_two_cores(function: Function) -> None:
    found = []
    for call in (function, torch.compile(function, backend="neuron")):
        torch.manual_seed(0)
        x = torch.arange(6.0, device=ONE).reshape(2, 3).requires_grad_()
        y = torch.arange(6.0, device=ZERO).reshape(2, 3).requires_grad_()
        results = call(x, y)
        torch.stack([result.sum().cpu() for result in results]).square().sum().backward()
        found.append((*results, x.grad, y.grad))
    _assert_alike(*found)


MADE: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "of nothing": lambda h: (torch.ones(3, device=ONE) + torch.arange(3, device=ONE), torch.zeros(2, device=ONE)),
    "of the host's": lambda h: (h.to(ONE) * 2, torch.ones(2, device=ONE)),
    "of the host's, on both": lambda h: (h.to(ONE) * 2, h.to(ZERO) * 3),
}


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("function", MADE.values(), ids=MADE)
def test_tensors_made_on_another_core(function: Callable[[Tensor], tuple[Tensor, ...]], needs_grad: bool) -> None:
    host = torch.ones(3, requires_grad=needs_grad)
    _assert_alike(function(host), torch.compile(function, backend="neuron")(host))


@pytest.fixture
def back_to_the_first_core() -> Iterator[None]:
    yield
    torch.neuron.set_device(0)


@pytest.mark.usefixtures("back_to_the_first_core")
def test_the_core_that_is_current_at_the_call() -> None:
    function = torch.compile(lambda h: h.to(DEVICE) * 2 + torch.arange(3, device=DEVICE), backend="neuron")
    for core in (0, 1, 0):
        torch.neuron.set_device(core)
        assert function(torch.ones(3)).device.index == core
        torch._dynamo.reset()
        assert function(torch.ones(3)).device.index == core


def _assert_alike(want: tuple[Tensor | None, ...], got: tuple[Tensor | None, ...]) -> None:
    for one, other in zip(want, got, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert (one.device, one.requires_grad) == (other.device, other.requires_grad)
            torch.testing.assert_close(other, one)
