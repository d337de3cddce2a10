"""Sampling at the points of a grid, as aten/src/ATen/native/GridSampler.h."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .._promotion import cast, computation_dtype
from .._records import Unlowerable
from .._registry import decompose

aten = torch.ops.aten

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2


def _reflected(x: Tensor, slope: Tensor, low: float, span: float) -> tuple[Tensor, Tensor]:
    """Fold ``x`` into [low, low + span]; the slope changes its sign with every fold."""
    if span == 0:
        return torch.zeros(x.shape, dtype=x.dtype), torch.zeros(x.shape, dtype=x.dtype)
    shifted = torch.sub(x, low)
    negative = torch.lt(shifted, 0)
    slope = torch.where(negative, torch.neg(slope), slope)
    size = torch.abs(shifted)
    flips = torch.floor(torch.div(size, span))
    extra = torch.sub(size, torch.mul(flips, span))
    even = torch.eq(torch.sub(flips, torch.mul(torch.floor(torch.div(flips, 2.0)), 2.0)), 0)
    folded = torch.where(even, torch.add(extra, low), torch.add(torch.sub(span, extra), low))
    return folded, torch.where(even, slope, torch.neg(slope))


def _source(coordinate: Tensor, size: int, padding: int, align: bool) -> tuple[Tensor, Tensor]:
    """Position in the input along one dim, and its derivative by the grid's coordinate."""
    factor = (size - 1) / 2 if align else size / 2
    x = torch.mul(torch.add(coordinate, 1.0), factor)
    x = x if align else torch.sub(x, 0.5)
    slope = torch.full(x.shape, factor, dtype=x.dtype)
    if padding == _REFLECTION:
        x, slope = _reflected(x, slope, 0.0 if align else -0.5, float(size - 1 if align else size))
    if padding != _ZEROS:
        outside = torch.logical_or(torch.le(x, 0.0), torch.ge(x, float(size - 1)))
        slope = torch.where(outside, 0.0, slope)
        x = torch.clamp(x, 0.0, float(size - 1))
    return x, slope


class _Samples:
    """The corners around every grid point of [batch, channels, *sizes], in flat positions."""

    def __init__(self, input: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> None:
        if mode not in (_BILINEAR, _NEAREST):
            raise Unlowerable("bicubic grid sampling")
        self.compute = computation_dtype(input.dtype)
        self.sizes = list(input.shape[2:])
        self.batch, self.channels = input.shape[:2]
        self.points = math.prod(grid.shape[1:-1])
        self.rank = len(self.sizes)
        flat = torch.reshape(cast(grid, self.compute), [self.batch, self.points, self.rank])
        # The grid's last dim runs from the innermost spatial dim outwards.
        found = [
            _source(torch.select(flat, -1, self.rank - 1 - d), size, padding, align)
            for d, size in enumerate(self.sizes)
        ]
        self.slopes = [slope for _, slope in found]
        self.mode = mode
        self.at = [x for x, _ in found]

    def corners(self) -> list[tuple[Tensor, Tensor, list[tuple[Tensor, float]]]]:
        """(flat position, whether it is inside, per dim its share and the derivative of that) for every corner."""
        if self.mode == _NEAREST:
            one = torch.ones([], dtype=self.compute)
            return [(*self._place([torch.round(x) for x in self.at]), [(one, 0.0)] * self.rank)]
        low = [torch.floor(x) for x in self.at]
        part = [torch.sub(x, base) for x, base in zip(self.at, low, strict=True)]
        found = []
        for corner in itertools.product((0, 1), repeat=self.rank):
            places = [torch.add(base, float(step)) if step else base for base, step in zip(low, corner, strict=True)]
            shares = [
                (share, 1.0) if step else (torch.sub(1.0, share), -1.0)
                for share, step in zip(part, corner, strict=True)
            ]
            found.append((*self._place(places), shares))
        return found

    def _place(self, places: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        flat: Tensor | None = None
        inside: Tensor | None = None
        for place, size in zip(places, self.sizes, strict=True):
            within = torch.logical_and(torch.ge(place, 0.0), torch.le(place, float(size - 1)))
            inside = within if inside is None else torch.logical_and(inside, within)
            index = cast(torch.clamp(place, 0.0, float(size - 1)), torch.int64)
            flat = index if flat is None else torch.add(torch.mul(flat, size), index)
        assert flat is not None and inside is not None
        return flat, inside

    def spread(self, per_point: Tensor) -> Tensor:
        """[batch, points] as [batch, channels, points]."""
        return torch.unsqueeze(per_point, 1).expand([self.batch, self.channels, self.points])


def _product(values: Sequence[Tensor]) -> Tensor:
    total = values[0]
    for value in values[1:]:
        total = torch.mul(total, value)
    return total


@decompose(aten.grid_sampler_3d.default)
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    samples = _Samples(input, grid, interpolation_mode, padding_mode, align_corners)
    flat = torch.reshape(cast(input, samples.compute), [samples.batch, samples.channels, -1])
    total: Tensor | None = None
    for place, inside, shares in samples.corners():
        weight = torch.where(inside, _product([share for share, _ in shares]), 0.0)
        term = torch.mul(torch.gather(flat, 2, samples.spread(place)), torch.unsqueeze(weight, 1))
        total = term if total is None else torch.add(total, term)
    assert total is not None
    return cast(torch.reshape(total, [*input.shape[:2], *grid.shape[1:-1]]), input.dtype)


@decompose(aten.grid_sampler_2d_backward.default, aten.grid_sampler_3d_backward.default)
def grid_sampler_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor]:
    samples = _Samples(input, grid, interpolation_mode, padding_mode, align_corners)
    flat = torch.reshape(cast(input, samples.compute), [samples.batch, samples.channels, -1])
    grad = torch.reshape(cast(grad_output, samples.compute), [samples.batch, samples.channels, samples.points])
    image = torch.zeros(flat.shape, dtype=flat.dtype)
    toward: list[Tensor | None] = [None] * samples.rank
    for place, inside, shares in samples.corners():
        positions = samples.spread(place)
        weight = torch.where(inside, _product([share for share, _ in shares]), 0.0)
        image = torch.scatter_add(image, 2, positions, torch.mul(grad, torch.unsqueeze(weight, 1)))
        if interpolation_mode == _NEAREST:
            continue
        seen = torch.sum(torch.mul(torch.gather(flat, 2, positions), grad), [1])
        seen = torch.where(inside, seen, 0.0)
        for d in range(samples.rank):
            others = [share for other, (share, _) in enumerate(shares) if other != d]
            term = torch.mul(torch.mul(seen, _product(others)), shares[d][1])
            before = toward[d]
            toward[d] = term if before is None else torch.add(before, term)
    if interpolation_mode == _NEAREST:
        grad_grid = torch.zeros(grid.shape, dtype=grid.dtype)
    else:
        parts = [torch.mul(t, slope) for t, slope in zip(toward, samples.slopes, strict=True) if t is not None]
        grad_grid = cast(torch.reshape(torch.stack(parts[::-1], -1), grid.shape), grid.dtype)
    grad_input = cast(torch.reshape(image, input.shape), input.dtype) if output_mask[0] else None
    return grad_input, grad_grid
