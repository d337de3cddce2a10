"""Scatters with a reduction, and what is built on them: histograms, unpooling, segments."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .._island import element_type, island, type_of
from .._promotion import cast
from .._records import Unlowerable
from .._registry import decompose

aten = torch.ops.aten

_COMBINES = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}


def combine_at(self: Tensor, positions: Tensor, source: Tensor, reduce: str) -> Tensor:
    """1-d ``self`` with every element of 1-d ``source`` combined into its position; NaN wins in amax and amin."""
    if self.dtype in (torch.uint8, torch.bool):
        wide = combine_at(cast(self, torch.int32), positions, cast(source, torch.int32), reduce)
        return cast(wide, self.dtype)
    element = element_type(self.dtype)
    rows = torch.reshape(positions, [-1, 1])
    body = f"""%r0 = "stablehlo.scatter"(%a0, %a1, %a2) ({{
      ^bb0(%old: tensor<{element}>, %new: tensor<{element}>):
        %both = stablehlo.{_COMBINES[reduce]} %old, %new : tensor<{element}>
        stablehlo.return %both : tensor<{element}>
    }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}} : ({type_of(self)}, {type_of(rows)}, {type_of(source)}) -> {type_of(self)}"""
    return island(body, [self, rows, source], (self.shape, self.dtype))


def _neutral(reduce: str, dtype: torch.dtype) -> float:
    if reduce in ("amax", "amin"):
        if dtype.is_floating_point:
            return -math.inf if reduce == "amax" else math.inf
        limits = torch.iinfo(dtype) if dtype != torch.bool else None
        if limits is None:
            return 0 if reduce == "amax" else 1
        return limits.min if reduce == "amax" else limits.max
    return 1 if reduce == "prod" else 0


def _flat_positions(sizes: Sequence[int], dim: int, index: Tensor) -> Tensor:
    """Where in a flat tensor of ``sizes`` each element of ``index`` along ``dim`` points."""
    flat: Tensor | None = None
    step = 1
    for d in reversed(range(len(sizes))):
        shape = [index.size(d) if i == d else 1 for i in range(len(sizes))]
        place = index if d == dim else torch.reshape(torch.arange(index.size(d)), shape)
        part = torch.mul(place, step) if step != 1 else place
        flat = part if flat is None else torch.add(flat, part)
        step *= sizes[d]
    assert flat is not None
    return torch.reshape(flat.expand(index.shape), [-1])


def _reduced(self: Tensor, positions: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
    """``self`` and ``source`` flat. What nothing is written to keeps its value."""
    zeros = torch.zeros(self.shape, dtype=torch.int64)
    hits = torch.scatter_add(zeros, 0, positions, torch.ones(source.shape, dtype=torch.int64))
    base = self
    if not include_self:
        base = torch.where(torch.gt(hits, 0), torch.full([], _neutral(reduce, self.dtype), dtype=self.dtype), self)
    total = combine_at(base, positions, source, reduce)
    if reduce != "mean":
        return total
    count = cast(torch.clamp(torch.add(hits, int(include_self)), min=1), self.dtype)
    return torch.div(total, count) if self.is_floating_point() else torch.div(total, count, rounding_mode="floor")


@decompose(aten.scatter_reduce.two)
def scatter_reduce(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if index.dtype != torch.int64:
        index = cast(index, torch.int64)
    if self.dim() == 0:
        self_, index, src = (torch.reshape(t, [-1]) for t in (self, index, src))
        return torch.reshape(scatter_reduce(self_, 0, index, src, reduce, include_self=include_self), [])
    for d in range(index.dim()):
        src = torch.narrow(src, d, 0, index.size(d))
    positions = _flat_positions(self.shape, dim % self.dim(), index)
    flat = _reduced(torch.reshape(self, [-1]), positions, torch.reshape(src, [-1]), reduce, include_self)
    return torch.reshape(flat, self.shape)


@decompose(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_with_reduce(self: Tensor, dim: int, index: Tensor, src: Tensor | float, *, reduce: str) -> Tensor:
    source = src if isinstance(src, Tensor) else torch.full(index.shape, src, dtype=self.dtype)
    return scatter_reduce(self, dim, index, source, {"add": "sum", "multiply": "prod"}[reduce])


@decompose(aten.index_reduce.default)
def index_reduce(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if self.dim() == 0:
        wide, index, source = (torch.reshape(t, [-1]) for t in (self, index, source))
        return torch.reshape(index_reduce(wide, 0, index, source, reduce, include_self=include_self), [])
    dim %= self.dim()
    spread = torch.reshape(index, [-1 if d == dim else 1 for d in range(self.dim())]).expand(source.shape)
    return scatter_reduce(self, dim, spread, source, reduce, include_self=include_self)


@decompose(aten.histc.default, described=False)
def histc(self: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts, as ``histogramdd_linear`` of the CPU. Integers, which only devices take, are counted in float64."""
    compute = self.dtype if self.is_floating_point() else torch.float64
    if self.is_floating_point() and self.element_size() < 4:
        raise Unlowerable("histc of 16-bit floats")
    flat = cast(torch.reshape(self, [-1]), compute)
    if min == max:
        low, high = torch.amin(flat, [0]), torch.amax(flat, [0])
    else:
        low, high = (torch.full([], float(bound), dtype=compute) for bound in (min, max))
    flatness = torch.eq(low, high)
    low, high = torch.where(flatness, torch.sub(low, 1), low), torch.where(flatness, torch.add(high, 1), high)
    place = torch.div(torch.mul(torch.sub(flat, low), float(bins)), torch.sub(high, low))
    place = torch.clamp(cast(place, torch.int64), 0, bins - 1)
    inside = torch.logical_and(torch.ge(flat, low), torch.le(flat, high))
    counts = torch.scatter_add(torch.zeros([bins], dtype=torch.int64), 0, place, cast(inside, torch.int64))
    return cast(counts, self.dtype)


@decompose(aten.bincount.default)
def bincount(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    raise Unlowerable("the size of its result depends on the data")


def _unpooled(self: Tensor, indices: Tensor, output_size: Sequence[int]) -> Tensor:
    rank = len(output_size)
    lead = math.prod(self.shape[:-rank])
    zeros = torch.zeros([lead, math.prod(output_size)], dtype=self.dtype)
    flat = torch.scatter(zeros, 1, torch.reshape(indices, [lead, -1]), torch.reshape(self, [lead, -1]))
    return torch.reshape(flat, [*self.shape[:-rank], *output_size])


@decompose(aten.max_unpool2d.default)
def max_unpool2d(self: Tensor, indices: Tensor, output_size: Sequence[int]) -> Tensor:
    return _unpooled(self, indices, output_size)


@decompose(aten.max_unpool3d.default)
def max_unpool3d(
    self: Tensor, indices: Tensor, output_size: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Tensor:
    return _unpooled(self, indices, output_size)


@decompose(aten.as_strided_scatter.default)
def as_strided_scatter(
    self: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """For a contiguous ``self``: its memory is its elements in order."""
    if not self.is_contiguous():
        raise Unlowerable("as_strided_scatter into a tensor that is not contiguous")
    places = strided_places(size, stride, storage_offset or 0)
    flat = torch.scatter(torch.reshape(self, [-1]), 0, places, torch.reshape(cast(src, self.dtype), [-1]))
    return torch.reshape(flat, self.shape)


@decompose(aten.as_strided.default, aten.as_strided_copy.default)
def as_strided(self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """For a contiguous ``self``, as ``as_strided_scatter``."""
    if not self.is_contiguous():
        raise Unlowerable("as_strided of a tensor that is not contiguous")
    places = strided_places(size, stride, storage_offset or 0)
    return torch.reshape(torch.index_select(torch.reshape(self, [-1]), 0, places), list(size))


def strided_places(size: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
    """Flat positions of the elements of a strided view, in order."""
    places: Tensor = torch.full([1] * max(len(size), 1), offset, dtype=torch.int64)
    for d, (n, step) in enumerate(zip(size, stride, strict=True)):
        shape = [n if i == d else 1 for i in range(len(size))]
        places = torch.add(places, torch.reshape(torch.mul(torch.arange(n), step), shape))
    return torch.reshape(places, [-1])
