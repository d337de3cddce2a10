"""Element-wise results lie in memory as the CPU's kernels lay them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import neuron_lab
from tests.conformance._both import Program, assert_agrees, numbers, programs

PAIRS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "rows and columns": ((2, 3), (3, 2)),
    "broadcast row": ((1, 3), (3, 2)),
    "broadcast column": ((2, 1), (3, 2)),
}
BINARY = (
    *(
        "add",
        "mul",
        "div",
        "floor_divide",
        "remainder",
        "fmod",
        "maximum",
        "fmax",
        "atan2",
        "copysign",
        "hypot",
        "xlogy",
    ),
    *(
        "logaddexp",
        "logaddexp2",
        "eq",
        "lt",
        "logical_and",
        "logical_or",
        "logical_xor",
        "heaviside",
        "pow",
        "nextafter",
    ),
)


@pytest.mark.parametrize("swapped", [False, True], ids=["", "swapped"])
@pytest.mark.parametrize("sizes", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("name", BINARY)
def test_a_result_of_two_layouts(name: str, sizes: tuple[tuple[int, ...], tuple[int, ...]], swapped: bool) -> None:
    compute: Callable[[Tensor, Tensor], Any] = getattr(torch, name)

    def program(device: str) -> Any:
        one, other = numbers(device, *sizes[0]) + 1, (numbers(device, *sizes[1]) + 1).t()
        return compute(other, one) if swapped else compute(one, other)

    assert_agrees(program)


def images(device: str) -> Tensor:
    return numbers(device, 2, 3, 4, 4).to(memory_format=torch.channels_last)


OTHERS: dict[str, Program] = {
    "roll of channels last": lambda d: images(d).roll(1, 0),
    "roll of two dimensions": lambda d: images(d).roll((1, 2), (1, 3)),
    "roll by nothing": lambda d: images(d).roll(0, 2),
    "flat roll": lambda d: images(d).roll(3),
    "binary cross entropy": lambda d: F.binary_cross_entropy(
        (numbers(d, 2, 3) + 1) / 8, (numbers(d, 3, 2).t() + 1) / 8, reduction="none"
    ),
    "averaged binary cross entropy": lambda d: F.binary_cross_entropy((numbers(d, 2) + 1) / 8, numbers(d, 2) / 8),
    "shifts of unlike shapes": lambda d: torch.arange(3, device=d)[:, None] << torch.arange(3, device=d),
    "shifts of unlike dtypes": lambda d: torch.arange(9, device=d)[::4, None] >> torch.arange(3, device=d).int(),
    "pooling of bytes": lambda d: F.max_pool2d(torch.arange(16, device=d).to(torch.int8).view(1, 1, 4, 4), 2),
}


@programs(OTHERS)
def test_layout_of(program: Program) -> None:
    assert_agrees(program)


def test_layouts_of_six_dimensions_are_told_apart() -> None:
    x = torch.arange(64.0).reshape(2, 2, 2, 2, 2, 2)
    on_neuron = x.to("neuron")
    for order in list(permutations(range(6)))[::45]:
        assert torch.equal((on_neuron.permute(order) * 2).cpu(), x.permute(order) * 2), order


def test_a_layout_is_the_same_from_wherever_it_is_called() -> None:
    """One NEFF, made once: the key must not hold addresses."""
    x, y = torch.ones(3, 5).to("neuron"), torch.ones(3, 5).to("neuron").t()
    torch.mm(x, y)
    with neuron_lab.profile() as p:
        x @ y  # the same op, from another depth of the stack
    assert p.summary.cold_calls == 0
