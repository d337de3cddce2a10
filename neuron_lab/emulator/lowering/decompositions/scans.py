"""Scans, sorting, distances."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._promotion import cast, computation_dtype, result_type
from .._records import Unlowerable
from .._registry import decompose

aten = torch.ops.aten

_LARGEST = 1 << 24
"""Elements of an all-pairs intermediate beyond which an op stays on the CPU."""


def _scan_type(self: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    return dtype or (self.dtype if self.is_floating_point() or self.is_complex() else torch.int64)


@decompose(aten.cumsum.default)
def cumsum(self: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    target = _scan_type(self, dtype)
    if self.dim() == 0:
        return cast(self, target).clone()
    compute = computation_dtype(target)
    if self.dtype == compute and dtype is None:
        return NotImplemented
    return cast(torch.cumsum(cast(self, compute), dim), target)


def _prefixes(self: Tensor, dim: int, fill: float) -> Tensor:
    """[..., n, n]: row i holds the elements up to i along ``dim``, and ``fill`` after that."""
    size = self.size(dim)
    if self.numel() * size > _LARGEST:
        raise Unlowerable(f"a scan of {size} elements compares too many pairs")
    moved = torch.unsqueeze(torch.movedim(self, dim, -1), -2)
    kept = torch.le(torch.arange(size), torch.reshape(torch.arange(size), [size, 1]))
    return torch.where(kept, moved, torch.full([], fill, dtype=self.dtype))


@decompose(aten.cumprod.default)
def cumprod(self: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    target = _scan_type(self, dtype)
    if self.dim() == 0:
        return cast(self, target).clone()
    wide = cast(self, computation_dtype(target))
    return cast(torch.movedim(torch.prod(_prefixes(wide, dim, 1), -1), -1, dim % self.dim()), target)


@decompose(aten.logcumsumexp.default, aten._logcumsumexp.default)
def logcumsumexp(self: Tensor, dim: int) -> Tensor:
    if not self.is_floating_point():
        raise Unlowerable("logcumsumexp of complex numbers")
    if self.dim() == 0:
        return self.clone()
    wide = cast(self, computation_dtype(self.dtype))
    found = torch.logsumexp(_prefixes(wide, dim, -math.inf), [-1])
    return cast(torch.movedim(found, -1, dim % self.dim()), self.dtype)


@decompose(aten.cummax.default)
def cummax(self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _running(self, dim, largest=True)


@decompose(aten.cummin.default)
def cummin(self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _running(self, dim, largest=False)


def _running(self: Tensor, dim: int, *, largest: bool) -> tuple[Tensor, Tensor]:
    """Values and the last position of each extreme, NaN counting as the extreme."""
    if self.dim() == 0:
        return self.clone(), torch.zeros([], dtype=torch.int64)
    if self.dtype in (torch.bool, torch.uint8):
        values, indices = _running(cast(self, torch.int32), dim, largest=largest)
        return cast(values, self.dtype), indices
    limits = torch.finfo(self.dtype) if self.is_floating_point() else torch.iinfo(self.dtype)
    worst = limits.min if largest else limits.max
    if self.is_floating_point():
        worst = -math.inf if largest else math.inf
    prefixes = _prefixes(self, dim, worst)
    best = torch.amax(prefixes, [-1]) if largest else torch.amin(prefixes, [-1])
    hit = torch.eq(prefixes, torch.unsqueeze(best, -1))
    if self.is_floating_point():
        hit = torch.logical_or(hit, torch.isnan(prefixes))
    size = self.size(dim)
    places = torch.arange(size)
    kept = torch.le(places, torch.reshape(places, [size, 1]))
    place = torch.amax(torch.where(torch.logical_and(hit, kept), places, -1), [-1])
    back = dim % self.dim()
    return torch.movedim(best, -1, back), torch.movedim(place, -1, back)


@decompose(aten.sort.stable)
def sort_stable(
    self: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return aten.sort.default(self, dim, descending)


@decompose(aten.sort.default)
def sort(self: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    if self.dim() == 0:
        return self.clone(), torch.zeros([], dtype=torch.int64)
    if self.dtype in (torch.bool, torch.uint8):
        values, indices = aten.sort.default(cast(self, torch.int32), dim, descending)
        return cast(values, self.dtype), indices
    if not self.is_floating_point() or getattr(self, _ORDERED, False):
        return NotImplemented
    indices = aten.sort.default(_keys(self), dim, descending)[1]
    return torch.gather(self, dim, indices), indices


_ORDERED = "_neuron_lab_ordered"
"""Marks keys that are sorted as they are."""


def _keys(self: Tensor) -> Tensor:
    """float64 keys that sort as the CPU does: NaN is greater than infinity."""
    limit = torch.finfo(torch.float64).max
    finite = torch.clamp(cast(self, torch.float64), -limit, limit)
    keys = torch.where(torch.isnan(self), math.inf, finite)
    setattr(keys, _ORDERED, True)
    return keys


@decompose(aten.argsort.default)
def argsort(self: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    return aten.sort.default(self, dim, descending)[1]


@decompose(aten.argsort.stable)
def argsort_stable(self: Tensor, *, stable: bool, dim: int = -1, descending: bool = False) -> Tensor:
    return aten.sort.default(self, dim, descending)[1]


@decompose(aten.topk.default)
def topk(self: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    if self.dim() == 0:
        return self.clone(), torch.zeros([], dtype=torch.int64)
    values, indices = aten.sort.default(self, dim, largest)
    return torch.narrow(values, dim, 0, k), torch.narrow(indices, dim, 0, k)


@decompose(aten.median.default)
def median(self: Tensor) -> Tensor:
    """The lower median; NaN if there is any."""
    flat = torch.reshape(self, [-1])
    ordered = aten.sort.default(flat, 0, False)[0]
    middle = torch.select(ordered, 0, (flat.size(0) - 1) // 2)
    if not self.is_floating_point():
        return middle.clone()
    return torch.where(torch.any(torch.isnan(flat)), math.nan, middle)


@decompose(aten._cdist_forward.default)
def cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    left, right = torch.unsqueeze(x1, -2), torch.unsqueeze(x2, -3)
    if x1.numel() * x2.size(-2) > _LARGEST:
        raise Unlowerable("too many pairs of points")
    return torch.linalg.vector_norm(torch.sub(left, right), p, [-1])


@decompose(aten._cdist_backward.default)
def cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    """Gradient for ``x1``, as the kernels of aten/src/ATen/native/cpu/DistanceOpsKernel.cpp."""
    difference = torch.sub(torch.unsqueeze(x1, -2), torch.unsqueeze(x2, -3))
    if difference.numel() > _LARGEST:
        raise Unlowerable("too many pairs of points")
    distance, outer = torch.unsqueeze(cdist, -1), torch.unsqueeze(grad, -1)
    zero = torch.eq(distance, 0)
    size = torch.abs(difference)
    if p == 0:
        return torch.zeros(x1.shape, dtype=x1.dtype)
    if p == 1:
        part = torch.mul(outer, torch.sign(difference))
    elif p == 2:
        part = torch.where(zero, 0.0, torch.div(torch.mul(outer, difference), distance))
    elif math.isinf(p):
        part = torch.mul(torch.mul(outer, torch.sign(difference)), cast(torch.eq(size, distance), x1.dtype))
    else:
        ratio = torch.pow(torch.div(size, distance), p - 1)
        part = torch.where(zero, 0.0, torch.mul(torch.mul(outer, torch.sign(difference)), ratio))
        if p < 1:
            part = torch.where(torch.eq(difference, 0), 0.0, part)
    return torch.sum(part, [-2])


@decompose(aten._pdist_forward.default)
def pdist(self: Tensor, p: float = 2.0) -> Tensor:
    """Distances of the pairs (0, 1), (0, 2), ..., (1, 2), ...: the upper triangle of all distances."""
    count = self.size(0)
    square = torch.reshape(cdist(self, self, p, None), [-1])
    row = torch.reshape(torch.arange(count), [-1, 1])
    column = torch.arange(count)
    kept = torch.reshape(torch.lt(row, column), [-1])
    # The kept places come first in a stable order.
    order = aten.sort.default(cast(torch.logical_not(kept), torch.int64), 0, False)[1]
    return torch.index_select(square, 0, torch.narrow(order, 0, 0, count * (count - 1) // 2))


@decompose(aten._pdist_backward.default)
def pdist_backward(grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor:
    count = self.size(0)
    if count < 2:
        return torch.zeros(self.shape, dtype=self.dtype)
    row = torch.reshape(torch.arange(count), [-1, 1])
    column = torch.arange(count)
    low, high = torch.minimum(row, column), torch.maximum(row, column)
    before = torch.div(torch.mul(low, torch.sub(2 * count - 1, low)), 2, rounding_mode="trunc")
    place = torch.reshape(
        torch.clamp(torch.sub(torch.add(before, torch.sub(high, low)), 1), 0, pdist.size(0) - 1), [-1]
    )

    def square(pairs: Tensor) -> Tensor:
        full = torch.reshape(torch.index_select(torch.reshape(pairs, [-1]), 0, place), [count, count])
        return torch.where(torch.eq(row, column), torch.zeros([], dtype=full.dtype), full)

    return cdist_backward(square(grad), self, self, p, square(pdist))


@decompose(aten.linalg_cross.default, aten.cross.default)
def cross(self: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    common = result_type(self, other)
    left, right = torch.broadcast_tensors(cast(self, common), cast(other, common))
    a = [torch.narrow(left, dim, i, 1) for i in range(3)]
    b = [torch.narrow(right, dim, i, 1) for i in range(3)]
    turns = [(1, 2), (2, 0), (0, 1)]
    return torch.cat([torch.sub(torch.mul(a[i], b[j]), torch.mul(a[j], b[i])) for i, j in turns], dim)


@decompose(aten.unfold_backward.default)
def unfold_backward(grad_in: Tensor, input_sizes: list[int], dim: int, size: int, step: int) -> Tensor:
    """Add every window back to where it came from."""
    if not input_sizes:
        return torch.reshape(grad_in, [])
    dim %= len(input_sizes)
    count = grad_in.size(dim)
    rows = torch.movedim(grad_in, -1, dim + 1)
    merged = torch.reshape(rows, [*grad_in.shape[:dim], count * size, *grad_in.shape[dim + 1 : -1]])
    starts = torch.reshape(torch.mul(torch.arange(count), step), [count, 1])
    places = torch.reshape(torch.add(starts, torch.arange(size)), [count * size])
    index = torch.reshape(places, [count * size if d == dim else 1 for d in range(merged.dim())]).expand(merged.shape)
    return torch.scatter_add(torch.zeros(list(input_sizes), dtype=grad_in.dtype), dim, index, merged)
