"""Dtypes, numbers, 0-d and empty tensors: as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.conformance._both import Program, assert_agrees, assert_fails_alike, numbers, programs
from tests.emulated import DEVICE, output_of

NAN, INF = float("nan"), float("inf")


def longs(device: str, *values: int) -> Tensor:
    return torch.tensor(values, device=device)


@pytest.mark.parametrize("rank", [0, 1, 5, 8, 16, 32, 63])
def test_rank(rank: int) -> None:
    assert_agrees(
        lambda d: [
            torch.ones((1,) * rank, device=d) + 1,
            torch.ones((*(1,) * rank, 3), device=d).transpose(0, -1).exp(),
        ]
    )


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
DTYPES += [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
ARITHMETIC: dict[str, Any] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / (y + 1),
    "equal": lambda x, y: x == y,
    "less": lambda x, y: x < y,
    "plus one": lambda x, y: x + 1,
    "times a float": lambda x, y: x * 2.5,
    "minus a bool": lambda x, y: x + True,
    "sum": lambda x, y: x.sum(),
    "product": lambda x, y: x.prod(),
    "max": lambda x, y: x.max(),
    "min": lambda x, y: x.min(),
    "to float": lambda x, y: x.to(torch.float32),
    "to integer": lambda x, y: x.long(),
    "to bool": lambda x, y: x.bool(),
    "cumsum": lambda x, y: x.cumsum(0),
    "where": lambda x, y: torch.where(x > 1, x, y),
    "sort": lambda x, y: x.sort(stable=True)[0],
    "any": lambda x, y: x.any(),
    "power": lambda x, y: x.to(torch.float32) ** 2,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("compute", ARITHMETIC.values(), ids=ARITHMETIC)
def test_dtype(compute: Any, dtype: torch.dtype) -> None:
    assert_agrees(
        lambda d: compute(
            torch.tensor([1, 0, 3, 2], device=d).to(dtype), torch.tensor([2, 1, 1, 0], device=d).to(dtype)
        )
    )


ODD_DTYPES = [torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.uint16, torch.uint32, torch.uint64]


@pytest.mark.parametrize("dtype", ODD_DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_a_rare_dtype_is_kept_in_a_copy(dtype: torch.dtype) -> None:
    host = torch.tensor([1, 2, 64]).to(dtype)
    back = host.to(DEVICE).clone().cpu()
    assert back.dtype == dtype and torch.equal(back.view(torch.uint8), host.view(torch.uint8))


WIDE: dict[str, Program] = {
    "beyond 32 bits": lambda d: longs(d, 2**40, -(2**50)) * 3,
    "the largest integer": lambda d: longs(d, 2**63 - 1, -(2**63)) + 1,
    "small float64": lambda d: torch.tensor([1e-300], dtype=torch.float64, device=d) * 2,
    "float64 in full": lambda d: torch.tensor([1 / 3], dtype=torch.float64, device=d).exp(),
    "sum of int32 is int64": lambda d: torch.full((3,), 2**31 - 1, dtype=torch.int32, device=d).sum(),
    "shift": lambda d: longs(d, 1) << 40,
    "matrix of integers": lambda d: longs(d, 2**33, 1).reshape(1, 2) @ longs(d, 3, 4).reshape(2, 1),
    "complex128": lambda d: torch.tensor([3 + 4j], dtype=torch.complex128, device=d).exp(),
    "complex64": lambda d: torch.tensor([[3 + 4j]], device=d) @ torch.tensor([[3 + 4j]], device=d),
    "complex numbers that are a part of what is compiled": lambda d: torch.linspace(
        0j, 1 + 2j, 3, dtype=torch.complex64, device=d
    ),
    "uint8 wraps": lambda d: -torch.tensor([1], dtype=torch.uint8, device=d),
    "int8 absolute": lambda d: torch.tensor([-128], dtype=torch.int8, device=d).abs(),
    "bools add up": lambda d: torch.ones(300, dtype=torch.bool, device=d).sum(),
    "bool and bool": lambda d: torch.tensor([True], device=d) + torch.tensor([True], device=d),
    "bool inverted": lambda d: ~torch.tensor([True, False], device=d),
    "maximum with a nan": lambda d: torch.tensor([1, NAN, 2], device=d).max(),
    "sort with a nan": lambda d: torch.tensor([1, NAN, -2], device=d).sort()[0],
    "argmax with a nan": lambda d: torch.tensor([1, NAN, 2], device=d).argmax(),
    "infinities": lambda d: torch.tensor([-INF, -INF], device=d).max(),
    "division by zero": lambda d: torch.tensor([1.0, -1.0, 0.0], device=d) / 0,
    "negative zero": lambda d: 1 / torch.tensor([-0.0], device=d),
}


@programs(WIDE)
def test_extreme_value(program: Program) -> None:
    assert_agrees(program)


NUMBERS = [2**63 - 1, -(2**63), INF, NAN, True, 1 + 2j, 0.1, -0.0]


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("number", NUMBERS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool], ids=str)
def test_a_tensor_and_a_number(dtype: torch.dtype, number: Any) -> None:
    assert_agrees(
        lambda d: [torch.ones(2, dtype=dtype, device=d) + number, torch.ones(2, dtype=dtype, device=d) == number]
    )


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(torch.int8, 300), (torch.uint8, 2**40), (torch.int64, INF), (torch.int64, NAN), (torch.float16, 1e300)],
    ids=str,
)
@pytest.mark.parametrize(
    "use",
    [
        lambda x, number: x.masked_fill(x > 0, number),
        lambda x, number: torch.full_like(x, number),
        lambda x, number: x.fill_(number),
    ],
    ids=["masked_fill", "full_like", "fill_"],
)
def test_a_number_that_does_not_fit_is_refused(use: Any, dtype: torch.dtype, number: Any) -> None:
    assert_fails_alike(lambda d: use(torch.ones(2, dtype=dtype, device=d), number))


SCALARS: dict[str, Program] = {
    "both on the device": lambda d: torch.tensor(2.0, device=d) + torch.tensor(3, device=d),
    "vector and 0-d float64": lambda d: torch.ones(2, device=d) + torch.tensor(3.0, dtype=torch.float64, device=d),
    "vector and host float64": lambda d: torch.ones(2, device=d) + torch.tensor(3.0, dtype=torch.float64),
    "host and vector": lambda d: torch.tensor(3.0, dtype=torch.float64) + torch.ones(2, device=d),
    "host integer and int8": lambda d: torch.tensor(300) + torch.ones(2, dtype=torch.int8, device=d),
    "host and 0-d": lambda d: torch.tensor(300) / torch.tensor(7, device=d),
    "where of numbers": lambda d: torch.where(torch.tensor([True, False], device=d), 1, 2.5),
    "where with a host scalar": lambda d: torch.where(
        torch.tensor([True, False], device=d), torch.tensor(1), torch.ones(2, device=d)
    ),
    "lerp": lambda d: torch.lerp(torch.ones(2, device=d), torch.zeros(2, device=d), torch.tensor(0.3)),
    "addcdiv": lambda d: torch.addcdiv(
        torch.ones(2, device=d), torch.ones(2, device=d), torch.zeros(2, device=d), value=2
    ),
    "reversed": lambda d: 1 - torch.ones(2, device=d),
    "reversed power": lambda d: 2 ** torch.ones(2, device=d),
    "alpha": lambda d: torch.add(longs(d, 1), longs(d, 2), alpha=2**40),
    "python numbers": lambda d: [
        int(longs(d, 3)),
        float(longs(d, 3)),
        bool(longs(d, 3)),
        complex(longs(d, 3)),
        longs(d, 3).item(),
    ],
    "as an index": lambda d: [10, 20, 30][torch.tensor(1, device=d)],
    "range": lambda d: list(range(torch.tensor(3, device=d))),
}


@programs(SCALARS)
def test_scalar(program: Program) -> None:
    assert_agrees(program)


def test_int_division_follows_the_default_dtype() -> None:
    try:
        torch.set_default_dtype(torch.float64)
        assert_agrees(lambda d: longs(d, 1, 2) / 3)
    finally:
        torch.set_default_dtype(torch.float32)
    assert_agrees(lambda d: longs(d, 1, 2) / 3)


def none(device: str, *sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(sizes or (0, 3), dtype=dtype, device=device)


EMPTIES: dict[str, Program] = {
    "add": lambda d: none(d) + 1,
    "add_": lambda d: none(d).add_(1),
    "sum": lambda d: [none(d).sum(), none(d).sum(0), none(d).sum(1)],
    "mean": lambda d: [none(d).mean(), none(d).mean(0)],
    "prod": lambda d: none(d).prod(),
    "all and any": lambda d: [none(d).all(), none(d).any(1)],
    "max along the other dimension": lambda d: none(d).max(1)[0],
    "amax along the other dimension": lambda d: none(d, 2, 0, 3).amax(2),
    "logsumexp": lambda d: [none(d).logsumexp(0), none(d).logsumexp(1)],
    "norm": lambda d: none(d).norm(),
    "cumsum": lambda d: none(d).cumsum(0),
    "softmax": lambda d: none(d).softmax(0),
    "sort": lambda d: none(d).sort(0)[0],
    "topk of none": lambda d: numbers(d, 3).topk(0)[0],
    "no rows": lambda d: none(d) @ torch.ones(3, 4, device=d),
    "nothing summed": lambda d: torch.ones(3, 0, device=d) @ torch.ones(0, 2, device=d),
    "nothing summed, added": lambda d: torch.addmm(
        torch.ones(2, device=d), torch.ones(3, 0, device=d), torch.ones(0, 2, device=d)
    ),
    "nothing summed in a batch": lambda d: torch.ones(2, 3, 0, device=d) @ torch.ones(2, 0, 2, device=d),
    "dot": lambda d: none(d, 0) @ none(d, 0),
    "linear": lambda d: F.linear(torch.ones(3, 0, device=d), torch.ones(2, 0, device=d), torch.ones(2, device=d)),
    "convolution": lambda d: F.conv2d(none(d, 0, 3, 5, 5), torch.ones(2, 3, 3, 3, device=d)),
    "layer_norm": lambda d: F.layer_norm(none(d), (3,)),
    "cross_entropy": lambda d: F.cross_entropy(none(d), none(d, 0, dtype=torch.long)),
    "mse_loss": lambda d: F.mse_loss(none(d), none(d)),
    "embedding": lambda d: F.embedding(none(d, 0, 2, dtype=torch.long), torch.ones(3, 4, device=d)),
    "cat": lambda d: torch.cat([none(d), torch.ones(2, 3, device=d)]),
    "cat with the legacy empty": lambda d: torch.cat([none(d, 0), torch.ones(2, 3, device=d)]),
    "cat of nothing": lambda d: torch.cat([none(d), none(d)]),
    "stack": lambda d: torch.stack([none(d), none(d)]),
    "nonzero": lambda d: torch.nonzero(torch.zeros(3, device=d)),
    "masked": lambda d: none(d)[none(d) > 0],
    "pad": lambda d: F.pad(none(d), (1, 1, 1, 1)),
    "repeat": lambda d: torch.ones(3, device=d).repeat(0),
    "expand": lambda d: torch.ones(1, 3, device=d).expand(0, 3) + 1,
    "gather": lambda d: torch.ones(3, 3, device=d).gather(0, none(d, 0, 3, dtype=torch.long)),
    "index_add": lambda d: torch.ones(3, device=d).index_add(0, none(d, 0, dtype=torch.long), none(d, 0)),
    "scatter": lambda d: torch.ones(3, device=d).scatter(0, none(d, 0, dtype=torch.long), 1.0),
    "index": lambda d: numbers(d, 3)[none(d, 0, dtype=torch.long)],
    "factories": lambda d: [
        torch.eye(0, device=d),
        torch.arange(0, device=d),
        torch.rand(0, 3, device=d),
        torch.randperm(0, device=d),
    ],
    "attention without queries": lambda d: F.scaled_dot_product_attention(
        torch.ones(1, 1, 0, 4, device=d), torch.ones(1, 1, 3, 4, device=d), torch.ones(1, 1, 3, 4, device=d)
    ),
    "reshape": lambda d: [
        none(d, 2, 0, 3).flatten(),
        none(d, 2, 0, 3).view(0, 7),
        none(d, 2, 0, 3).permute(2, 0, 1) + 1,
    ],
    "split": lambda d: list(none(d).split(1)),
    "unique": lambda d: torch.unique(none(d)),
    "dropout": lambda d: F.dropout(none(d), 0.5),
    "foreach": lambda d: list(torch._foreach_add([none(d), torch.ones(2, device=d)], 1)),
    "equal": lambda d: torch.equal(none(d), none(d)),
    "to a list": lambda d: none(d).tolist(),
    "interpolate": lambda d: F.max_pool2d(none(d, 0, 1, 4, 4), 2),
}


@programs(EMPTIES)
def test_empty(program: Program) -> None:
    assert_agrees(program)


def test_an_empty_input_of_cat_widens_the_result() -> None:
    assert_agrees(lambda d: torch.cat([none(d, 0, dtype=torch.float64), torch.ones(2, device=d)]))


CAT = """
import torch
x = torch.ones(5, 4, device="neuron")
results = [torch.cat(parts).sum().item() for parts in ({parts})]
print(results)
"""


@pytest.mark.parametrize(
    ("parts", "expected"),
    [("[x, x[:0], x], [x, x]", "[40.0, 40.0]"), ("[x, x], [x, x[:0], x]", "[40.0, 40.0]")],
    ids=["first", "last"],
)
def test_cat_with_and_without_an_empty_input(parts: str, expected: str, tmp_path: Path) -> None:
    assert output_of(CAT.format(parts=parts), TORCH_NEURONX_NEFF_CACHE_DIR=str(tmp_path)) == expected


GROUPED: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "rows": ((8, 16), (3, 16, 8)),
    "columns": ((3, 8, 16), (16, 8)),
    "sums": ((8, 16), (16, 8)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shapes", GROUPED.values(), ids=GROUPED)
def test_a_grouped_product(shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype) -> None:
    last = 16 if shapes == GROUPED["sums"] else 8

    def program(device: str) -> Tensor:
        ends = torch.tensor([3, 3, last], dtype=torch.int32, device=device)
        left, right = (torch.randn(shape).to(device, dtype) for shape in shapes)
        result: Tensor = torch._grouped_mm(left, right, offs=ends)
        return result

    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    assert_agrees(program, rtol=tolerance, atol=tolerance)


LONG = {
    "vector": ((10_000,), 0),
    "large": ((300_000,), 0),
    "first": ((4, 1, 20_000), 0),
    "large, first": ((4, 1, 80_000), 0),
    "first of a stack": ((128, 3, 128), 0),
    "middle": ((2, 128, 128), 1),
    "last of one": ((1, 20_000), 1),
}


@pytest.mark.parametrize(("sizes", "dim"), LONG.values(), ids=LONG)
@pytest.mark.parametrize("function", ["softmax", "log_softmax", "logsumexp"])
def test_many_elements_are_reduced_and_spread_again(function: str, sizes: tuple[int, ...], dim: int) -> None:
    """XLA's library fusion of the two killed the process, or gave wrong values."""
    assert_agrees(lambda d: getattr(numbers(d, *sizes), function)(dim), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", [(3, 128, 128), (3, 3, 20_000), (128, 3, 128)])
def test_the_gradient_of_a_softmax_along_the_first_dimension(sizes: tuple[int, ...]) -> None:
    def program(d: str) -> Tensor:
        x = numbers(d, *sizes).requires_grad_()
        (x.softmax(0) * numbers(d, *sizes)).sum().backward()
        assert x.grad is not None
        return x.grad

    assert_agrees(program, rtol=1e-4, atol=1e-5)


def test_many_indices_fill_a_long_dimension() -> None:
    """Comparing every index with every place would take 5 GB."""
    assert_agrees(lambda d: torch.zeros(100_000, 2, device=d).index_fill(0, torch.arange(-99_999, 0, 2, device=d), 1.5))


LONG_INTERPOLATIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "nearest": ((2, 3, 700), (1400,)),
    "nearest-exact": ((2, 3, 700), (301,)),
    "linear": ((2, 3, 700), (1401,)),
    "bilinear": ((1, 2, 5, 600), (9, 1201)),
    "bicubic": ((1, 2, 600, 5), (301, 9)),
}


@pytest.mark.parametrize(("mode", "sizes"), LONG_INTERPOLATIONS.items(), ids=LONG_INTERPOLATIONS)
def test_the_gradient_of_an_interpolation_along_a_long_dimension(
    mode: str, sizes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    def program(d: str) -> Tensor:
        x = torch.randn(sizes[0]).to(d).requires_grad_()
        y = F.interpolate(x, size=sizes[1], mode=mode)
        (y * torch.randn(y.shape).to(d)).sum().backward()
        assert x.grad is not None
        return x.grad

    assert_agrees(program, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("function", [torch.dot, torch.vdot, torch.inner], ids=["dot", "vdot", "inner"])
def test_the_product_of_long_vectors_keeps_its_digits(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    x = torch.rand(300_000)
    found = function(x.to(DEVICE), x.to(DEVICE)).item()
    assert found == pytest.approx(function(x.double(), x.double()).item(), rel=2e-6)
