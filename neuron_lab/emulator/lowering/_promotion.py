"""Type promotion with weak numbers, as ATen's ``result_type`` (c10/core and aten/src/ATen/native/TypeProperties.cpp)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A Python number that reaches the executable as a 0-d input: a wrapped tensor or a lifted ``Scalar``."""

    tensor: Tensor
    """0-d; float64, int64, bool or complex128."""

    def to(self, dtype: torch.dtype) -> Tensor:
        """The number as a 0-d tensor of ``dtype``."""
        return cast(self.tensor, dtype)


Operand = Tensor | Number | bool | int | float | complex


def cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """``tensor`` in ``dtype``; no op when it already is."""
    return tensor if tensor.dtype == dtype else torch.ops.aten._to_copy.default(tensor, dtype=dtype)


def as_tensor(value: Operand, dtype: torch.dtype) -> Tensor | bool | int | float | complex:
    """A tensor of ``dtype``; static numbers stay numbers, which cannot change the dtype of an operation."""
    if isinstance(value, Number):
        return value.to(dtype)
    return cast(value, dtype) if isinstance(value, Tensor) else value


def computation_dtype(dtype: torch.dtype) -> torch.dtype:
    """ATen's opmath type: float32 for the 16-bit floats, else the type itself."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def result_type(*operands: Operand | None) -> torch.dtype:
    """Dtype of an element-wise operation on these operands; None operands are skipped.

    Raises TypeError when there is no operand.
    """
    dimmed: torch.dtype | None = None
    zero_dim: torch.dtype | None = None
    weak: torch.dtype | None = None
    for operand in operands:
        if isinstance(operand, Tensor):
            if operand.dim():
                dimmed = _promote(dimmed, operand.dtype)
            else:
                zero_dim = _promote(zero_dim, operand.dtype)
        elif operand is not None:
            weak = _promote(weak, _weak_dtype(operand))
    result = _combine(dimmed, _combine(zero_dim, weak))
    if result is None:
        raise TypeError("result_type needs at least one operand")
    return result


def _weak_dtype(number: Number | bool | int | float | complex) -> torch.dtype:
    if isinstance(number, Number):
        dtype = number.tensor.dtype
    elif isinstance(number, bool):
        dtype = torch.bool
    elif isinstance(number, int):
        dtype = torch.int64
    else:
        dtype = torch.complex128 if isinstance(number, complex) else torch.float64
    if dtype == torch.float64:
        return torch.get_default_dtype()
    if dtype == torch.complex128:
        return torch.complex128 if torch.get_default_dtype() == torch.float64 else torch.complex64
    return dtype


def _promote(left: torch.dtype | None, right: torch.dtype | None) -> torch.dtype | None:
    if left is None or right is None:
        return left or right
    return torch.promote_types(left, right)


def _combine(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    """The higher category wins unless the lower one is of a higher kind (bool < int < float < complex)."""
    if higher is None or lower is None:
        return higher or lower
    if higher.is_complex or (higher.is_floating_point and not lower.is_complex):
        return higher
    if higher.is_floating_point:
        return torch.complex128 if higher == torch.float64 else torch.complex64
    if higher == torch.bool or lower.is_floating_point or lower.is_complex:
        return torch.promote_types(higher, lower)
    return higher
