"""``_foreach_*``: one module with a loop over the tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._promotion import Number, Operand, cast, computation_dtype
from .._registry import decompose, rule
from . import arithmetic, numbers

aten = torch.ops.aten
Tensors = Sequence[Tensor]

_UNARY = """
abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt
sigmoid sign sin sinh sqrt tan tanh trunc
""".split()


def _register_unary(name: str) -> None:
    function: Callable[[Tensor], Tensor] = getattr(torch, name)
    packet = getattr(aten, f"_foreach_{name}", None)
    if packet is not None:
        decompose(packet.default)(lambda self: [function(tensor) for tensor in self])


for _name in _UNARY:
    _register_unary(_name)


@decompose(aten._foreach_zero.default)
def zero(self: Tensors) -> list[Tensor]:
    return [torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in self]


@decompose(aten._foreach_clone.default)
def clone(self: Tensors, *, memory_format: object = None) -> list[Tensor]:
    return [tensor.clone() for tensor in self]


@decompose(aten._foreach_copy.default)
def copy(self: Tensors, src: Tensors, non_blocking: bool = False) -> list[Tensor]:
    return [cast(new, old.dtype).expand(old.shape).clone() for old, new in zip(self, src, strict=True)]


def _register_binary(name: str, function: Callable[..., Tensor]) -> None:
    packet = getattr(aten, f"_foreach_{name}")

    def by_number(self: Tensors, scalar: Operand) -> list[Tensor]:
        return [function(tensor, scalar) for tensor in self]

    def by_list(self: Tensors, other: Sequence[Any], *, alpha: Operand = 1) -> list[Tensor]:
        more = {} if not isinstance(alpha, Number) and alpha == 1 else {"alpha": alpha}
        return [function(tensor, item, **more) for tensor, item in zip(self, other, strict=True)]

    def by_tensor(self: Tensors, other: Operand, *, alpha: Operand = 1) -> list[Tensor]:
        return by_list(self, [other] * len(self), alpha=alpha)

    lifts = "scalar scalars exponent alpha"
    runners: dict[str, Callable[..., list[Tensor]]] = {
        "Scalar": by_number,
        "ScalarList": by_list,
        "List": by_list,
        "Tensor": by_tensor,
    }
    for overload in set(packet.overloads()) & runners.keys():
        op = getattr(packet, overload)
        rule(op, lifts=lifts)(runners[overload])
        decompose(op)(runners[overload])


for _name, _function in {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "div": arithmetic.div,
    "clamp_min": numbers.clamp_min,
    "clamp_max": numbers.clamp_max,
    "maximum": numbers.clamp_min,
    "minimum": numbers.clamp_max,
}.items():
    _register_binary(_name, _function)


@decompose(aten._foreach_pow.Scalar)
def pow_scalar(self: Tensors, exponent: Any) -> list[Tensor]:
    return [torch.pow(tensor, exponent) for tensor in self]


@decompose(aten._foreach_pow.List, aten._foreach_pow.ScalarList)
def pow_list(self: Tensors, exponent: Sequence[Any]) -> list[Tensor]:
    return [torch.pow(tensor, power) for tensor, power in zip(self, exponent, strict=True)]


@rule(aten._foreach_pow.ScalarAndTensor, lifts="self")
@decompose(aten._foreach_pow.ScalarAndTensor)
def pow_number(self: Operand, exponent: Tensors) -> list[Tensor]:
    return [numbers.pow_(self, power) for power in exponent]


def _register_pointwise(name: str, function: Callable[..., Tensor]) -> None:
    packet = getattr(aten, f"_foreach_{name}")

    def by_number(self: Tensors, tensor1: Tensors, tensor2: Tensors, value: Operand = 1) -> list[Tensor]:
        return [function(a, b, c, value=value) for a, b, c in zip(self, tensor1, tensor2, strict=True)]

    def by_list(self: Tensors, tensor1: Tensors, tensor2: Tensors, scalars: Sequence[Any]) -> list[Tensor]:
        groups = zip(self, tensor1, tensor2, scalars, strict=True)
        return [function(a, b, c, value=value) for a, b, c, value in groups]

    def by_tensor(self: Tensors, tensor1: Tensors, tensor2: Tensors, scalars: Tensor) -> list[Tensor]:
        values = [torch.select(scalars, 0, i) for i in range(len(self))]
        parts = zip(self, tensor1, tensor2, values, strict=True)
        return [function(a, b, c, value=Number(value)) for a, b, c, value in parts]

    rule(packet.Scalar, lifts="value")(by_number)
    decompose(packet.Scalar)(by_number)
    rule(packet.ScalarList, lifts="scalars")(by_list)
    decompose(packet.ScalarList)(by_list)
    decompose(packet.Tensor)(by_tensor)


_register_pointwise("addcmul", numbers.addcmul)
_register_pointwise("addcdiv", numbers.addcdiv)


@rule(aten._foreach_lerp.Scalar, lifts="weight")
@decompose(aten._foreach_lerp.Scalar)
def lerp_scalar(self: Tensors, tensors1: Tensors, weight: Operand) -> list[Tensor]:
    return [numbers.lerp(start, end, weight) for start, end in zip(self, tensors1, strict=True)]


@rule(aten._foreach_lerp.ScalarList, lifts="weight")
@decompose(aten._foreach_lerp.List, aten._foreach_lerp.ScalarList)
def lerp_list(self: Tensors, tensors1: Tensors, weights: Sequence[Any]) -> list[Tensor]:
    return [numbers.lerp(start, end, w) for start, end, w in zip(self, tensors1, weights, strict=True)]


@decompose(aten._foreach_norm.Scalar)
def norm(self: Tensors, ord: float = 2, dtype: torch.dtype | None = None) -> list[Tensor]:
    return [torch.linalg.vector_norm(tensor, ord, dtype=dtype) for tensor in self]


@decompose(aten._foreach_max.default)
def maximum(self: Tensors) -> list[Tensor]:
    return [torch.max(tensor) for tensor in self]


@decompose(aten._amp_foreach_non_finite_check_and_unscale.default)
def unscale(self: Tensors, found_inf: Tensor, inv_scale: Tensor) -> tuple[list[Tensor], Tensor]:
    scaled, found = [], found_inf
    for tensor in self:
        finite = torch.all(torch.isfinite(tensor))
        found = torch.where(finite, found, torch.ones([], dtype=found.dtype))
        wide = cast(tensor, computation_dtype(tensor.dtype))
        scaled.append(cast(torch.mul(wide, torch.reshape(cast(inv_scale, wide.dtype), [])), tensor.dtype))
    return scaled, found


@decompose(aten._amp_update_scale.default)
def update_scale(
    self: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> tuple[Tensor, Tensor]:
    overflow = torch.reshape(torch.ne(found_inf, 0), self.shape)
    successes = torch.add(growth_tracker, 1)
    due = torch.reshape(torch.eq(successes, growth_interval), self.shape)
    grown = torch.mul(self, scale_growth_factor)
    grown = torch.where(torch.logical_and(due, torch.isfinite(grown)), grown, self)
    scale = torch.where(overflow, torch.mul(self, scale_backoff_factor), grown)
    reset = torch.reshape(torch.logical_or(overflow, due), growth_tracker.shape)
    return scale, torch.where(reset, torch.zeros([], dtype=growth_tracker.dtype), successes)
