"""Rules for the ops whose ``Scalar`` arguments become inputs: fills, bounds, selections, weights."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._promotion import Number, Operand, as_tensor, cast, computation_dtype, result_type
from .._registry import decompose, rule
from .arithmetic import floating

aten = torch.ops.aten


def tensor_of(value: Operand, dtype: torch.dtype) -> Tensor:
    """Always a tensor: static numbers become 0-d constants."""
    found = as_tensor(value, dtype)
    return found if isinstance(found, Tensor) else torch.full([], found, dtype=dtype)


@rule(aten.fill.Scalar, aten.fill.Tensor, lifts="value")
@decompose(aten.fill.Scalar, aten.fill.Tensor)
def fill(self: Tensor, value: Operand) -> Tensor:
    return tensor_of(value, self.dtype).expand(self.shape).clone()


@decompose(aten.zero.default)
def zero(self: Tensor) -> Tensor:
    return torch.zeros(self.shape, dtype=self.dtype)


@rule(aten.full.default, lifts="fill_value")
def full(size: Sequence[int], fill_value: Operand, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return tensor_of(fill_value, dtype or result_type(fill_value)).expand(list(size)).clone()


@rule(aten.full_like.default, lifts="fill_value")
def full_like(self: Tensor, fill_value: Operand, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return tensor_of(fill_value, dtype or self.dtype).expand(self.shape).clone()


@rule(aten.new_full.default, lifts="fill_value")
def new_full(
    self: Tensor, size: Sequence[int], fill_value: Operand, *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    return tensor_of(fill_value, dtype or self.dtype).expand(list(size)).clone()


@rule(aten.scalar_tensor.default, lifts="s")
def scalar_tensor(s: Operand, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return tensor_of(s, dtype or torch.get_default_dtype()).clone()


@rule(aten.masked_fill.Scalar, aten.masked_fill.Tensor, lifts="value")
@decompose(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(self: Tensor, mask: Tensor, value: Operand) -> Tensor:
    return aten.where.self(mask, tensor_of(value, self.dtype), self)


@rule(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar, lifts="self other")
@decompose(aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def where(condition: Tensor, self: Operand, other: Operand) -> Tensor:
    common = result_type(self, other)
    return aten.where.self(condition, tensor_of(self, common), tensor_of(other, common))


@decompose(aten.where.self)
def where_promoted(condition: Tensor, self: Tensor, other: Tensor) -> Tensor:
    if self.dtype == other.dtype and condition.dtype == torch.bool:
        return NotImplemented
    common = result_type(self, other)
    return torch.where(cast(condition, torch.bool), cast(self, common), cast(other, common))


def _bounded(value: Tensor, low: Tensor | None, high: Tensor | None) -> Tensor:
    if low is not None:
        value = torch.maximum(value, low)
    return value if high is None else torch.minimum(value, high)


@rule(aten.clamp.default, aten.clamp.Tensor, lifts="min max")
@decompose(aten.clamp.default, aten.clamp.Tensor)
def clamp(self: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    common = result_type(self, min, max)
    low = None if min is None else tensor_of(min, common)
    high = None if max is None else tensor_of(max, common)
    return _bounded(cast(self, common), low, high)


@rule(aten.clamp_min.default, aten.clamp_min.Tensor, lifts="min")
@decompose(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(self: Tensor, min: Operand) -> Tensor:
    return clamp(self, min)


@rule(aten.clamp_max.default, aten.clamp_max.Tensor, lifts="max")
@decompose(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(self: Tensor, max: Operand) -> Tensor:
    return clamp(self, None, max)


def _common(function: Callable[..., Tensor], *, real: bool = False) -> Callable[..., Tensor]:
    """Rule for kernels that first cast both operands to the common dtype."""

    def run(self: Operand, other: Operand) -> Tensor:
        common = result_type(self, other)
        if real:
            common = floating(common)
        return function(tensor_of(self, common), tensor_of(other, common))

    return run


rule(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor, lifts="self other")(
    _common(torch.remainder)
)
rule(aten.fmod.Tensor, aten.fmod.Scalar, lifts="other")(_common(torch.fmod))
rule(aten.atan2.default)(_common(torch.atan2, real=True))
rule(aten.maximum.default)(_common(torch.maximum))
rule(aten.minimum.default)(_common(torch.minimum))
rule(aten.copysign.Tensor, aten.copysign.Scalar, lifts="other")(_common(torch.copysign, real=True))
rule(aten.xlogy.Tensor, aten.xlogy.Scalar_Other, aten.xlogy.Scalar_Self, lifts="self other")(
    _common(torch.xlogy, real=True)
)
rule(aten.floor_divide.default, aten.floor_divide.Scalar, lifts="other")(_common(torch.floor_divide))
for _name in ("logical_and", "logical_or", "logical_xor"):
    rule(getattr(aten, _name).default)(_common(getattr(torch, _name)))


@rule(aten.pow.Tensor_Tensor, aten.pow.Scalar, lifts="self")
def pow_(self: Operand, exponent: Operand) -> Tensor:
    """The exponent is never lifted: its value decides errors (negative powers of integers) and exact cases (x**2)."""
    common = result_type(self, exponent)
    return torch.pow(tensor_of(self, common), tensor_of(exponent, common))


@rule(aten.div.Tensor_mode, aten.div.Scalar_mode, lifts="other")
def div_mode(self: Operand, other: Operand, *, rounding_mode: str | None) -> Tensor:
    common = result_type(self, other)
    if rounding_mode is None:
        common = floating(common)
    return torch.div(tensor_of(self, common), tensor_of(other, common), rounding_mode=rounding_mode)


@rule(aten.lerp.Scalar, lifts="weight")
@decompose(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(self: Tensor, end: Tensor, weight: Operand) -> Tensor:
    """Both ends exact, as ATen: from the far end when ``weight`` is at least one half."""
    compute = computation_dtype(self.dtype)
    start, stop = cast(self, compute), cast(end, compute)
    part = tensor_of(weight, compute)
    gap = torch.sub(stop, start)
    near = torch.add(start, torch.mul(part, gap))
    far = torch.sub(stop, torch.mul(gap, torch.sub(1.0, part)))
    return cast(torch.where(torch.lt(torch.abs(part), 0.5), near, far), self.dtype)


@rule(aten.addcmul.default, lifts="value")
@decompose(aten.addcmul.default)
def addcmul(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Operand = 1) -> Tensor:
    return _addc(self, tensor1, tensor2, value, torch.mul)


@rule(aten.addcdiv.default, lifts="value")
@decompose(aten.addcdiv.default)
def addcdiv(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Operand = 1) -> Tensor:
    return _addc(self, tensor1, tensor2, value, torch.div)


def _addc(self: Tensor, left: Tensor, right: Tensor, value: Operand, function: Callable[..., Tensor]) -> Tensor:
    common = result_type(self, left, right)
    compute = computation_dtype(common)
    first = cast(left, compute)
    if isinstance(value, Number) or value != 1:
        first = torch.mul(as_tensor(value, compute), first)
    return cast(torch.add(cast(self, compute), function(first, cast(right, compute))), common)


@rule(aten.index_add.default, lifts="alpha")
@decompose(aten.index_add.default)
def index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Operand = 1) -> Tensor:
    if isinstance(alpha, Number) or alpha != 1:
        source = torch.mul(source, as_tensor(alpha, source.dtype))
    if self.dim() == 0:
        return torch.add(self, torch.sum(torch.reshape(source, [-1]), [0]))
    dim %= self.dim()
    shape = [-1 if d == dim else 1 for d in range(self.dim())]
    spread = torch.reshape(index, shape).expand(source.shape)
    return torch.scatter_add(self, dim, spread, source)


@rule(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor, lifts="value")
@decompose(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(self: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    if self.dim() == 0:
        return tensor_of(value, self.dtype).clone()
    dim %= self.dim()
    flat = torch.reshape(index, [-1])
    size = self.size(dim)
    flat = torch.where(torch.lt(flat, 0), torch.add(flat, size), flat)
    chosen = torch.scatter(torch.zeros([size], dtype=torch.bool), 0, flat, torch.ones(flat.shape, dtype=torch.bool))
    mask = torch.reshape(chosen, [size if d == dim else 1 for d in range(self.dim())])
    return torch.where(mask, tensor_of(value, self.dtype), self)


@rule(aten.scatter.value, lifts="value")
@decompose(aten.scatter.value)
def scatter_value(self: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    return torch.scatter(self, dim, index, tensor_of(value, self.dtype).expand(index.shape).clone())


@rule(aten.constant_pad_nd.default, lifts="value")
def constant_pad_nd(self: Tensor, pad: Sequence[int], value: Operand = 0) -> Tensor:
    """Pad a mask with zeros alongside, then put the number where the mask says."""
    inside = torch.ones(self.shape, dtype=torch.bool)
    padded = aten.constant_pad_nd.default(self, list(pad), 0)
    kept = aten.constant_pad_nd.default(inside, list(pad), False)
    return torch.where(kept, padded, tensor_of(value, self.dtype))


@rule(aten.isin.Tensor_Scalar, lifts="test_element")
def isin(elements: Tensor, test_element: Operand, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    common = result_type(elements, test_element)
    compare = torch.ne if invert else torch.eq
    return compare(cast(elements, common), tensor_of(test_element, common))


@rule(aten.float_power.Scalar, lifts="self")
def float_power(self: Operand, exponent: Tensor) -> Tensor:
    return torch.pow(tensor_of(self, torch.float64), cast(exponent, torch.float64))
