"""Creators, indexing, sorting, pooling, reductions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from neuron_lab.emulator.lowering import Unlowerable, lower

from ._runner import Specimen, check

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


CREATORS: list[tuple[Any, ...]] = [
    (aten.arange, 5),
    (aten.arange.start, 2, 7),
    (aten.arange.start_step, 0.5, 10, 0.3),
    (aten.linspace, 0, 1, 7),
    (aten.eye, 4),
    (aten.eye.m, 3, 5),
    (aten.full, [3, 4], 2.5),
    (aten.full, [3], True),
    (aten.scalar_tensor, 3.5),
    (aten.zeros, [3, 4]),
]


@pytest.mark.parametrize("call", CREATORS, ids=lambda call: str(call[0]))
def test_creator_needs_no_tensor(call: tuple[Any, ...]) -> None:
    check(*call)
    check(*call, device=torch.device("cpu"), pin_memory=False)


def _matrix() -> Tensor:
    return torch.arange(20.0).reshape(4, 5)


def test_index_counts_from_the_end() -> None:
    check(aten.index.Tensor, _matrix(), [torch.tensor([[0, 2], [3, -1]])])
    cube = torch.arange(120.0).reshape(4, 5, 6)
    check(aten.index.Tensor, cube, [None, torch.tensor([0, -1]), torch.tensor([[1], [2]])])
    check(aten.index.Tensor, cube, [torch.tensor([0, 1]), None, torch.tensor([1, 2])])
    check(aten.index_put, cube, [torch.tensor([0, 1]), None, torch.tensor([1, 2])], -torch.ones(2, 5))


def test_index_put() -> None:
    check(aten.index_put_, _matrix(), [torch.tensor([0, 0, -1])], torch.ones(3, 5), True)
    mask = _matrix() > 7
    check(aten.index_put_, _matrix(), [mask], torch.tensor(0.0))
    check(aten.index_put_, _matrix(), [mask], torch.arange(float(mask.sum())))
    check(aten.masked_scatter, _matrix(), mask, torch.arange(100.0))


def test_boolean_index_is_refused() -> None:
    specimen = Specimen(aten.index.Tensor, (_matrix(), [_matrix() > 7]), {})
    with pytest.raises(Unlowerable, match="DynamicOutputShape"):
        lower(specimen.call)


def test_scatter_and_gather() -> None:
    index = torch.tensor([[0, 1, 1], [3, 3, 0]])
    check(aten.gather, _matrix(), 0, index)
    check(aten.scatter_add, _matrix(), 0, index, torch.ones(2, 3))
    check(aten.scatter.value, _matrix(), 0, index, 9.0)
    check(aten.scatter_reduce.two, _matrix(), 0, index, torch.ones(2, 3), "mean", include_self=False)
    check(aten.index_add, _matrix(), 1, torch.tensor([0, 0]), torch.ones(4, 2), alpha=2)


def test_equal_elements_keep_their_order() -> None:
    values = torch.randint(0, 4, (200,))
    for descending in (False, True):
        check(aten.sort.stable, values, stable=True, dim=0, descending=descending)
        check(aten.sort.stable, values.bfloat16(), stable=True, dim=0, descending=descending)
    rows = torch.tensor([[1, 3, 3], [2, 2, 2]])
    check(aten.max.dim, rows, 1)
    check(aten.argmin, rows)


def test_nan_sorts_above_infinity() -> None:
    values = torch.tensor([2.0, float("nan"), float("inf"), 1.0, -0.0, 0.0, torch.finfo(torch.float32).max])
    check(aten.sort, values)
    check(aten.sort, values, 0, True)
    check(aten.topk, values, 3)


def test_unsigned_bytes() -> None:
    values = torch.tensor([5, 200, 100], dtype=torch.uint8)
    check(aten.lt.Scalar, values, 150)
    check(aten.ge.Tensor, values, values.flip(0))
    check(aten.sort, values)
    check(aten.argmax, values)
    check(aten.bitwise_right_shift.Tensor, values, torch.ones(3, dtype=torch.uint8))
    check(aten.add.Tensor, values, values)
    check(aten.sum, values)


def test_fmod_is_exact() -> None:
    values = torch.tensor([1e10, -7.5, 1e30, 5.0, -0.0, float("inf")])
    divisors = torch.tensor([3.0, 2.0, 7.0, float("inf"), 2.0, 2.0])
    check(aten.fmod.Tensor, values, divisors)
    check(aten.remainder.Tensor, values, divisors)


POOLS: list[tuple[Any, ...]] = [
    (aten.max_pool2d_with_indices, [3, 2], [2, 2], [1, 0]),
    (aten.max_pool2d_with_indices, [3, 3], [2, 2], [1, 1], [1, 1], True),
    (aten.max_pool2d_with_indices, [2, 2]),
    (aten.avg_pool2d, [3, 2], [2, 2], [1, 1], True),
    (aten.avg_pool2d, [3, 2], [2, 2], [1, 1], False, False),
    (aten.avg_pool2d, [3, 2], [2, 1], [0, 0], False, True, 3),
    (aten._adaptive_avg_pool2d, [1, 1]),
    (aten._adaptive_avg_pool2d, [3, 4]),
]


@pytest.mark.parametrize("call", POOLS, ids=lambda call: f"{call[0]}{call[1:]}")
def test_pool(call: tuple[Any, ...]) -> None:
    check(call[0], torch.randn(2, 3, 8, 7), *call[1:])


def test_pool_gradients() -> None:
    x = torch.randn(2, 3, 8, 7)
    values, indices = aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
    rest = ([3, 3], [2, 2], [1, 1], [1, 1], False)
    check(aten.max_pool2d_with_indices_backward, torch.randn_like(values), x, *rest, indices)
    y = aten.avg_pool2d(x, [3, 2], [2, 2], [1, 1], True, False)
    check(aten.avg_pool2d_backward, torch.randn_like(y), x, [3, 2], [2, 2], [1, 1], True, False, None)
    check(aten._adaptive_avg_pool2d_backward, torch.randn(2, 3, 3, 4), x)


REDUCTIONS: list[tuple[Any, ...]] = [
    (aten.sum.dim_IntList, [0, 2], True),
    (aten.mean.dim, [1]),
    (aten.var_mean.correction, [1]),
    (aten.std.correction, None),
    (aten.logsumexp, [1, 2]),
    (aten.linalg_vector_norm, 3, [1]),
    (aten.prod.dim_int, 1),
    (aten.cumsum, 1),
    (aten.cumprod, 1),
    (aten.cummax, 1),
    (aten.count_nonzero.dim_IntList, [1]),
    (aten.any.dim, 1),
    (aten.median,),
]


@pytest.mark.parametrize("call", REDUCTIONS, ids=lambda call: str(call[0]))
def test_reduction(call: tuple[Any, ...]) -> None:
    check(call[0], torch.randn(2, 3, 4), *call[1:])


ZERO_DIM: list[tuple[Any, ...]] = [
    (aten.sum,),
    (aten.sum.dim_IntList, [0]),
    (aten.logsumexp, [0]),
    (aten.amax, [0]),
    (aten.max.dim, 0),
    (aten.cumsum, 0),
    (aten.sort, 0),
    (aten.any,),
    (aten.linalg_vector_norm, 2),
    (aten._softmax, 0, False),
]


@pytest.mark.parametrize("call", ZERO_DIM, ids=lambda call: str(call[0]))
def test_zero_dim_tensor(call: tuple[Any, ...]) -> None:
    check(call[0], torch.tensor(1.5), *call[1:])


def test_open_slices() -> None:
    largest = 2**63 - 1
    check(aten.slice_scatter, torch.zeros(4, 6), torch.ones(4, 3), 1, 3, largest)
    check(aten.slice_backward, torch.ones(4, 3), [4, 6], 1, 3, largest, 1)
    check(aten.slice_backward, torch.ones(2, 6), [4, 6], 0, 0, largest, 2)
    check(aten.select_backward, torch.ones(6), [4, 6], 0, -1)
    check(aten.diagonal_backward, torch.ones(4), [4, 6], 1, 0, 1)


def test_upsampling_gradients() -> None:
    for name, size, more in (
        ("upsample_nearest2d_backward", [2, 3, 4, 5], (None, None)),
        ("upsample_bilinear2d_backward", [2, 3, 4, 5], (False, None, None)),
        ("upsample_bilinear2d_backward", [2, 3, 4, 5], (True, None, None)),
        ("upsample_bicubic2d_backward", [2, 3, 4, 5], (False, None, None)),
    ):
        check(getattr(aten, name), torch.randn(2, 3, 7, 9), [7, 9], size, *more, rtol=1e-4, atol=1e-4)
