"""Indexed reads and writes."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .._promotion import Operand, cast
from .._records import Unlowerable
from .._registry import decompose, rule
from .numbers import masked_fill

aten = torch.ops.aten
Indices = Sequence[Tensor | None]


def _wrapped(index: Tensor, size: int) -> Tensor:
    """Negative indices count from the end."""
    return torch.where(torch.lt(index, 0), torch.add(index, size), index)


class _Selection:
    """Integer indices of an ``index`` op, as flat positions over the indexed dims moved to the front."""

    def __init__(self, self_: Tensor, indices: Indices) -> None:
        self.dims = [d for d, index in enumerate(indices) if index is not None]
        chosen = [index for index in indices if index is not None]
        if any(index.dtype in (torch.bool, torch.uint8) for index in chosen):
            raise Unlowerable("a boolean index")
        self.rest = [d for d in range(self_.dim()) if d not in self.dims]
        self.shape = list(torch.broadcast_shapes(*[index.shape for index in chosen]))
        self.sizes = [self_.size(d) for d in self.dims]
        self.rest_sizes = [self_.size(d) for d in self.rest]
        flat: Tensor | None = None
        for index, size in zip(chosen, self.sizes, strict=True):
            part = _wrapped(cast(index, torch.int64), size)
            flat = part if flat is None else torch.add(torch.mul(flat, size), part)
        assert flat is not None
        self.flat = torch.reshape(flat.expand(self.shape), [-1])
        adjacent = self.dims == list(range(self.dims[0], self.dims[0] + len(self.dims)))
        self.at = len([d for d in self.rest if d < self.dims[0]]) if adjacent else 0
        """Position of the index dims among the remaining dims of the result."""

    def fronted(self, tensor: Tensor) -> Tensor:
        """``tensor`` as [indexed positions, everything else]."""
        moved = tensor.permute(self.dims + self.rest)
        return torch.reshape(moved, [math.prod(self.sizes), math.prod(self.rest_sizes)])

    def restored(self, flat: Tensor) -> Tensor:
        """Inverse of ``fronted``."""
        order = self.dims + self.rest
        back = sorted(range(len(order)), key=order.__getitem__)
        return torch.reshape(flat, self.sizes + self.rest_sizes).permute(back)

    def result_shape(self) -> list[int]:
        return self.rest_sizes[: self.at] + self.shape + self.rest_sizes[self.at :]

    def to_result(self, rows: Tensor) -> Tensor:
        """[selected, everything else] as the shape of the op's result."""
        count = len(self.shape)
        full = torch.reshape(rows, self.shape + self.rest_sizes)
        before = list(range(count, count + self.at))
        after = list(range(count + self.at, full.dim()))
        return full.permute(before + list(range(count)) + after)

    def from_result(self, values: Tensor) -> Tensor:
        """Inverse of ``to_result``, after broadcasting."""
        full = values.expand(self.result_shape())
        count = len(self.shape)
        index_dims = list(range(self.at, self.at + count))
        others = [d for d in range(full.dim()) if d not in index_dims]
        return torch.reshape(full.permute(index_dims + others), [math.prod(self.shape), math.prod(self.rest_sizes)])


@decompose(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(self: Tensor, indices: Indices) -> Tensor:
    selection = _Selection(self, indices)
    return selection.to_result(torch.index_select(selection.fronted(self), 0, selection.flat))


@rule(aten._unsafe_masked_index.default, lifts="fill")
@decompose(aten._unsafe_masked_index.default)
def unsafe_masked_index(self: Tensor, mask: Tensor, indices: Indices, fill: Operand) -> Tensor:
    """Indices may be anything where the mask is off."""
    sizes = self.shape
    safe = [None if i is None else torch.clamp(i, -size, size - 1) for i, size in zip(indices, sizes, strict=False)]
    return masked_fill(aten._unsafe_index.Tensor(self, safe), torch.logical_not(mask), fill)


@decompose(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(self: Tensor, indices: Indices, values: Tensor, accumulate: bool = False) -> Tensor:
    given = [index for index in indices if index is not None]
    if len(given) == 1 and given[0].dtype == torch.bool:
        return _masked_put(self, indices, values, accumulate)
    selection = _Selection(self, indices)
    rows = selection.from_result(cast(values, self.dtype))
    spread = torch.reshape(selection.flat, [-1, 1]).expand(rows.shape)
    scatter = torch.scatter_add if accumulate else torch.scatter
    return selection.restored(scatter(selection.fronted(self), 0, spread, rows))


@decompose(aten._index_put_impl.default)
def index_put_impl(
    self: Tensor, indices: Indices, values: Tensor, accumulate: bool = False, unsafe: bool = False
) -> Tensor:
    return index_put(self, indices, values, accumulate)


def _masked_put(self: Tensor, indices: Indices, values: Tensor, accumulate: bool) -> Tensor:
    position = next(d for d, index in enumerate(indices) if index is not None)
    mask = indices[position]
    assert mask is not None
    after = self.dim() - position - mask.dim()
    full = torch.reshape(mask, [1] * position + list(mask.shape) + [1] * after)
    if position == 0 and (values.dim() <= after or (values.size(0) == 1 and values.dim() == after + 1)):
        spread = values if values.dim() <= after else torch.reshape(values, values.shape[1:])
        spread = cast(spread, self.dtype)
    elif position == 0 and values.dim() == after + 1:
        order = torch.sub(torch.cumsum(cast(torch.reshape(mask, [-1]), torch.int64), 0), 1)
        rows = torch.index_select(cast(values, self.dtype), 0, torch.clamp(order, 0, values.size(0) - 1))
        spread = torch.reshape(rows, [*mask.shape, *values.shape[1:]])
    else:
        raise Unlowerable("a boolean index behind other dims")
    new = torch.add(self, spread) if accumulate else spread
    return torch.where(full, new, self)


@decompose(aten.masked_scatter.default)
def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    mask = mask.expand(self.shape)
    order = torch.sub(torch.cumsum(cast(torch.reshape(mask, [-1]), torch.int64), 0), 1)
    picked = torch.index_select(torch.reshape(source, [-1]), 0, torch.clamp(order, 0, source.numel() - 1))
    return torch.where(mask, torch.reshape(picked, self.shape), self)


@decompose(aten.index_copy.default)
def index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    if self.dim() == 0:
        return torch.reshape(source, [])
    return aten.index_put.default(self, [None] * (dim % self.dim()) + [torch.reshape(index, [-1])], source)


@decompose(aten.take.default)
def take(self: Tensor, index: Tensor) -> Tensor:
    flat = torch.reshape(_wrapped(index, self.numel()), [-1])
    return torch.reshape(torch.index_select(torch.reshape(self, [-1]), 0, flat), index.shape)


@decompose(aten.put.default)
def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    flat = torch.reshape(self, [-1])
    where = torch.reshape(_wrapped(index, self.numel()), [-1])
    values = torch.reshape(source, [-1])
    scatter = torch.scatter_add if accumulate else torch.scatter
    return torch.reshape(scatter(flat, 0, where, values), self.shape)


@decompose(aten.gather.default)
def gather(self: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    if self.dim() and index.dim():
        return NotImplemented
    vector = torch.reshape(self, [-1])
    return torch.reshape(torch.index_select(vector, 0, torch.reshape(index, [-1])), index.shape)


@decompose(aten.scatter.src)
def scatter_src(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    if self.dim() and index.dim():
        return NotImplemented
    return torch.reshape(torch.reshape(src, [-1])[:1], self.shape)


@decompose(aten.scatter_add.default)
def scatter_add(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    if self.dtype == torch.bool:
        raise Unlowerable("scatter_add of booleans")
    if self.dim() and index.dim():
        return NotImplemented
    return torch.add(self, torch.reshape(torch.reshape(src, [-1])[:1], self.shape))


@decompose(aten.index_select.default)
def index_select(self: Tensor, dim: int, index: Tensor) -> Tensor:
    if self.dim() == 0:
        if index.numel() != 1:
            raise Unlowerable("the index of a scalar has more than one value")
        return self.clone()
    return NotImplemented if index.dim() else torch.index_select(self, dim, torch.reshape(index, [1]))


_LARGEST = 1 << 24
"""Elements of an all-pairs comparison beyond which an op stays on the CPU."""


def _pairs(left: int, right: int) -> None:
    if left * right > _LARGEST:
        raise Unlowerable(f"{left} x {right} comparisons are too many")


@decompose(aten.searchsorted.Tensor)
def searchsorted(
    sorted_sequence: Tensor,
    self: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """How many boundaries lie below each value."""
    if sorter is not None:
        sorted_sequence = torch.gather(sorted_sequence, -1, sorter)
    right = right or side == "right"
    _pairs(self.numel(), sorted_sequence.size(-1))
    values = torch.unsqueeze(self, -1)
    edges = sorted_sequence if sorted_sequence.dim() == 1 else torch.unsqueeze(sorted_sequence, -2)
    below = torch.le(edges, values) if right else torch.lt(edges, values)
    if values.is_floating_point():
        below = torch.logical_or(below, torch.isnan(values))  # NaN is the largest
    return cast(torch.sum(cast(below, torch.int64), [-1]), torch.int32 if out_int32 else torch.int64)


@decompose(aten.bucketize.Tensor)
def bucketize(self: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return aten.searchsorted.Tensor(boundaries, self, out_int32=out_int32, right=right)


@decompose(aten.isin.Tensor_Tensor)
def isin(elements: Tensor, test_elements: Tensor, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    _pairs(elements.numel(), test_elements.numel())
    hits = torch.eq(torch.unsqueeze(elements, -1), torch.reshape(test_elements, [-1]))
    found = torch.any(hits, -1)
    return torch.logical_not(found) if invert else found
