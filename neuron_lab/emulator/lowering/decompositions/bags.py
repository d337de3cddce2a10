"""Bags of embeddings: sums, means and maxima of rows that are chosen by an index, and their gradients.

``csrc/bounds.cpp`` has checked that the indices are in range and the offsets ascend from 0 to no more than the number of indices.
"""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .._promotion import cast
from .._records import Unlowerable
from .._registry import decompose
from .scatters import combine_at

aten = torch.ops.aten

_SUM, _MEAN, _MAX = range(3)
_EMPTY = "bags, indices or rows without elements"
_QUICK = (torch.float32, torch.float16, torch.bfloat16)


def _bag_of_each(count: int, offsets: Tensor) -> Tensor:
    """[count]: the bag that each index is in."""
    starts = torch.scatter_add(torch.zeros([count + 1], dtype=offsets.dtype), 0, offsets, torch.ones_like(offsets))
    return torch.sub(torch.cumsum(starts, 0, dtype=offsets.dtype)[:count], 1)


def _summed(rows: Tensor, places: Tensor, count: int) -> Tensor:
    """[count, features]: the sum of the rows of each place, in their order."""
    zeros = torch.zeros([count, rows.size(1)], dtype=rows.dtype)
    return torch.scatter_add(zeros, 0, torch.unsqueeze(places, 1).expand(rows.shape), rows)


def _kept(rows: Tensor, mask: Tensor | None) -> Tensor:
    return rows if mask is None else torch.where(torch.unsqueeze(mask, 1), rows, 0)


def _quick(weight: Tensor, padding_idx: int) -> bool:
    """Whether the CPU takes the kernel that adds in float32, heeds the last offset, and needs no bag of each index."""
    return weight.dtype in _QUICK and padding_idx < 0 and weight.stride(1) == 1


def _largest(rows: Tensor, indices: Tensor, bags: Tensor, mask: Tensor | None, count: int) -> tuple[Tensor, Tensor]:
    """The largest of each bag and the index it has, the first of equals; a NaN only when it is the first. 0 for an empty bag."""
    length, features = rows.shape
    cells = torch.reshape(
        torch.add(torch.mul(torch.unsqueeze(cast(bags, torch.int64), 1), features), torch.arange(features)), [-1]
    )
    order = torch.reshape(torch.unsqueeze(torch.arange(length), 1).expand(rows.shape), [-1])
    flat = torch.reshape(rows, [-1])
    inside = torch.ones_like(flat, dtype=torch.bool)
    if mask is not None:
        inside = torch.reshape(torch.unsqueeze(mask, 1).expand(rows.shape), [-1])
    nobody = torch.full([count * features], length)
    first = combine_at(nobody, cells, torch.where(inside, order, length), "amin")
    unordered = torch.isnan(flat)
    comparable = torch.where(torch.logical_and(inside, torch.logical_not(unordered)), flat, -math.inf)
    highest = combine_at(torch.full([count * features], -math.inf, dtype=rows.dtype), cells, comparable, "amax")
    is_highest = torch.logical_and(inside, torch.eq(flat, torch.index_select(highest, 0, cells)))
    is_first = torch.eq(order, torch.index_select(first, 0, cells))
    chosen = torch.logical_or(is_highest, torch.logical_and(is_first, unordered))
    place = combine_at(nobody, cells, torch.where(chosen, order, length), "amin")
    empty = torch.eq(place, length)
    safe = torch.clamp(place, 0, length - 1)
    column = torch.arange(features).expand([count, features]).reshape([-1])
    value = torch.index_select(flat, 0, torch.add(torch.mul(safe, features), column))
    index = torch.index_select(indices, 0, safe)
    shape = [count, features]
    return torch.reshape(torch.where(empty, 0, value), shape), torch.reshape(torch.where(empty, 0, index), shape)


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    mode: int,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding_idx: int,
    sizes_of_a_sum: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if weight.dtype not in (*_QUICK, torch.float64):
        raise Unlowerable(f"bags of {weight.dtype}")
    kind = torch.promote_types(indices.dtype, offsets.dtype)
    indices, offsets = cast(indices, kind), cast(offsets, kind)
    length, count = indices.size(0), offsets.size(0) - include_last_offset
    quick = _quick(weight, padding_idx)
    starts = offsets[:count]
    bags = _bag_of_each(length, starts)
    mask = torch.ne(indices, padding_idx) if padding_idx >= 0 else None
    rows = torch.index_select(weight, 0, indices)
    ends = torch.cat([starts[1:], torch.full([1], length, dtype=kind)])
    bag_size = torch.sub(ends, starts)
    if mask is not None:
        padded = torch.scatter_add(torch.zeros([count], dtype=kind), 0, bags, cast(torch.logical_not(mask), kind))
        bag_size = torch.sub(bag_size, padded)
    if mode == _MAX:
        output, largest = _largest(rows, indices, bags, mask, count)
        return output, bags, bag_size, largest
    if quick and include_last_offset:
        mask = torch.lt(torch.arange(length), offsets[count])
    rows = cast(rows, torch.float32) if quick else rows
    if per_sample_weights is not None:
        rows = torch.mul(rows, torch.unsqueeze(cast(per_sample_weights, rows.dtype), 1))
    output = cast(_summed(_kept(rows, mask), bags, count), weight.dtype)
    if mode == _MEAN:
        shares = torch.unsqueeze(cast(torch.clamp(bag_size, min=1), weight.dtype), 1)
        return torch.div(output, shares), bags, bag_size, bag_size
    nothing = torch.zeros([sizes_of_a_sum], dtype=kind)
    return output, torch.zeros([0], dtype=kind) if quick else bags, nothing, nothing


def _forward(*, counts_last_offset: bool) -> Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]]:
    """The two forwards differ in the length of a sum's third and fourth result: one counts an offset that ends the last bag."""

    def embedding_bag(
        weight: Tensor,
        indices: Tensor,
        offsets: Tensor,
        scale_grad_by_freq: bool = False,
        mode: int = 0,
        sparse: bool = False,
        per_sample_weights: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int = -1,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sums of rows, the bag of each index, the size of each bag, the index of each maximum, as the CPU's kernel gives them."""
        size = offsets.size(0) - (include_last_offset and not counts_last_offset)
        return _embedding_bag(
            weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx, size
        )

    return embedding_bag


decompose(aten._embedding_bag.default, described=False)(_forward(counts_last_offset=False))
decompose(aten._embedding_bag_forward_only.default, described=False)(_forward(counts_last_offset=True))


@decompose(aten._embedding_bag_backward.default, described=False)
def embedding_bag_backward(
    grad: Tensor | None,
    indices: Tensor | None,
    offsets: Tensor,
    offset2bag: Tensor | None,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """What has no elements is None: ``offset2bag`` where the forward had no need of it."""
    if sparse:
        raise Unlowerable("a sparse gradient")
    if grad is None or indices is None:
        raise Unlowerable(_EMPTY)
    bags, grad = _bags_and_grad(grad, indices, offsets, offset2bag)
    scales = (scale_grad_by_freq, mode, per_sample_weights, padding_idx)
    return embedding_bag_dense_backward(grad, indices, bags, bag_size, maximum_indices, num_weights, *scales)


def _bags_and_grad(grad: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor | None) -> tuple[Tensor, Tensor]:
    """The bag of each index; those behind the last offset are in a bag that has no gradient."""
    if offset2bag is not None:
        return offset2bag, grad
    bags = _bag_of_each(indices.size(0), cast(offsets, torch.int64))
    return bags, torch.cat([grad, torch.zeros([1, grad.size(1)], dtype=grad.dtype)])


@decompose(aten._embedding_bag_dense_backward.default, described=False)
def embedding_bag_dense_backward(
    grad: Tensor,
    indices: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    if scale_grad_by_freq and mode != _MAX:
        raise Unlowerable("the CPU divides by the frequency of another index than the one it scales")
    if mode == _MAX:
        full = torch.unsqueeze(torch.ne(bag_size, 0), 1)
        zeros = torch.zeros([num_weights, grad.size(1)], dtype=grad.dtype)
        return torch.scatter_add(zeros, 0, cast(maximum_indices, torch.int64), torch.where(full, grad, 0))
    scale = torch.ones([indices.size(0)], dtype=torch.float64)
    if per_sample_weights is not None:
        scale = cast(per_sample_weights, torch.float64)
    if mode == _MEAN:
        scale = torch.div(scale, cast(torch.index_select(bag_size, 0, offset2bag), torch.float64))
    rows = torch.mul(torch.index_select(grad, 0, offset2bag), torch.unsqueeze(cast(scale, grad.dtype), 1))
    mask = torch.ne(indices, padding_idx) if padding_idx >= 0 else None
    return _summed(_kept(rows, mask), indices, num_weights)


@decompose(aten._embedding_bag_per_sample_weights_backward.default, described=False)
def embedding_bag_per_sample_weights_backward(
    grad: Tensor | None,
    weight: Tensor | None,
    indices: Tensor | None,
    offsets: Tensor,
    offset2bag: Tensor | None,
    mode: int,
    padding_idx: int = -1,
) -> Tensor:
    if mode != _SUM:
        raise Unlowerable("weights of samples that are not summed")
    if grad is None or weight is None or indices is None:
        raise Unlowerable(_EMPTY)
    bags, grad = _bags_and_grad(grad, indices, offsets, offset2bag)
    products = torch.mul(torch.index_select(grad, 0, bags), torch.index_select(weight, 0, indices))
    sums = torch.sum(products, [1], dtype=grad.dtype)
    return torch.where(torch.ne(indices, padding_idx), sums, 0) if padding_idx >= 0 else sums
