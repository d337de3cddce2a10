"""Element-wise functions that torch-mlir lacks or gets wrong."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .._promotion import cast, computation_dtype, result_type
from .._records import Unlowerable
from .._registry import decompose
from . import exact
from .arithmetic import floating
from .complex import as_complex

aten = torch.ops.aten


def _pair(left: Tensor, right: Tensor, *, real: bool = False) -> tuple[Tensor, Tensor]:
    """Both operands in the common dtype."""
    common = result_type(left, right)
    if real:
        common = floating(common)
    return cast(left, common), cast(right, common)


@decompose(aten.remainder.Tensor, aten.remainder.Scalar_Tensor, aten.remainder.Scalar)
def remainder(self: Tensor, other: Tensor) -> Tensor:
    """The result has the sign of the divisor."""
    left, right = _operands(self, other)
    part = torch.fmod(left, right)
    turned = torch.logical_and(torch.ne(part, 0), torch.ne(torch.lt(part, 0), torch.lt(right, 0)))
    return torch.where(turned, torch.add(part, right), part)


def _operands(left: Tensor | float, right: Tensor | float) -> tuple[Tensor, Tensor]:
    common = result_type(left, right)
    pair = [
        cast(value, common) if isinstance(value, Tensor) else torch.full([], value, dtype=common)
        for value in (left, right)
    ]
    first, second = torch.broadcast_tensors(*pair)
    return first, second


_REDUCTION_BITS = 28
"""Quotients below 2**29 times a float32 divisor are exact in float64."""


@decompose(aten.fmod.Tensor)
def fmod(self: Tensor, other: Tensor) -> Tensor:
    """Exact, as C's fmod; torch-mlir rounds the quotient."""
    left, right = _operands(self, other)
    if left.dtype == torch.bool:
        raise Unlowerable("fmod of booleans")
    if not left.is_floating_point():
        return torch.sub(left, torch.mul(_truncated(left, right), right))
    if left.dtype == torch.float64:
        return exact.fmod(left, right)
    divisor = torch.abs(cast(right, torch.float64))
    rest = torch.abs(cast(left, torch.float64))
    limits = torch.finfo(left.dtype)
    span = math.frexp(limits.max)[1] - math.frexp(limits.smallest_normal)[1] + limits.bits
    for level in reversed(range(-(-span // _REDUCTION_BITS))):
        step = torch.mul(divisor, 2.0 ** (_REDUCTION_BITS * level))
        rest = torch.sub(rest, torch.mul(torch.trunc(torch.div(rest, step)), step))
        rest = torch.where(torch.lt(rest, 0), torch.add(rest, step), rest)
    rest = torch.where(torch.eq(divisor, math.inf), torch.abs(cast(left, torch.float64)), rest)
    invalid = torch.logical_or(torch.eq(torch.abs(left), math.inf), torch.eq(right, 0))
    rest = torch.where(torch.logical_or(invalid, torch.isnan(right)), math.nan, rest)
    return torch.copysign(cast(rest, left.dtype), left)


@decompose(aten.fmod.Scalar)
def fmod_number(self: Tensor, other: float) -> Tensor:
    return torch.fmod(*_operands(self, other))


@decompose(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(self: Tensor, other: Tensor | float) -> Tensor:
    return torch.div(self, other, rounding_mode="floor")


@decompose(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(self: Tensor, other: Tensor | float, *, rounding_mode: str | None) -> Tensor:
    if rounding_mode is None:
        return torch.div(self, other)
    left, right = _operands(self, other)
    if rounding_mode == "trunc" and left.dtype in _INTEGERS and self is left and other is right:
        return NotImplemented
    if not left.is_floating_point():
        return _integer_division(left, right, rounding_mode)
    if rounding_mode == "trunc":
        compute = computation_dtype(left.dtype)
        return cast(torch.trunc(torch.div(cast(left, compute), cast(right, compute))), left.dtype)
    return _floor_division(left, right)


def _integer_division(left: Tensor, right: Tensor, mode: str) -> Tensor:
    """Division of integers truncates in StableHLO."""
    if left.dtype == torch.bool:
        raise Unlowerable("integer division of booleans")
    quotient = _truncated(left, right)
    if mode == "trunc" or left.dtype == torch.uint8:
        return quotient
    exact = torch.eq(torch.mul(quotient, right), left)
    same_sign = torch.eq(torch.lt(left, 0), torch.lt(right, 0))
    return torch.where(torch.logical_or(exact, same_sign), quotient, torch.sub(quotient, 1))


_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


def _truncated(left: Tensor, right: Tensor) -> Tensor:
    return torch.div(left, right, rounding_mode="trunc")


def _floor_division(left: Tensor, right: Tensor) -> Tensor:
    """``div_floor_floating`` of c10/util/generic_math.h."""
    part = torch.fmod(left, right)
    quotient = torch.div(torch.sub(left, part), right)
    turned = torch.logical_and(torch.ne(part, 0), torch.ne(torch.lt(right, 0), torch.lt(part, 0)))
    quotient = torch.where(turned, torch.sub(quotient, 1), quotient)
    floor = torch.floor(quotient)
    floor = torch.where(torch.gt(torch.sub(quotient, floor), 0.5), torch.add(floor, 1), floor)
    signed_zero = torch.copysign(torch.zeros([], dtype=left.dtype), torch.div(left, right))
    result = torch.where(torch.eq(quotient, 0), signed_zero, floor)
    return torch.where(torch.eq(right, 0), torch.div(left, right), result)


@decompose(aten.bitwise_left_shift.Tensor)
def shift(self: Tensor, other: Tensor) -> Tensor:
    """Floats make torch-mlir abort, and operands of different shapes."""
    if self.is_floating_point() or other.is_floating_point() or self.dtype == torch.bool:
        raise Unlowerable("shifts of non-integers")
    if self.shape == other.shape and self.dtype == other.dtype:
        return NotImplemented
    common = result_type(self, other)
    return torch.bitwise_left_shift(*torch.broadcast_tensors(cast(self, common), cast(other, common)))


@decompose(aten.bitwise_right_shift.Tensor)
def shift_right(self: Tensor, other: Tensor) -> Tensor:
    """torch-mlir shifts unsigned bytes as signed ones."""
    common = result_type(self, other)
    if common != torch.uint8:
        if self.is_floating_point() or other.is_floating_point() or self.dtype == torch.bool:
            raise Unlowerable("shifts of non-integers")
        if self.shape == other.shape and self.dtype == other.dtype:
            return NotImplemented
        return torch.bitwise_right_shift(*torch.broadcast_tensors(cast(self, common), cast(other, common)))
    return cast(torch.bitwise_right_shift(cast(self, torch.int32), cast(other, torch.int32)), torch.uint8)


@decompose(aten.fmax.default)
def fmax(self: Tensor, other: Tensor) -> Tensor:
    left, right = _pair(self, other)
    if not left.is_floating_point():
        return torch.maximum(left, right)
    best = torch.where(torch.isnan(left), right, torch.maximum(left, right))
    return torch.where(torch.isnan(right), left, best)


@decompose(aten.fmin.default)
def fmin(self: Tensor, other: Tensor) -> Tensor:
    left, right = _pair(self, other)
    if not left.is_floating_point():
        return torch.minimum(left, right)
    best = torch.where(torch.isnan(left), right, torch.minimum(left, right))
    return torch.where(torch.isnan(right), left, best)


@decompose(aten.isfinite.default)
def isfinite(self: Tensor) -> Tensor:
    if not self.is_floating_point():
        return torch.full(self.shape, True, dtype=torch.bool)
    return torch.lt(torch.abs(self), math.inf)


@decompose(aten.signbit.default)
def signbit(self: Tensor) -> Tensor:
    if not self.is_floating_point():
        return torch.lt(self, 0) if self.dtype != torch.bool else torch.zeros(self.shape, dtype=torch.bool)
    negative_zero = torch.logical_and(torch.eq(self, 0), torch.lt(torch.reciprocal(self), 0))
    return torch.logical_or(torch.lt(self, 0), negative_zero)


@decompose(aten.copysign.Tensor)
def copysign(self: Tensor, other: Tensor) -> Tensor:
    left, right = _pair(self, other, real=True)
    size = torch.abs(left)
    return torch.where(torch.signbit(right), torch.neg(size), size)


@decompose(aten.hypot.default)
def hypot(self: Tensor, other: Tensor) -> Tensor:
    left, right = _pair(self, other)
    compute = computation_dtype(left.dtype)
    a, b = torch.abs(cast(left, compute)), torch.abs(cast(right, compute))
    big, small = torch.maximum(a, b), torch.minimum(a, b)
    ratio = torch.where(torch.eq(big, 0), 0.0, torch.div(small, big))
    length = torch.mul(big, torch.sqrt(torch.add(torch.mul(ratio, ratio), 1.0)))
    infinite = torch.logical_or(torch.eq(a, math.inf), torch.eq(b, math.inf))
    return cast(torch.where(infinite, math.inf, length), left.dtype)


@decompose(aten.sgn.default)
def sgn(self: Tensor) -> Tensor:
    if self.is_complex():
        raise Unlowerable("complex sign")
    return torch.sign(self)


@decompose(aten.frac.default)
def frac(self: Tensor) -> Tensor:
    return torch.sub(self, torch.trunc(self))


@decompose(aten.xlogy.Tensor)
def xlogy(self: Tensor, other: Tensor) -> Tensor:
    left, right = _pair(self, other, real=True)
    product = torch.mul(left, torch.log(right))
    zero = torch.where(torch.eq(left, 0), torch.zeros([], dtype=left.dtype), product)
    return torch.where(torch.isnan(right), right, zero)


@decompose(aten.copy.default)
def copy(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    return cast(src, self.dtype).expand(self.shape).clone()


@decompose(aten.pow.Tensor_Scalar)
def pow_number(self: Tensor, exponent: float) -> Tensor:
    """The special cases of the CPU kernel; the rest goes to the general power."""
    common = result_type(self, exponent)
    base = cast(self, common)
    if exponent == 1:
        return base.clone()
    if exponent == 2:
        return torch.mul(base, base)
    if exponent == 3:
        return torch.mul(torch.mul(base, base), base)
    if exponent == 0:
        return torch.ones(base.shape, dtype=common)
    if not common.is_floating_point:
        if exponent < 0:
            raise Unlowerable("integers to negative powers are an error")
        return torch.pow(base, torch.full([], exponent, dtype=common))
    special = {0.5: torch.sqrt, -0.5: torch.rsqrt, -1: torch.reciprocal}.get(exponent)
    if special is not None:
        return special(base)
    if exponent == -2:
        return torch.reciprocal(torch.mul(base, base))
    return torch.pow(base, torch.full([], exponent, dtype=common))


@decompose(aten.pow.Scalar)
def pow_of_number(self: float, exponent: Tensor) -> Tensor:
    common = result_type(self, exponent)
    return torch.pow(torch.full([], self, dtype=common), cast(exponent, common))


@decompose(aten.isneginf.default)
def isneginf(self: Tensor) -> Tensor:
    return torch.eq(self, -math.inf)


@decompose(aten.isposinf.default)
def isposinf(self: Tensor) -> Tensor:
    return torch.eq(self, math.inf)


@decompose(aten.isinf.default)
def isinf(self: Tensor) -> Tensor:
    if not self.is_floating_point():
        return torch.zeros(self.shape, dtype=torch.bool)
    return torch.eq(torch.abs(self), math.inf)


@decompose(aten.isnan.default)
def isnan(self: Tensor) -> Tensor:
    return torch.ne(self, self) if self.is_floating_point() else torch.zeros(self.shape, dtype=torch.bool)


@decompose(aten.nan_to_num.default)
def nan_to_num(
    self: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    if not self.is_floating_point():
        return self.clone()
    limits = torch.finfo(self.dtype)
    result = torch.where(torch.isnan(self), 0.0 if nan is None else nan, self)
    result = torch.where(torch.eq(self, math.inf), limits.max if posinf is None else posinf, result)
    return torch.where(torch.eq(self, -math.inf), limits.min if neginf is None else neginf, result)


_NARROW_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16})


@decompose(aten._to_copy.default)
def to_copy(self: Tensor, *, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    """StableHLO saturates where C++ goes through int and wraps; float8 types need care that torch-mlir lacks."""
    if dtype is None or dtype == self.dtype:
        return self.clone()
    if dtype.is_complex:
        return as_complex(self, dtype)
    if dtype in _NARROW_INTEGERS and self.is_floating_point():
        return cast(cast(self, torch.int32), dtype)
    if dtype == torch.bool and self.dtype != torch.bool:
        return torch.ne(self, 0)
    return NotImplemented


@decompose(aten.pow.Tensor_Tensor)
def pow_(self: Tensor, exponent: Tensor) -> Tensor:
    """Negative powers of integers are 0, or 1 and -1 for bases of 1 and -1."""
    base, power = _pair(self, exponent)
    if base.is_floating_point():
        return NotImplemented if base is self and power is exponent else torch.pow(base, power)
    if base.dtype == torch.bool:
        raise Unlowerable("powers of booleans")
    raised = _integer_power(base, power)
    odd = torch.ne(torch.bitwise_and(power, 1), 0)
    sign = torch.where(odd, -1, 1)
    small = torch.where(torch.eq(base, 1), 1, torch.where(torch.eq(base, -1), sign, 0))
    return torch.where(torch.lt(power, 0), cast(small, base.dtype), raised)


def _integer_power(base: Tensor, power: Tensor) -> Tensor:
    """By repeated squaring: every product wraps as in C++."""
    result = torch.ones(torch.broadcast_shapes(base.shape, power.shape), dtype=base.dtype)
    for bit in range(min(torch.iinfo(power.dtype).bits - 1, 6)):
        taken = torch.ne(torch.bitwise_and(power, 1 << bit), 0)
        result = torch.where(taken, torch.mul(result, base), result)
        base = torch.mul(base, base)
    return result


_FLOATING_UNARY = """
acos acosh asin asinh atan atanh cos cosh erf exp exp2 expm1 log log10 log1p log2 reciprocal rsqrt sigmoid sin sinh sqrt
tan tanh
""".split()


def _register_floating_unary(name: str) -> None:
    function: Callable[[Tensor], Tensor] = getattr(torch, name)

    def run(self: Tensor) -> Tensor:
        """Integers become floats first; 16-bit floats are computed in float32, as on the CPU."""
        compute = computation_dtype(floating(self.dtype))
        if compute == self.dtype:
            return NotImplemented
        return cast(function(cast(self, compute)), floating(self.dtype))

    decompose(getattr(aten, name).default)(run)


for _name in _FLOATING_UNARY:
    _register_floating_unary(_name)


def _register_unsigned(name: str) -> None:
    op = getattr(aten, name).default
    function: Callable[[Tensor], Tensor] = getattr(torch, name)

    def run(self: Tensor) -> Tensor:
        """Unsigned bytes and booleans by way of int32, which wraps back in the same way."""
        if self.dtype not in (torch.uint8, torch.bool):
            return NotImplemented
        return cast(function(cast(self, torch.int32)), self.dtype)

    decompose(op)(run)


for _name in ("abs", "neg", "sign", "relu"):
    _register_unsigned(_name)
