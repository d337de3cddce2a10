"""64-bit values are computed in full, and a session says where they would not survive 32 bits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from neuron_lab.emulator.events import hook
from tests.emulated import DEVICE

INT32 = 2**31


def wide(work: Callable[[], object]) -> list[tuple[object, ...]]:
    """(op, integers, floats, calls, beyond) of what `work` did."""
    session = hook()
    session.start()
    try:
        work()
    finally:
        log = session.stop()
    return sorted(row[:5] for row in log.wide)


def on_device(*values: object, dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, dtype=dtype).to(DEVICE)


@pytest.mark.parametrize(
    ("value", "beyond"),
    [(INT32 - 1, 0), (INT32, 1), (-INT32, 0), (-INT32 - 1, 1), (2**62, 1)],
)
def test_an_integer_input_at_the_edge_of_32_bits(value: int, beyond: int) -> None:
    x = on_device(1, value, dtype=torch.int64)
    assert wide(lambda: x.bitwise_not()) == [("aten::bitwise_not", True, False, 1, beyond)]


def test_a_result_that_outgrows_32_bits() -> None:
    x = on_device(100_000, dtype=torch.int64)
    y = x * x
    assert y.item() == 10**10
    assert wide(lambda: x * x) == [("aten::mul.Tensor", True, False, 1, 1)]


def test_an_in_place_result_counts_too() -> None:
    x = on_device(100_000, dtype=torch.int64)
    assert wide(lambda: x.mul_(100_000)) == [("aten::mul_.Tensor", True, False, 1, 1)]
    assert x.item() == 10**10


@pytest.mark.parametrize(
    ("value", "beyond"), [(1e30, 0), (1e39, 1), (-1e300, 1), (float("inf"), 0), (float("nan"), 0), (1e-320, 0)]
)
def test_a_double_that_float32_cannot_hold(value: float, beyond: int) -> None:
    x = on_device(value, 0.5, dtype=torch.float64)
    assert wide(lambda: x.neg()) == [("aten::neg", False, True, 1, beyond)]


def test_complex_doubles_are_two_doubles() -> None:
    x = on_device(complex(0, 1e100), dtype=torch.complex128)
    assert wide(lambda: x.neg()) == [("aten::neg", False, True, 1, 1)]


def test_a_large_value_at_the_end_of_many() -> None:
    x = torch.zeros(5000, dtype=torch.int64)
    x[-1] = INT32
    y = x.to(DEVICE)
    assert wide(lambda: y.neg())[0][-1] == 1


def test_a_strided_input_is_looked_at_where_it_is() -> None:
    x = torch.arange(12).reshape(3, 4)
    x[:, 0] = INT32
    y = x.to(DEVICE)
    assert [row[-1] for row in wide(lambda: y[:, 1:].bitwise_not())] == [0]
    assert [row[-1] for row in wide(lambda: y[:, :1].bitwise_not())] == [1]


def test_calls_are_counted_apart_from_those_beyond() -> None:
    small, large = on_device(1, dtype=torch.int64), on_device(INT32, dtype=torch.int64)
    assert wide(lambda: [small.neg(), small.neg(), large.neg()]) == [("aten::neg", True, False, 3, 1)]


def test_what_is_not_marked() -> None:
    x = torch.ones(3, device=DEVICE)
    doubles, large = x.double(), on_device(INT32, dtype=torch.int64)
    assert wide(lambda: x * 2.5) == [], "a Python number takes the tensor's dtype"
    assert wide(lambda: x + torch.tensor(2.5, dtype=torch.float64)) == [], "nor does a 0-d host tensor widen"
    assert wide(lambda: (doubles.float(), x.double(), large.int())) == [], "casts run on the CPU there"
    assert wide(lambda: large.cpu()) == [], "copies compute nothing"
    assert wide(lambda: torch.linalg.eigh(torch.eye(2, dtype=torch.float64).to(DEVICE))) == [], "nor do fallbacks"


def test_a_compiled_graph_is_looked_at() -> None:
    compiled = torch.compile(lambda x: (x * 3).neg(), backend="neuron")
    x = on_device(INT32 - 1, dtype=torch.int64)
    compiled(x)
    ((_, integers, floats, calls, beyond),) = wide(lambda: compiled(x))
    assert (integers, floats, calls, beyond) == (True, False, 1, 1)
