"""Interpolation with antialiasing, and the gradients of all interpolation: every kind is a product of one matrix per dim, so the gradient is its transpose.

Along a long dim it is added up instead: the matrix would be nearly all zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._promotion import cast, computation_dtype
from .._records import Unlowerable
from .._registry import decompose
from .pooling import along

aten = torch.ops.aten

Taps = list[tuple[Tensor, Tensor | None]]
"""Which cell each new one takes its value from [out, 1], and its share of it; None stands for the whole."""

# With an up to 512 cells long dim the product is as fast or faster, from 4096 on adding up takes a hundredth of its time.
_LONG = 512
"""Cells."""


def _ratio(size: int, out: int, align_corners: bool, scale: float | None) -> float:
    """``area_pixel_compute_scale`` of ATen's UpSample.h."""
    if align_corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1.0 / scale if scale is not None and scale > 0 else size / out


def _column(out: int, dtype: torch.dtype) -> Tensor:
    return cast(torch.reshape(torch.arange(out), [out, 1]), dtype)


def _nearest(size: int, out: int, scale: float | None, exact: bool) -> Taps:
    step = _ratio(size, out, False, scale)
    position = torch.add(_column(out, torch.float32), 0.5 if exact else 0.0)
    source = torch.clamp(torch.floor(torch.mul(position, step)), max=size - 1)
    return [(cast(source, torch.int64), None)]


def _linear(size: int, out: int, align_corners: bool, scale: float | None, dtype: torch.dtype) -> Taps:
    step = _ratio(size, out, align_corners, scale)
    position = _column(out, dtype)
    if align_corners:
        real = torch.mul(position, step)
    else:
        real = torch.clamp(torch.sub(torch.mul(torch.add(position, 0.5), step), 0.5), min=0.0)
    low = torch.clamp(torch.floor(real), max=size - 1)
    high = torch.clamp(torch.add(low, 1), max=size - 1)
    share = torch.clamp(torch.sub(real, low), 0.0, 1.0)
    return [(cast(low, torch.int64), torch.sub(1.0, share)), (cast(high, torch.int64), share)]


def _cubic(size: int, out: int, align_corners: bool, scale: float | None, dtype: torch.dtype) -> Taps:
    """Keys' kernel with a = -0.75; borders repeat."""
    step = _ratio(size, out, align_corners, scale)
    position = _column(out, dtype)
    real = torch.mul(position, step) if align_corners else torch.sub(torch.mul(torch.add(position, 0.5), step), 0.5)
    base = torch.floor(real)
    part = torch.sub(real, base)
    taps: Taps = []
    for shift in (-1, 0, 1, 2):
        distance = torch.abs(torch.sub(part, float(shift)))
        near = torch.add(torch.mul(torch.mul(torch.sub(torch.mul(distance, 1.25), 2.25), distance), distance), 1.0)
        far = torch.add(torch.mul(torch.add(torch.mul(distance, -0.75), 3.75), distance), -6.0)
        far = torch.add(torch.mul(far, distance), 3.0)
        weight = torch.where(torch.le(distance, 1.0), near, far)
        cell = torch.clamp(torch.add(base, float(shift)), 0.0, float(size - 1))
        taps.append((cast(cell, torch.int64), weight))
    return taps


def _matrix(taps: Taps, size: int, dtype: torch.dtype) -> Tensor:
    """[out, size]."""
    total: Tensor | None = None
    for cell, share in taps:
        hit = cast(torch.eq(cell, torch.arange(size)), dtype)
        term = hit if share is None else torch.mul(hit, share)
        total = term if total is None else torch.add(total, term)
    assert total is not None
    return total


def _added_up(grad: Tensor, taps: Taps, size: int, dim: int) -> Tensor:
    """What ``along`` gives for the transposed matrix of ``taps``."""
    line = [-1 if d == dim else 1 for d in range(grad.dim())]
    total = torch.zeros([size if d == dim else n for d, n in enumerate(grad.shape)], dtype=grad.dtype)
    for cell, share in taps:
        part = grad if share is None else torch.mul(grad, torch.reshape(share, line))
        total = torch.scatter_add(total, dim, torch.reshape(cell, line).expand(part.shape), part)
    return total


def _antialiased(
    size: int, out: int, align_corners: bool, scale: float | None, dtype: torch.dtype, cubic: bool
) -> Tensor:
    """Pillow's filters: the kernel is stretched over all the cells that an output cell covers, and normalised."""
    step = _ratio(size, out, align_corners, scale)
    stretch = max(step, 1.0)
    support = (2.0 if cubic else 1.0) * stretch
    centre = torch.mul(torch.add(_column(out, dtype), 0.5), step)
    cells = cast(torch.arange(size), dtype)
    first = torch.clamp(torch.trunc(torch.add(centre, 0.5 - support)), min=0.0)
    end = torch.clamp(torch.trunc(torch.add(centre, 0.5 + support)), max=float(size))
    distance = torch.abs(torch.mul(torch.add(torch.sub(cells, centre), 0.5), 1.0 / stretch))
    weight = _keys(distance) if cubic else torch.clamp(torch.sub(1.0, distance), min=0.0)
    inside = torch.logical_and(torch.ge(cells, first), torch.lt(cells, end))
    weight = torch.where(inside, weight, torch.zeros([], dtype=dtype))
    total = torch.sum(weight, [1], True)
    return torch.div(weight, torch.where(torch.eq(total, 0.0), torch.ones([], dtype=dtype), total))


def _keys(distance: Tensor) -> Tensor:
    """Keys' kernel with a = -0.5, which the antialiased kind uses."""
    near = torch.add(torch.mul(torch.mul(torch.sub(torch.mul(distance, 1.5), 2.5), distance), distance), 1.0)
    far = torch.sub(torch.mul(torch.add(torch.mul(distance, -0.5), 2.5), distance), 4.0)
    far = torch.add(torch.mul(far, distance), 2.0)
    outer = torch.where(torch.lt(distance, 2.0), far, torch.zeros([], dtype=distance.dtype))
    return torch.where(torch.lt(distance, 1.0), near, outer)


def _register_antialiased(name: str, cubic: bool) -> None:
    def matrices(
        dtype: torch.dtype, out: Sequence[int], sizes: Sequence[int], align: bool, scales: Sequence[float | None]
    ) -> list[Tensor]:
        if dtype not in (torch.float32, torch.float64):
            raise Unlowerable("the CPU's kernel takes no 16-bit floats")
        return [_antialiased(size, new, align, s, dtype, cubic) for size, new, s in _geometry(out, sizes, scales)]

    def forward(self: Tensor, output_size: Sequence[int], align_corners: bool, *scales: float | None) -> Tensor:
        found = matrices(self.dtype, output_size, self.shape, align_corners, scales)
        for dim, matrix in reversed(list(enumerate(found, start=2))):  # the innermost dim first, as the CPU
            self = along(self, matrix, dim)
        return self

    def backward(
        grad_output: Tensor,
        output_size: Sequence[int],
        input_size: Sequence[int],
        align_corners: bool,
        *scales: float | None,
    ) -> Tensor:
        for dim, matrix in enumerate(
            matrices(grad_output.dtype, output_size, input_size, align_corners, scales), start=2
        ):
            grad_output = along(grad_output, matrix.t(), dim)
        return grad_output

    decompose(getattr(aten, name).default)(forward)
    decompose(getattr(aten, f"{name}_backward").default)(backward)


def _gradient(grad: Tensor, taps: list[Taps], input_size: Sequence[int]) -> Tensor:
    wide = cast(grad, computation_dtype(grad.dtype))
    for dim, (size, found) in enumerate(zip(input_size[2:], taps, strict=True), start=2):
        if size > _LONG:
            wide = _added_up(wide, found, size, dim)
        else:
            wide = along(wide, _matrix(found, size, wide.dtype).t(), dim)
    return cast(wide, grad.dtype)


def _geometry(
    output_size: Sequence[int], input_size: Sequence[int], scales: Sequence[float | None]
) -> list[tuple[int, int, float | None]]:
    known = list(scales) or [None] * len(output_size)
    return list(zip(input_size[2:], output_size, known, strict=True))


def _register_nearest(name: str, exact: bool) -> None:
    def backward(
        grad_output: Tensor, output_size: Sequence[int], input_size: Sequence[int], *scales: float | None
    ) -> Tensor:
        geometry = _geometry(output_size, input_size, scales)
        taps = [_nearest(size, out, scale, exact) for size, out, scale in geometry]
        return _gradient(grad_output, taps, input_size)

    decompose(getattr(aten, name).default)(backward)


for _rank in (1, 2, 3):
    _register_nearest(f"upsample_nearest{_rank}d_backward", exact=False)
    _register_nearest(f"_upsample_nearest_exact{_rank}d_backward", exact=True)


@decompose(
    aten.upsample_linear1d_backward.default,
    aten.upsample_bilinear2d_backward.default,
    aten.upsample_trilinear3d_backward.default,
)
def upsample_linear_backward(
    grad_output: Tensor,
    output_size: Sequence[int],
    input_size: Sequence[int],
    align_corners: bool,
    *scales: float | None,
) -> Tensor:
    dtype = computation_dtype(grad_output.dtype)
    geometry = _geometry(output_size, input_size, scales)
    taps = [_linear(size, out, align_corners, scale, dtype) for size, out, scale in geometry]
    return _gradient(grad_output, taps, input_size)


@decompose(aten.upsample_bicubic2d_backward.default)
def upsample_bicubic_backward(
    grad_output: Tensor,
    output_size: Sequence[int],
    input_size: Sequence[int],
    align_corners: bool,
    *scales: float | None,
) -> Tensor:
    dtype = computation_dtype(grad_output.dtype)
    geometry = _geometry(output_size, input_size, scales)
    taps = [_cubic(size, out, align_corners, scale, dtype) for size, out, scale in geometry]
    return _gradient(grad_output, taps, input_size)


_register_antialiased("_upsample_bilinear2d_aa", cubic=False)
_register_antialiased("_upsample_bicubic2d_aa", cubic=True)
