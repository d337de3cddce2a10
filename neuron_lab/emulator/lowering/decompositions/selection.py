"""Order statistics: the k-th value, medians, the mode."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._promotion import cast
from .._records import Unlowerable
from .._registry import decompose

aten = torch.ops.aten

_LARGEST = 1 << 24
"""Elements of an all-pairs comparison beyond which an op stays on the CPU."""


def _picked(self: Tensor, dim: int, keepdim: bool, rank: int | Tensor) -> tuple[Tensor, Tensor]:
    """Value and position of the ``rank``-th smallest element, NaN being the largest."""
    values, indices = aten.sort.default(self, dim, False)
    if isinstance(rank, int):
        picked = torch.narrow(values, dim, rank, 1), torch.narrow(indices, dim, rank, 1)
    else:
        picked = torch.gather(values, dim, rank), torch.gather(indices, dim, rank)
    return picked if keepdim else (torch.squeeze(picked[0], dim), torch.squeeze(picked[1], dim))


@decompose(aten.kthvalue.default)
def kthvalue(self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if self.dim() == 0:
        return self.clone(), torch.zeros([], dtype=torch.int64)
    return _picked(self, dim, keepdim, k - 1)


@decompose(aten.median.dim)
def median_dim(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower median; the first NaN if there is any."""
    if self.dim() == 0:
        return self.clone(), torch.zeros([], dtype=torch.int64)
    size = self.size(dim)
    if not self.is_floating_point():
        return _picked(self, dim, keepdim, (size - 1) // 2)
    missing = cast(torch.isnan(self), torch.int64)
    found = torch.sum(missing, [dim], True)
    first = torch.sub(size, found)  # a stable sort puts the first NaN here
    return _picked(self, dim, keepdim, torch.where(torch.gt(found, 0), first, (size - 1) // 2))


@decompose(aten.nanmedian.dim)
def nanmedian_dim(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if self.dim() == 0 or not self.is_floating_point():
        return median_dim(self, dim, keepdim)
    missing = torch.sum(cast(torch.isnan(self), torch.int64), [dim], True)
    last = torch.sub(self.size(dim) - 1, missing)
    rank = torch.div(torch.clamp(last, min=0), 2, rounding_mode="trunc")
    return _picked(self, dim, keepdim, rank)


@decompose(aten.nanmedian.default)
def nanmedian(self: Tensor) -> Tensor:
    return nanmedian_dim(torch.reshape(self, [-1]), 0)[0]


@decompose(aten.mode.default)
def mode(self: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest of the most frequent values, and its last position."""
    if self.dim() == 0:
        return self.clone(), torch.zeros([], dtype=torch.int64)
    dim %= self.dim()
    size = self.size(dim)
    if self.numel() * size > _LARGEST:
        raise Unlowerable(f"the mode of {size} elements compares too many pairs")
    rows = torch.movedim(self, dim, -1)
    equal = torch.eq(torch.unsqueeze(rows, -1), torch.unsqueeze(rows, -2))
    count = torch.sum(cast(equal, torch.int64), [-1])
    frequent = torch.eq(count, torch.amax(count, [-1], True))
    wide = cast(rows, torch.int32) if self.dtype in (torch.bool, torch.uint8) else rows
    top = math.inf if self.is_floating_point() else torch.iinfo(wide.dtype).max
    value = torch.amin(torch.where(frequent, wide, torch.full([], top, dtype=wide.dtype)), [-1], True)
    place = torch.amax(torch.where(torch.eq(wide, value), torch.arange(size), -1), [-1], True)
    results = cast(torch.movedim(value, -1, dim), self.dtype), torch.movedim(place, -1, dim)
    return results if keepdim else (torch.squeeze(results[0], dim), torch.squeeze(results[1], dim))


@decompose(aten.nonzero_static.default)
def nonzero_static(self: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Coordinates of the first ``size`` elements that are not zero; ``fill_value`` in the rows behind them."""
    if self.dim() == 0:
        return torch.zeros([size, 0], dtype=torch.int64)
    flags = torch.ne(torch.reshape(self, [-1]), 0)
    # The places that are kept come first in a stable order.
    order = aten.sort.default(cast(torch.logical_not(flags), torch.int64), 0, False)[1]
    order = torch.cat([order, torch.zeros([size], dtype=torch.int64)])[:size]
    filled = torch.lt(torch.arange(size), torch.sum(cast(flags, torch.int64)))
    columns = []
    step = self.numel()
    for extent in self.shape:
        step //= extent
        place = torch.div(order, step, rounding_mode="trunc")
        columns.append(torch.sub(place, torch.mul(torch.div(place, extent, rounding_mode="trunc"), extent)))
    return torch.where(torch.unsqueeze(filled, -1), torch.stack(columns, -1), fill_value)
