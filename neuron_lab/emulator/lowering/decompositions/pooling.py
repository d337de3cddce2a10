"""Average, adaptive and max pooling."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .._promotion import cast, computation_dtype
from .._records import Unlowerable
from .._registry import decompose
from .convolution import fitted

aten = torch.ops.aten
Ints = Sequence[int]


def _full(values: Ints, rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


def _line(count: int, dim: int, rank: int, dtype: torch.dtype) -> Tensor:
    """0 .. count-1 along ``dim`` of ``rank`` dims."""
    values = torch.arange(count, dtype=torch.int64)
    return cast(torch.reshape(values, [count if d == dim else 1 for d in range(rank)]), dtype)


def _out_size(size: int, kernel: int, stride: int, pad: int, ceil_mode: bool) -> int:
    span = size + 2 * pad - kernel
    count = (-(-span // stride) if ceil_mode else span // stride) + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= size + pad else count


class _Window:
    """Geometry of an average pooling over the last ``rank`` dims."""

    def __init__(self, spatial: Ints, kernel: Ints, stride: Ints, padding: Ints, ceil_mode: bool) -> None:
        rank = len(spatial)
        self.spatial = list(spatial)
        self.kernel = _full(kernel, rank)
        self.stride = _full(stride, rank) if stride else self.kernel
        self.padding = _full(padding, rank)
        self.out = [
            _out_size(*sizes, ceil_mode)
            for sizes in zip(self.spatial, self.kernel, self.stride, self.padding, strict=True)
        ]

    def divisor(self, count_include_pad: bool, override: int | None, dtype: torch.dtype) -> Tensor | float:
        if override is not None:
            return float(override)
        rank = len(self.spatial)
        total: Tensor | None = None
        for d, (size, kernel, stride, pad) in enumerate(
            zip(self.spatial, self.kernel, self.stride, self.padding, strict=True)
        ):
            start = torch.sub(torch.mul(_line(self.out[d], d, rank, torch.int64), stride), pad)
            end = torch.clamp(torch.add(start, kernel), max=size + pad)
            if not count_include_pad:
                start, end = torch.clamp(start, min=0), torch.clamp(end, max=size)
            length = torch.sub(end, start)
            total = length if total is None else torch.mul(total, length)
        assert total is not None
        return cast(total, dtype)

    def ones(self, dtype: torch.dtype) -> Tensor:
        return torch.ones([1, 1, *self.kernel], dtype=dtype)


def _flat(tensor: Tensor, rank: int) -> Tensor:
    lead = math.prod(tensor.shape[:-rank])
    return cast(torch.reshape(tensor, [lead, 1, *tensor.shape[-rank:]]), computation_dtype(tensor.dtype))


def _avg_pool(
    self: Tensor,
    rank: int,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    include: bool,
    override: int | None,
) -> Tensor:
    window = _Window(self.shape[-rank:], kernel, stride, padding, ceil_mode)
    flat = _flat(self, rank)
    after = [
        (out - 1) * s + k - size - p
        for out, s, k, size, p in zip(
            window.out, window.stride, window.kernel, window.spatial, window.padding, strict=True
        )
    ]
    pad = [amount for p, a in zip(reversed(window.padding), reversed(after), strict=True) for amount in (p, a)]
    if any(pad):
        flat = aten.constant_pad_nd.default(flat, pad, 0)
    zeros, one = [0] * rank, [1] * rank
    total = aten.convolution.default(flat, window.ones(flat.dtype), None, window.stride, zeros, one, False, zeros, 1)
    mean = torch.div(total, window.divisor(include, override, flat.dtype))
    return cast(torch.reshape(mean, [*self.shape[:-rank], *window.out]), self.dtype)


@decompose(aten.avg_pool2d.default)
def avg_pool2d(
    self: Tensor,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    return _avg_pool(self, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@decompose(aten.avg_pool3d.default)
def avg_pool3d(
    self: Tensor,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    return _avg_pool(self, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@decompose(aten.avg_pool1d.default)
def avg_pool1d(
    self: Tensor,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    return _avg_pool(self, 1, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@decompose(aten.avg_pool2d_backward.default, aten.avg_pool3d_backward.default)
def avg_pool_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    rank = len(kernel_size)
    window = _Window(self.shape[-rank:], kernel_size, stride, padding, ceil_mode)
    flat = _flat(grad_output, rank)
    shares = torch.div(flat, window.divisor(count_include_pad, divisor_override, flat.dtype))
    zeros, one = [0] * rank, [1] * rank
    spread = aten.convolution.default(shares, window.ones(flat.dtype), None, window.stride, zeros, one, True, zeros, 1)
    need = [size + p for size, p in zip(window.spatial, window.padding, strict=True)]
    spread = fitted(spread, [max(n, spread.size(d + 2)) for d, n in enumerate(need)])
    for d, size in enumerate(window.spatial):
        spread = torch.narrow(spread, d + 2, window.padding[d], size)
    return cast(torch.reshape(spread, self.shape), self.dtype)


def _averaging(size: int, out: int, dtype: torch.dtype) -> Tensor:
    """[out, size] matrix of an adaptive average: bin i covers floor(i*size/out) up to ceil((i+1)*size/out)."""
    bins = torch.reshape(torch.arange(out), [out, 1])
    start = torch.div(torch.mul(bins, size), out, rounding_mode="trunc")
    end = torch.div(torch.add(torch.mul(torch.add(bins, 1), size), out - 1), out, rounding_mode="trunc")
    cells = torch.reshape(torch.arange(size), [1, size])
    inside = torch.logical_and(torch.ge(cells, start), torch.lt(cells, end))
    return torch.div(cast(inside, dtype), cast(torch.sub(end, start), dtype))


def along(tensor: Tensor, matrix: Tensor, dim: int) -> Tensor:
    """Apply ``matrix`` [new, old] to ``dim`` of ``tensor``."""
    moved = torch.movedim(tensor, dim, -1)
    flat = torch.reshape(moved, [-1, moved.size(-1)])
    result = torch.reshape(torch.mm(flat, matrix.t()), [*moved.shape[:-1], matrix.size(0)])
    return torch.movedim(result, -1, dim)


@decompose(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default, aten.adaptive_avg_pool1d.default)
def adaptive_avg_pool(self: Tensor, output_size: Ints) -> Tensor:
    rank = len(output_size)
    wide = cast(self, computation_dtype(self.dtype))
    if all(size == 1 for size in output_size):
        return cast(torch.mean(wide, list(range(-rank, 0)), True), self.dtype)
    for d, out in enumerate(output_size):
        dim = self.dim() - rank + d
        if self.size(dim) != out:
            wide = along(wide, _averaging(self.size(dim), out, wide.dtype), dim)
    return cast(wide, self.dtype)


@decompose(aten._adaptive_avg_pool2d_backward.default, aten._adaptive_avg_pool3d_backward.default)
def adaptive_avg_pool_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    wide = cast(grad_output, computation_dtype(grad_output.dtype))
    for dim in range(self.dim()):
        if self.size(dim) != grad_output.size(dim):
            wide = along(wide, _averaging(self.size(dim), grad_output.size(dim), wide.dtype).t(), dim)
    return cast(wide, self.dtype)


@decompose(aten.max_pool2d_with_indices.default)
def max_pool2d_with_indices(
    self: Tensor,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    dilation: Ints = (1,),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """torch-mlir is right for batched, floor-mode pooling with a stride; the rest is reduced to that."""
    if self.dtype == torch.int8:
        raise Unlowerable("torch-mlir ends the process for int8")
    if self.dim() == 3:
        values, indices = aten.max_pool2d_with_indices.default(
            torch.unsqueeze(self, 0), kernel_size, stride, padding, dilation, ceil_mode
        )
        return torch.squeeze(values, 0), torch.squeeze(indices, 0)
    if ceil_mode:
        return _ceil_max_pool(self, *[_full(v, 2) for v in (kernel_size, stride or kernel_size, padding, dilation)])
    if not stride:
        return aten.max_pool2d_with_indices.default(self, kernel_size, kernel_size, padding, dilation)
    return NotImplemented


def _ceil_max_pool(
    self: Tensor, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]
) -> tuple[Tensor, Tensor]:
    """Pad with -inf to what the last window needs, then translate the positions back."""
    sizes = list(self.shape[-2:])
    extra = []
    for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        reach = d * (k - 1) + 1
        count = _out_size(size, reach, s, p, True)
        extra.append(max((count - 1) * s + reach - size - 2 * p, 0))
    if not any(extra):
        return aten.max_pool2d_with_indices.default(self, kernel, stride, padding, dilation)
    if not self.is_floating_point():
        raise Unlowerable("max pooling of integers with ceil_mode")
    padded = aten.constant_pad_nd.default(self, [0, extra[1], 0, extra[0]], -math.inf)
    values, indices = aten.max_pool2d_with_indices.default(padded, kernel, stride, padding, dilation)
    width = padded.size(-1)
    row = torch.div(indices, width, rounding_mode="trunc")
    column = torch.sub(indices, torch.mul(row, width))
    return values, torch.add(torch.mul(row, sizes[1]), column)


def _scattered(grad: Tensor, self: Tensor, indices: Tensor, rank: int) -> Tensor:
    """Sum ``grad`` into the flat spatial positions ``indices``."""
    lead = math.prod(self.shape[:-rank])
    zero = torch.zeros([lead, math.prod(self.shape[-rank:])], dtype=grad.dtype)
    flat = torch.scatter_add(zero, 1, torch.reshape(indices, [lead, -1]), torch.reshape(grad, [lead, -1]))
    return torch.reshape(flat, self.shape)


@decompose(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    return _scattered(grad_output, self, indices, 2)


@decompose(aten.max_pool3d_with_indices_backward.default)
def max_pool3d_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    return _scattered(grad_output, self, indices, 3)


@decompose(aten.adaptive_max_pool2d_backward.default)
def adaptive_max_pool2d_backward(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
    return _scattered(grad_output, self, indices, 2)


@decompose(aten.adaptive_max_pool3d_backward.default)
def adaptive_max_pool3d_backward(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
    return _scattered(grad_output, self, indices, 3)


def _bins(size: int, out: int) -> Tensor:
    """[out, longest] positions of the elements of every adaptive bin; a shorter bin repeats its last one."""
    starts = [i * size // out for i in range(out)]
    ends = [-(-(i + 1) * size // out) for i in range(out)]
    longest = max(end - start for start, end in zip(starts, ends, strict=True))
    step = torch.reshape(torch.arange(out), [out, 1])
    start = torch.div(torch.mul(step, size), out, rounding_mode="trunc")
    end = torch.div(torch.add(torch.mul(torch.add(step, 1), size), out - 1), out, rounding_mode="trunc")
    return torch.minimum(torch.add(start, torch.arange(longest)), torch.sub(end, 1))


@decompose(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(self: Tensor, output_size: Ints) -> tuple[Tensor, Tensor]:
    """Gather every bin into rows, then take the first largest element of each."""
    rank = len(output_size)
    lead, spatial = list(self.shape[:-rank]), list(self.shape[-rank:])
    places: Tensor | None = None
    for d, (size, out) in enumerate(zip(spatial, output_size, strict=True)):
        bins = _bins(size, out)
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = bins.shape
        part = torch.reshape(bins, shape)
        places = part if places is None else torch.add(torch.mul(places, size), part)
    assert places is not None
    cells = torch.reshape(places, [math.prod(output_size), -1])
    flat = torch.reshape(self, [*lead, math.prod(spatial)])
    windows = torch.index_select(flat, -1, torch.reshape(cells, [-1]))
    windows = torch.reshape(windows, [*lead, *cells.shape])
    chosen = torch.unsqueeze(torch.argmax(windows, -1), -1)
    values = torch.gather(windows, -1, chosen)
    indices = torch.gather(cells.expand([*lead, *cells.shape]), -1, chosen)
    return torch.reshape(values, [*lead, *output_size]), torch.reshape(indices, [*lead, *output_size])
