"""Buffer layouts: from the physical buffer to the logical tensor and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ._records import Leaf


def contiguous_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of ``sizes``, in elements."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def physical_order(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """Dims of a dense tensor in memory order, slowest first, dims of size 1 left out; None when it is not dense."""
    order = sorted((d for d, size in enumerate(sizes) if size != 1), key=lambda d: (-strides[d], d))
    step = 1
    for dim in reversed(order):
        if strides[dim] != step:
            return None
        step *= sizes[dim]
    return tuple(order)


def is_contiguous(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the tensor is plain row-major (strides of size-1 dims do not matter)."""
    expected = contiguous_strides(sizes)
    return 0 in sizes or all(
        size == 1 or stride == want for size, stride, want in zip(sizes, strides, expected, strict=True)
    )


def buffer_shape(leaf: Leaf) -> tuple[int, ...]:
    """Shape of the executable parameter that carries ``leaf``."""
    return leaf.sizes if leaf.layout is None else tuple(leaf.sizes[d] for d in leaf.layout)


def to_logical(buffer: Tensor, leaf: Leaf) -> Tensor:
    """The logical tensor of ``leaf`` from its buffer: permute, restore size-1 dims, expand."""
    if leaf.layout is None:
        return buffer
    order = sorted(range(len(leaf.layout)), key=leaf.layout.__getitem__)
    tensor = buffer
    if order != list(range(len(order))):
        tensor = torch.ops.aten.permute.default(buffer, order)
    kept = set(leaf.layout)
    sizes = [size if d in kept else 1 for d, size in enumerate(leaf.sizes)]
    if sizes != list(tensor.shape):
        tensor = torch.reshape(tensor, sizes)
    return tensor if sizes == list(leaf.sizes) else torch.ops.aten.expand.default(tensor, leaf.sizes)


def to_buffer(tensor: Tensor, strides: Sequence[int]) -> Tensor | None:
    """The dense buffer that holds ``tensor`` with these logical strides; None when they are not dense."""
    if is_contiguous(tensor.shape, strides):
        return tensor
    order = physical_order(tensor.shape, strides)
    if order is None:
        return None
    squeezed = torch.reshape(tensor, [size for size in tensor.shape if size != 1])
    rank = {dim: i for i, dim in enumerate(sorted(order))}
    permutation = [rank[dim] for dim in order]
    if permutation == list(range(len(permutation))):
        return squeezed
    return squeezed.permute(permutation)


def result_shape(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Shape of the executable result that carries a tensor with these sizes and (dense) strides: what ``to_buffer`` gives."""
    if is_contiguous(sizes, strides):
        return tuple(sizes)
    order = physical_order(sizes, strides)
    assert order is not None, f"strides {strides} of sizes {sizes} are not dense"
    return tuple(sizes[dim] for dim in order)


def leaf_of(dtype: torch.dtype, sizes: tuple[int, ...], strides: tuple[int, ...]) -> Leaf:
    """The leaf for a tensor of this geometry; one with gaps or overlaps counts as contiguous, for it will be copied."""
    if is_contiguous(sizes, strides):
        return Leaf(dtype, sizes, contiguous_strides(sizes), None)
    order = sorted((d for d, size in enumerate(sizes) if size != 1 and strides[d] != 0), key=lambda d: (-strides[d], d))
    step = 1
    for dim in reversed(order):
        if strides[dim] != step:
            return Leaf(dtype, sizes, contiguous_strides(sizes), None)
        step *= sizes[dim]
    return Leaf(dtype, sizes, strides, tuple(order))
