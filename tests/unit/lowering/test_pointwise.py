from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ._runner import Wrapped, check

aten = torch.ops.aten

FLOATS = torch.tensor([[-2.5, -1.0, -0.25, 0.0], [0.5, 1.0, 2.75, 3.5]])
INTS = torch.arange(-4, 4)
SELVES = {
    "f32": FLOATS,
    "bf16": FLOATS.bfloat16(),
    "f16": FLOATS.half(),
    "f64": FLOATS.double(),
    "i64": INTS,
    "i32": INTS.int(),
}
BINARY = {
    "add": aten.add.Tensor,
    "sub": aten.sub.Tensor,
    "mul": aten.mul.Tensor,
    "div": aten.div.Tensor,
    "remainder": aten.remainder.Tensor,
    "fmod": aten.fmod.Tensor,
    "floor_divide": aten.floor_divide.default,
}


def _python(name: str) -> Any:
    return getattr(torch, name)


@pytest.mark.parametrize("kind", SELVES)
@pytest.mark.parametrize("name", BINARY)
def test_wrapped_number_promotes_and_rounds_as_on_the_cpu(name: str, kind: str) -> None:
    for number in (1.1, -3):
        check(BINARY[name], SELVES[kind], Wrapped(number), reference=_python(name))


@pytest.mark.parametrize("kind", SELVES)
def test_rsub_of_number(kind: str) -> None:
    check(aten.rsub.Scalar, SELVES[kind], 1.1)


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparison_with_number(name: str) -> None:
    for self in (FLOATS, FLOATS.bfloat16(), INTS, FLOATS > 0):
        check(getattr(aten, name).Scalar, self, 0.5)
        check(getattr(aten, name).Scalar, self, True)
    check(getattr(aten, name).Tensor, FLOATS > 0, FLOATS < 1)


def test_alpha_is_rounded_once() -> None:
    for self in (FLOATS, FLOATS.bfloat16()):
        check(aten.add.Tensor, self, self, alpha=0.3)
        check(aten.sub_.Tensor, self, self, alpha=-2)
    check(aten.add_.Tensor, INTS, INTS, alpha=2)


def test_booleans_add_as_logical_or() -> None:
    flags = FLOATS > 0
    check(aten.add.Tensor, flags, flags)
    check(aten.add.Tensor, flags, Wrapped(1))
    check(aten.mul.Tensor, flags, Wrapped(1.5))


def test_zero_dim_tensors_promote_by_kind() -> None:
    check(aten.add.Tensor, torch.tensor(2), Wrapped(1.5))
    check(aten.add.Tensor, FLOATS, torch.tensor(2.0, dtype=torch.float64))
    check(aten.mul.Tensor, FLOATS.bfloat16(), torch.tensor(2.1))


@pytest.mark.parametrize("number", [0.5, 1, True])
def test_where_promotes_numbers(number: float) -> None:
    mask = FLOATS > 0
    check(aten.where.self, mask, FLOATS, Wrapped(number), reference=torch.where)
    check(aten.where.self, mask, Wrapped(number), Wrapped(0), reference=torch.where)


NUMBERED: list[tuple[Any, ...]] = [
    (aten.clamp, FLOATS, -0.5, 0.5),
    (aten.clamp, FLOATS.bfloat16(), -0.55, 0.51),
    (aten.clamp, INTS, -1.5, 2),
    (aten.clamp, FLOATS, None, 0.5),
    (aten.clamp_min_, FLOATS, 0.1),
    (aten.fill_.Scalar, FLOATS, 3.3),
    (aten.fill_.Scalar, INTS, 3.7),
    (aten.zero_, FLOATS),
    (aten.masked_fill.Scalar, FLOATS, FLOATS > 0, -1e9),
    (aten.masked_fill_.Scalar, FLOATS.bfloat16(), FLOATS > 0, float("-inf")),
    (aten.pow.Tensor_Scalar, FLOATS, 2),
    (aten.pow.Tensor_Scalar, FLOATS.abs(), 0.5),
    (aten.pow.Tensor_Scalar, FLOATS.abs(), 2.3),
    (aten.pow.Tensor_Scalar, INTS, 3),
    (aten.pow.Scalar, 2, INTS.abs()),
    (aten.pow.Scalar, 2.5, INTS),
    (aten.pow.Tensor_Tensor, INTS, INTS),
    (aten.bitwise_and.Scalar, INTS, 3),
    (aten.bitwise_left_shift.Tensor_Scalar, INTS, 2),
    (aten.lerp.Scalar, FLOATS, FLOATS * 2, 0.3),
    (aten.lerp_.Scalar, FLOATS, FLOATS * 2, 0.9),
    (aten.leaky_relu, FLOATS, 0.2),
    (aten.elu, FLOATS, 1.5, 1.0, 1.0),
    (aten.softplus, FLOATS, 1, 20),
    (aten.threshold, FLOATS, 0.1, 0.2),
    (aten.hardtanh_, FLOATS, -0.5, 0.5),
    (aten.softshrink, FLOATS, 0.6),
    (aten.constant_pad_nd, FLOATS, [1, 2], 1.5),
    (aten.erfinv, FLOATS / 3),
    (aten.erf, INTS),
    (aten.reciprocal, INTS + 10),
    (aten.signbit, torch.tensor([0.0, -0.0, 1.0, -1.0])),
    (aten.nan_to_num, torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0])),
]


@pytest.mark.parametrize("call", NUMBERED, ids=lambda call: str(call[0]))
def test_op_with_numbers(call: tuple[Any, ...]) -> None:
    check(*call)


def test_add_products_take_value() -> None:
    check(aten.addcmul, FLOATS, FLOATS, FLOATS, value=0.3)
    check(aten.addcmul, *[FLOATS.bfloat16()] * 3, value=0.3)
    check(aten.addcdiv_, FLOATS, FLOATS, FLOATS.abs() + 1, value=-0.3)


def test_module_does_not_depend_on_the_number() -> None:
    first = check(aten.add.Tensor, FLOATS, Wrapped(1.5))
    second = check(aten.add.Tensor, FLOATS, Wrapped(2.5))
    assert first.stablehlo == second.stablehlo


CASTS = [
    (FLOATS * 10, torch.int64),
    (FLOATS * 10, torch.int8),
    (FLOATS * 10, torch.uint8),
    (FLOATS, torch.bool),
    (torch.tensor([0.0, float("nan")]), torch.bool),
    (INTS, torch.uint8),
    (INTS, torch.bfloat16),
    (FLOATS.double(), torch.bfloat16),
    (FLOATS > 0, torch.float32),
]


@pytest.mark.parametrize(("tensor", "dtype"), CASTS)
def test_cast_as_c(tensor: Tensor, dtype: torch.dtype) -> None:
    check(aten._to_copy, tensor, dtype=dtype)


def test_nan_goes_through_bounds_and_extremes() -> None:
    values = torch.tensor([1.0, float("nan"), -3.0])
    check(aten.clamp, values, -1, 0.5)
    check(aten.amax, values, [0])
    check(aten.max.dim, values, 0)
    check(aten.argmin, values)
    check(aten.maximum, values, torch.zeros(3))
