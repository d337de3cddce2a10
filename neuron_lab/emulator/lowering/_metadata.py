"""Metadata functions in place of PyTorch's, where those differ from the CPU's kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._prims_common import suggest_memory_format

from ._records import Unlowerable

aten = torch.ops.aten


def _as_a_sum(op: OpOverload) -> Callable[..., Tensor]:
    """The layout of an element-wise kernel's result; PyTorch builds these of several ops and has the layout of the last."""

    def described(*args: Any, **kwargs: Any) -> Tensor:
        result: Tensor = op(*args, **kwargs)
        operands = [torch.empty_strided(t.shape, t.stride()) for t in args[:2] if isinstance(t, Tensor)]
        if len(operands) < 2 or result.dim() == 0:  # a number, or a loss that is averaged
            return result
        return torch.empty_strided(result.shape, torch.add(*operands).stride(), dtype=result.dtype)

    return described


def _roll(self: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    """The CPU's kernel joins two slices."""
    if not dims:
        return torch.empty(self.shape, dtype=self.dtype)
    for shift, dim in zip(shifts, dims, strict=True):
        size = self.size(dim)
        start = -shift % size if size else 0
        self = torch.cat([self.narrow(dim, start, size - start), self.narrow(dim, 0, start)], dim)
    return self


def _heaviside(self: Tensor, values: Tensor) -> Tensor:
    if self.dtype != values.dtype:
        raise Unlowerable("it is not implemented for tensors with different dtypes")
    return _as_a_sum(aten.heaviside.default)(self, values)


def _max_unpool2d(self: Tensor, indices: Tensor, output_size: Sequence[int]) -> Tensor:
    """A batch keeps its memory format."""
    result: Tensor = aten.max_unpool2d.default(self, indices, output_size)
    return torch.empty_like(result, memory_format=suggest_memory_format(self)) if self.dim() == 4 else result


def _linear_backward(
    self: Tensor, grad_output: Tensor, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """PyTorch's own takes every weight for a matrix."""
    if weight.dim() != 1:
        result: tuple[Tensor | None, ...] = aten.linear_backward.default(self, grad_output, weight, output_mask)
        return result
    shapes = (self.shape, weight.shape, torch.Size())
    made = zip(shapes, output_mask, strict=True)
    return tuple(grad_output.new_empty(shape) if wanted else None for shape, wanted in made)


METADATA: dict[OpOverload, Callable[..., Any]] = {
    # PyTorch's own clones into a plain layout; the CPU's kernel keeps that of its input.
    aten.native_dropout_backward.default: lambda grad_output, mask, scale: grad_output * mask * scale,
    aten.roll.default: _roll,
    aten.heaviside.default: _heaviside,
    aten.linear_backward.default: _linear_backward,
    aten.max_unpool2d.default: _max_unpool2d,
    **{
        op: _as_a_sum(op)
        for op in (
            aten.floor_divide.default,
            aten.copysign.Tensor,
            aten.logaddexp.default,
            aten.logaddexp2.default,
            aten.xlogy.Tensor,
            aten.special_xlog1py.default,
            aten.logical_and.default,
            aten.logical_or.default,
            aten.logical_xor.default,
            aten.binary_cross_entropy.default,
        )
    },
}
