"""Copies of views, writes into views, diagonals, triangles, pads."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._promotion import cast
from .._registry import decompose

aten = torch.ops.aten


@decompose(aten.slice_backward.default)
def slice_backward(
    grad_output: Tensor, input_sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Tensor:
    zeros = torch.zeros(list(input_sizes), dtype=grad_output.dtype)
    return aten.slice_scatter.default(zeros, grad_output, dim, start, end, step)


@decompose(aten.slice_scatter.default)
def slice_scatter(
    self: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Padding instead of torch-mlir's own slice_scatter, which never ends for an open end."""
    dim %= self.dim()
    size = self.size(dim)
    first = _clamped(0 if start is None else start, size)
    last = max(_clamped(size if end is None else end, size), first)
    count = -(-(last - first) // step)
    if count == 0:
        return self.clone()
    src = cast(src, self.dtype)
    if step == 1:
        pieces = [torch.narrow(self, dim, 0, first)] if first else []
        pieces.append(src.expand([count if d == dim else n for d, n in enumerate(self.shape)]))
        if first + count < size:
            pieces.append(torch.narrow(self, dim, first + count, size - first - count))
        return torch.cat(pieces, dim) if len(pieces) > 1 else pieces[0].clone()
    place = torch.add(torch.mul(torch.arange(count), step), first)
    return aten.index_put.default(self, [None] * dim + [place], src)


def _clamped(position: int, size: int) -> int:
    return max(0, min(position + size if position < 0 else position, size))


@decompose(aten.select_scatter.default)
def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    dim %= self.dim()
    index %= self.size(dim)
    return aten.slice_scatter.default(self, torch.unsqueeze(src, dim), dim, index, index + 1)


@decompose(aten.select_backward.default)
def select_backward(grad_output: Tensor, input_sizes: Sequence[int], dim: int, index: int) -> Tensor:
    zeros = torch.zeros(list(input_sizes), dtype=grad_output.dtype)
    return aten.select_scatter.default(zeros, grad_output, dim, index)


def _band(rows: int, columns: int) -> Tensor:
    """column - row for every element."""
    return torch.sub(torch.arange(columns), torch.reshape(torch.arange(rows), [rows, 1]))


@decompose(aten.diagonal.default, aten.diagonal_copy.default)
def diagonal(self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    dim1, dim2 = dim1 % self.dim(), dim2 % self.dim()
    rows, columns = self.size(dim1), self.size(dim2)
    rest = [d for d in range(self.dim()) if d not in (dim1, dim2)]
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    flat = torch.reshape(self.permute([*rest, dim1, dim2]), [*[self.size(d) for d in rest], rows * columns])
    if length == 0:
        return torch.narrow(flat, -1, 0, 0)
    start = max(-offset, 0) * columns + max(offset, 0)
    return torch.index_select(flat, -1, torch.add(torch.mul(torch.arange(length), columns + 1), start))


@decompose(aten.diagonal_scatter.default)
def diagonal_scatter(self: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    dim1, dim2 = dim1 % self.dim(), dim2 % self.dim()
    rows, columns = self.size(dim1), self.size(dim2)
    rest = [d for d in range(self.dim()) if d not in (dim1, dim2)]
    order = [*rest, dim1, dim2]
    start = max(-offset, 0)
    row = torch.arange(rows)
    place = torch.clamp(torch.sub(row, start), 0, src.size(-1) - 1)
    spread = torch.unsqueeze(torch.index_select(cast(src, self.dtype), -1, place), -1)
    mask = torch.eq(_band(rows, columns), offset)
    result = torch.where(mask, spread, self.permute(order))
    return result.permute(sorted(range(len(order)), key=order.__getitem__))


@decompose(aten.diagonal_backward.default)
def diagonal_backward(grad_output: Tensor, input_sizes: Sequence[int], offset: int, dim1: int, dim2: int) -> Tensor:
    zeros = torch.zeros(list(input_sizes), dtype=grad_output.dtype)
    return aten.diagonal_scatter.default(zeros, grad_output, offset, dim1, dim2)


@decompose(aten.tril.default)
def tril(self: Tensor, diagonal: int = 0) -> Tensor:
    return torch.where(torch.le(_band(*self.shape[-2:]), diagonal), self, torch.zeros([], dtype=self.dtype))


@decompose(aten.triu.default)
def triu(self: Tensor, diagonal: int = 0) -> Tensor:
    return torch.where(torch.ge(_band(*self.shape[-2:]), diagonal), self, torch.zeros([], dtype=self.dtype))


@decompose(aten.eye.m)
def eye_m(n: int, m: int, *, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    return cast(torch.eq(_band(n, m), 0), dtype or torch.get_default_dtype())


@decompose(aten.eye.default)
def eye(n: int, *, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    return eye_m(n, n, dtype=dtype)


@decompose(
    aten.split_with_sizes.default, aten.split_with_sizes_copy.default, aten.unsafe_split_with_sizes.default
)  # PyTorch's own reads memory with as_strided
def split_with_sizes_copy(self: Tensor, split_sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
    starts = [sum(split_sizes[:i]) for i in range(len(split_sizes))]
    return [torch.narrow(self, dim, start, size) for start, size in zip(starts, split_sizes, strict=True)]


@decompose(aten.unsafe_split.Tensor, aten.split_copy.Tensor)
def unsafe_split(self: Tensor, split_size: int, dim: int = 0) -> list[Tensor]:
    total = self.size(dim)
    sizes = [min(split_size, total - start) for start in range(0, total, split_size)]
    return split_with_sizes_copy(self, sizes, dim)


@decompose(aten.squeeze.dims)  # torch-mlir has no such op
def squeeze_dims(self: Tensor, dim: Sequence[int]) -> Tensor:
    dropped = {d % max(self.dim(), 1) for d in dim}
    return torch.reshape(self, [size for d, size in enumerate(self.shape) if d not in dropped or size != 1])


@decompose(aten.constant_pad_nd.default)
def constant_pad_nd(self: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """XLA's CPU backend takes no negative padding: those borders are cut off first."""
    if all(amount >= 0 for amount in pad):
        return NotImplemented
    for i in range(len(pad) // 2):
        dim = self.dim() - 1 - i
        left, right = max(-pad[2 * i], 0), max(-pad[2 * i + 1], 0)
        if left or right:
            self = torch.narrow(self, dim, left, self.size(dim) - left - right)
    grown = [max(amount, 0) for amount in pad]
    return aten.constant_pad_nd.default(self, grown, value) if any(grown) else self.clone()


def _pad_backward(grad: Tensor, self: Tensor, padding: Sequence[int], reflect: bool) -> Tensor:
    """Fold the padded borders back, one dim after another."""
    rank = len(padding) // 2
    for i in range(rank):
        dim = self.dim() - 1 - i
        left = padding[2 * i]
        size, padded = self.size(dim), grad.size(dim)
        source = torch.sub(torch.arange(padded), left)
        if reflect:
            source = torch.abs(source)
            source = torch.where(torch.ge(source, size), torch.sub(2 * size - 2, source), source)
        else:
            source = torch.clamp(source, 0, size - 1)
        shape = [size if d == dim else n for d, n in enumerate(grad.shape)]
        zeros = torch.zeros(shape, dtype=grad.dtype)
        index = torch.reshape(source, [padded if d == dim else 1 for d in range(grad.dim())]).expand(grad.shape)
        grad = torch.scatter_add(zeros, dim, index, grad)
    return grad


@decompose(
    aten.replication_pad1d_backward.default,
    aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
)
def replication_pad_backward(grad_output: Tensor, self: Tensor, padding: Sequence[int]) -> Tensor:
    return _pad_backward(grad_output, self, padding, reflect=False)


@decompose(
    aten.reflection_pad1d_backward.default,
    aten.reflection_pad2d_backward.default,
    aten.reflection_pad3d_backward.default,
)
def reflection_pad_backward(grad_output: Tensor, self: Tensor, padding: Sequence[int]) -> Tensor:
    return _pad_backward(grad_output, self, padding, reflect=True)
