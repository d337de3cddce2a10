"""Element-wise arithmetic, comparisons and bit operations with lifted numbers."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._promotion import Number, Operand, as_tensor, cast, computation_dtype, result_type
from .._records import Refused
from .._registry import decompose, rule

aten = torch.ops.aten


def floating(dtype: torch.dtype) -> torch.dtype:
    """``dtype`` if it is a float or complex type, else the default dtype."""
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.get_default_dtype()


def as_operand(value: Operand, dtype: torch.dtype) -> Any:
    """``value`` rounded to ``dtype`` and then widened to the computation type."""
    rounded = as_tensor(value, dtype)
    return cast(rounded, computation_dtype(dtype)) if isinstance(rounded, Tensor) else rounded


def _linear(self: Operand, other: Operand, alpha: Operand, function: Callable[..., Tensor]) -> Tensor:
    """add and sub: numbers are rounded to the common dtype first, unlike in mul and div (seen on CPU)."""
    common = result_type(self, other)
    right = as_operand(other, common)
    if isinstance(alpha, Number) or alpha != 1:
        right = torch.mul(right, as_operand(alpha, common))
    return cast(function(as_operand(self, common), right), common)


def _kind(value: Operand) -> torch.dtype:
    if isinstance(value, Number):
        return value.tensor.dtype
    return value.dtype if isinstance(value, Tensor) else torch.tensor(value).dtype


def _check_alpha(self: Operand, other: Operand, alpha: Operand) -> None:
    """What the CPU refuses; fake tensors take a short way for add and sub that does not look."""
    common, factor = result_type(self, other), _kind(alpha)
    if not (common.is_floating_point or common.is_complex) and (factor.is_floating_point or factor.is_complex):
        raise Refused("alpha is not a whole number, as the result")
    if factor == torch.bool and common != torch.bool:
        raise Refused("alpha is a boolean, the result is not")


@rule(aten.add.Tensor, aten.add.Scalar, lifts="other alpha")
def add(self: Operand, other: Operand, alpha: Operand = 1) -> Tensor:
    _check_alpha(self, other, alpha)
    return _linear(self, other, alpha, torch.add)


@rule(aten.sub.Tensor, aten.sub.Scalar, lifts="other alpha")
def sub(self: Operand, other: Operand, alpha: Operand = 1) -> Tensor:
    _check_alpha(self, other, alpha)
    return _linear(self, other, alpha, torch.sub)


@rule(aten.rsub.Tensor, aten.rsub.Scalar, lifts="other alpha")
def rsub(self: Operand, other: Operand, alpha: Operand = 1) -> Tensor:
    return sub(other, self, alpha)


@rule(aten.mul.Tensor, aten.mul.Scalar, lifts="other")
def mul(self: Operand, other: Operand) -> Tensor:
    common = result_type(self, other)
    compute = computation_dtype(common)
    return cast(torch.mul(as_tensor(self, compute), as_tensor(other, compute)), common)


@rule(aten.div.Tensor, aten.div.Scalar, lifts="other")
def div(self: Operand, other: Operand) -> Tensor:
    common = floating(result_type(self, other))
    compute = computation_dtype(common)
    left: Any = as_tensor(self, compute)
    right: Any = as_tensor(other, compute)
    return cast(torch.div(left, right), common)


@decompose(aten.add.Tensor)
def add_alpha(self: Tensor, other: Tensor, *, alpha: Operand = 1) -> Tensor:
    _check_alpha(self, other, alpha)
    if alpha == 1 and result_type(self, other) == torch.bool:  # XLA folds the sum of two true to false
        return torch.logical_or(self, torch.full([], other) if isinstance(other, bool) else other)
    return NotImplemented if alpha == 1 else add(self, other, alpha)


@decompose(aten.sub.Tensor)
def sub_alpha(self: Tensor, other: Tensor, *, alpha: Operand = 1) -> Tensor:
    _check_alpha(self, other, alpha)
    return NotImplemented if alpha == 1 else sub(self, other, alpha)


def _common(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Rule for a function whose kernel casts both operands to the common dtype."""

    def run(self: Operand, other: Operand) -> Tensor:
        common = result_type(self, other)
        return function(as_tensor(self, common), as_tensor(other, common))

    return run


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _packet = getattr(aten, _name)
    rule(_packet.Tensor, _packet.Scalar, lifts="other")(_common(_packet.Tensor))


def _of_tensors(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """As ``_common``, with static numbers turned into tensors too."""

    def run(self: Operand, other: Operand) -> Tensor:
        common = result_type(self, other)
        operands = [as_tensor(value, common) for value in (self, other)]
        return function(*[v if isinstance(v, Tensor) else torch.full([], v, dtype=common) for v in operands])

    return run


for _name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"):
    _packet = getattr(aten, _name)
    _numbers = (_packet.Tensor_Scalar if "shift" in _name else _packet.Scalar, _packet.Scalar_Tensor)
    rule(_packet.Tensor, *_numbers, lifts="self other")(_of_tensors(_packet.Tensor))
    decompose(*_numbers)(_of_tensors(_packet.Tensor))


def _register_comparison(name: str) -> None:
    packet = getattr(aten, name)
    compare: Callable[..., Tensor] = getattr(torch, name)

    def tensors(self: Tensor, other: Tensor) -> Tensor:
        """XLA refuses torch-mlir's signed comparison of booleans and bytes."""
        if self.dtype == other.dtype == torch.bool and name in ("eq", "ne"):
            differ = torch.logical_xor(self, other)
            return differ if name == "ne" else torch.logical_not(differ)
        if (
            name == "eq" and self is other and self.is_floating_point()
        ):  # torch-mlir folds it to true; NaN is not equal to itself
            return torch.logical_not(torch.ne(self, other))
        if not {self.dtype, other.dtype} <= _UNSIGNED:
            return NotImplemented
        return compare(cast(self, torch.int32), cast(other, torch.int32))

    def number(self: Tensor, other: float) -> Tensor:
        """torch-mlir folds the comparison of a constant float with an integer, and gets it wrong."""
        if self.dtype in _UNSIGNED:
            wraps = self.dtype == torch.uint8 and not isinstance(other, float)
            return compare(cast(self, torch.int32), int(other) % 256 if wraps else other)
        if self.is_floating_point() and not isinstance(other, float):
            return compare(self, float(other))
        return NotImplemented

    decompose(packet.Tensor)(tensors)
    decompose(packet.Scalar)(number)


_UNSIGNED = frozenset({torch.bool, torch.uint8})

for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _register_comparison(_name)
