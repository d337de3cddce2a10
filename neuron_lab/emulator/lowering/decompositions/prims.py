"""The prims that PyTorch's reference decompositions end in, as ATen ops."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._promotion import cast
from .._registry import DECOMPOSITIONS, decompose
from .complex import as_complex

aten = torch.ops.aten

_SAME = """
abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf exp exp2 expm1 floor isfinite log log10 log1p log2
neg reciprocal round rsqrt sign sin sinh sqrt tan tanh trunc
add atan2 bitwise_and bitwise_or bitwise_xor eq fmod ge gt le lt maximum minimum mul ne pow remainder sub
""".split()


def _register_same() -> None:
    import torch._prims

    for name in _SAME:
        packet = getattr(torch.ops.prims, name, None)
        if packet is not None:
            DECOMPOSITIONS[packet.default] = getattr(torch, name)


_register_same()
prims = torch.ops.prims


@decompose(prims.convert_element_type.default)
def convert_element_type(a: Tensor, dtype: torch.dtype) -> Tensor:
    return cast(a, dtype)


@decompose(prims.div.default)
def div(a: Tensor, b: Tensor) -> Tensor:
    return torch.div(a, b) if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


@decompose(prims.broadcast_in_dim.default)
def broadcast_in_dim(a: Tensor, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Tensor:
    sizes = [1] * len(shape)
    for source, target in enumerate(broadcast_dimensions):
        sizes[target] = a.size(source)
    return torch.reshape(a, sizes).expand(list(shape))


@decompose(prims.where.default)
def where(pred: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.where(pred, a, b)


@decompose(prims.sum.default)
def sum_(inp: Tensor, dims: Sequence[int] | None, *, output_dtype: torch.dtype | None = None) -> Tensor:
    return torch.sum(inp, list(range(inp.dim())) if dims is None else list(dims), dtype=output_dtype)


@decompose(prims.amax.default)
def amax(inp: Tensor, dims: Sequence[int] | None, *, output_dtype: torch.dtype | None = None) -> Tensor:
    return torch.amax(inp, list(range(inp.dim())) if dims is None else list(dims))


@decompose(prims.amin.default)
def amin(inp: Tensor, dims: Sequence[int] | None, *, output_dtype: torch.dtype | None = None) -> Tensor:
    return torch.amin(inp, list(range(inp.dim())) if dims is None else list(dims))


@decompose(prims.prod.default)
def prod(inp: Tensor, dims: Sequence[int] | None, *, output_dtype: torch.dtype | None = None) -> Tensor:
    for dim in sorted(range(inp.dim()) if dims is None else dims, reverse=True):
        inp = torch.prod(inp, dim, dtype=output_dtype)
    return inp


@decompose(prims.squeeze.default)
def squeeze(a: Tensor, dimensions: Sequence[int]) -> Tensor:
    return torch.reshape(a, [size for d, size in enumerate(a.shape) if d not in set(dimensions)])


@decompose(prims.transpose.default)
def transpose(a: Tensor, permutation: Sequence[int]) -> Tensor:
    return a.permute(list(permutation))


@decompose(prims.reshape.default)
def reshape(a: Tensor, shape: Sequence[int]) -> Tensor:
    return torch.reshape(a, list(shape))


@decompose(prims.cat.default)
def cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    return torch.cat(list(tensors), dim)


@decompose(prims.rev.default)
def rev(a: Tensor, dims: Sequence[int]) -> Tensor:
    return torch.flip(a, list(dims))


@decompose(prims.iota.default)
def iota(length: int, *, start: int, step: int, dtype: torch.dtype, device: object, requires_grad: bool) -> Tensor:
    return torch.arange(start, start + length * step, step, dtype=dtype)


@decompose(prims.view_of.default, prims.clone.default)
def same(a: Tensor, *, memory_format: object = None) -> Tensor:
    return a.clone()


@decompose(prims.collapse_view.default)
def collapse_view(a: Tensor, start: int, end: int) -> Tensor:
    return torch.reshape(a, [*a.shape[:start], -1, *a.shape[end + 1 :]])


@decompose(prims.split_dim.default)
def split_dim(a: Tensor, dim: int, outer_length: int) -> Tensor:
    return torch.reshape(a, [*a.shape[:dim], outer_length, a.size(dim) // outer_length, *a.shape[dim + 1 :]])


@decompose(prims.shift_left.default)
def shift_left(a: Tensor, b: Tensor) -> Tensor:
    return torch.bitwise_left_shift(a, b)


@decompose(prims.shift_right_arithmetic.default)
def shift_right(a: Tensor, b: Tensor) -> Tensor:
    return torch.bitwise_right_shift(a, b)


@decompose(prims.scalar_tensor.default)
def scalar_tensor(s: float, *, dtype: torch.dtype | None = None, device: object = None) -> Tensor:
    return torch.full([], s, dtype=dtype)


@decompose(prims.empty_strided.default)
def empty_strided(shape: Sequence[int], strides: Sequence[int], *, dtype: torch.dtype, **_: object) -> Tensor:
    return torch.zeros(list(shape), dtype=dtype)


@decompose(prims.empty_permuted.default)
def empty_permuted(shape: Sequence[int], physical_layout: Sequence[int], *, dtype: torch.dtype, **_: object) -> Tensor:
    return torch.zeros(list(shape), dtype=dtype)


@decompose(aten.empty.memory_format, aten.empty_strided.default)
def empty(size: Sequence[int], *_: object, dtype: torch.dtype | None = None, **__: object) -> Tensor:
    return torch.zeros(list(size), dtype=dtype)


@decompose(aten.empty_like.default)
def empty_like(self: Tensor, *, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    return torch.zeros(self.shape, dtype=dtype or self.dtype)


@decompose(aten.new_empty.default, aten.new_empty_strided.default, aten.new_zeros.default)
def new_empty(self: Tensor, size: Sequence[int], *_: object, dtype: torch.dtype | None = None, **__: object) -> Tensor:
    return torch.zeros(list(size), dtype=dtype or self.dtype)


@decompose(aten.new_ones.default)
def new_ones(self: Tensor, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    return torch.ones(list(size), dtype=dtype or self.dtype)


@decompose(aten.zeros.default)
def zeros(size: Sequence[int], *, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    return torch.full(list(size), 0, dtype=dtype or torch.get_default_dtype())


@decompose(aten.ones.default)
def ones(size: Sequence[int], *, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    return torch.full(list(size), 1, dtype=dtype or torch.get_default_dtype())


@decompose(aten.zeros_like.default)
def zeros_like(self: Tensor, *, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    return torch.full(self.shape, 0, dtype=dtype or self.dtype)


@decompose(aten.ones_like.default)
def ones_like(self: Tensor, *, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    return torch.full(self.shape, 1, dtype=dtype or self.dtype)


@decompose(aten.full.default)
def full(size: Sequence[int], fill_value: float, *, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    """torch-mlir has no constants of unsigned bytes."""
    if dtype is not None and dtype.is_complex:
        return as_complex(fill_value, dtype).expand(list(size))
    if dtype == torch.uint8:
        return cast(torch.full(list(size), int(fill_value), dtype=torch.int32), torch.uint8)
    if (
        isinstance(fill_value, bool) and dtype is not None and dtype.is_floating_point
    ):  # torch-mlir makes NaN of True in float64
        return torch.full(list(size), float(fill_value), dtype=dtype)
    return NotImplemented
