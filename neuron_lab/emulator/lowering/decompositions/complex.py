"""Complex numbers: torch-mlir never sees one. Linear ops run on both parts, the rest is StableHLO's own."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._island import binary, island, tensor_type, type_of, unary
from .._promotion import Operand, cast, result_type
from .._records import Unlowerable
from .._registry import COMPLEX, decompose, on_complex

aten = torch.ops.aten


def part_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a complex type's parts."""
    return torch.float64 if dtype == torch.complex128 else torch.float32


def complex_dtype(dtype: torch.dtype) -> torch.dtype:
    """The complex type with parts of ``dtype``."""
    return torch.complex128 if dtype == torch.float64 else torch.complex64


def real(x: Tensor) -> Tensor:
    """The real part; ``x`` itself when it is real."""
    return unary("stablehlo.real", x, part_dtype(x.dtype)) if x.dtype.is_complex else x


def imaginary(x: Tensor) -> Tensor:
    """The imaginary part; zeros when ``x`` is real."""
    return (
        unary("stablehlo.imag", x, part_dtype(x.dtype)) if x.dtype.is_complex else torch.zeros(x.shape, dtype=x.dtype)
    )


def joined(re: Tensor, im: Tensor) -> Tensor:
    """The complex tensor with these parts."""
    return binary("stablehlo.complex", re, im, complex_dtype(re.dtype))


def as_complex(value: Operand, dtype: torch.dtype) -> Tensor:
    """A number or tensor in a complex dtype."""
    part = part_dtype(dtype)
    if isinstance(value, Tensor):
        return joined(cast(real(value), part), cast(imaginary(value), part)) if value.dtype != dtype else value
    if isinstance(value, (bool, int, float, complex)):
        number = complex(value)
        return joined(torch.full([], number.real, dtype=part), torch.full([], number.imag, dtype=part))
    return as_complex(value.tensor, dtype)


def _pair(left: Operand, right: Operand) -> tuple[Tensor, Tensor]:
    common = result_type(left, right)
    return as_complex(left, common), as_complex(right, common)


def _half(value: Any, part: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return part(value) if value.dtype.is_complex or value.is_floating_point() else value
    if isinstance(value, complex):
        raise Unlowerable("a complex number as an argument")
    if isinstance(value, (list, tuple)):
        return type(value)(_half(item, part) for item in value)
    return value


def _by_parts(op: Any) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        halves = [
            op(*_half(args, part), **{name: _half(value, part) for name, value in kwargs.items()})
            for part in (real, imaginary)
        ]
        if isinstance(halves[0], (list, tuple)):
            return [joined(re, im) for re, im in zip(*halves, strict=True)]
        return joined(*halves)

    return run


_BY_PARTS = """
view.default _unsafe_view.default permute.default t.default transpose.int expand.default unsqueeze.default
squeeze.default squeeze.dim squeeze.dims slice.Tensor select.int cat.default stack.default gather.default
index_select.default flip.default repeat.default broadcast_to.default reshape.default roll.default
sum.default sum.dim_IntList cumsum.default diagonal.default tril.default triu.default index.Tensor index_put.default
scatter.src scatter_add.default where.self select_backward.default slice_backward.default slice_scatter.default
select_scatter.default diagonal_scatter.default diagonal_backward.default neg.default trace.default
diagonal_copy.default split_with_sizes_copy.default unsafe_split.Tensor unfold_backward.default embedding.default
index_copy.default index_add.default masked_scatter.default take.default put.default narrow_copy.default
as_strided.default diag_embed.default zeros_like.default constant_pad_nd.default
reflection_pad1d.default reflection_pad2d.default reflection_pad3d.default replication_pad1d.default
replication_pad2d.default replication_pad3d.default
""".split()


def _register_by_parts() -> None:
    for name in _BY_PARTS:
        packet, _, overload = name.partition(".")
        if hasattr(aten, packet):
            op = getattr(getattr(aten, packet), overload)
            COMPLEX[op] = _by_parts(op)


_register_by_parts()


def _additive(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(self: Operand, other: Operand, *, alpha: complex = 1) -> Tensor:
        left, right = _pair(self, other)
        if alpha != 1:
            right = torch.mul(right, alpha)
        return joined(function(real(left), real(right)), function(imaginary(left), imaginary(right)))

    return run


on_complex(aten.add.Tensor, aten.add.Scalar)(_additive(torch.add))
on_complex(aten.sub.Tensor, aten.sub.Scalar)(_additive(torch.sub))


@on_complex(aten.rsub.Scalar, aten.rsub.Tensor)
def rsub(self: Operand, other: Operand, alpha: complex = 1) -> Tensor:
    return torch.sub(other, torch.mul(self, alpha))  # type: ignore[arg-type]


def _bilinear(product: Callable[[Tensor, Tensor], Tensor], left: Tensor, right: Tensor) -> Tensor:
    a, b, c, d = real(left), imaginary(left), real(right), imaginary(right)
    return joined(torch.sub(product(a, c), product(b, d)), torch.add(product(a, d), product(b, c)))


@on_complex(aten.mul.Tensor, aten.mul.Scalar)
def mul(self: Operand, other: Operand) -> Tensor:
    left, right = _pair(self, other)
    return _bilinear(torch.mul, left, right)


@on_complex(aten.mm.default)
def mm(self: Tensor, mat2: Tensor) -> Tensor:
    return _bilinear(torch.mm, self, mat2)


@on_complex(aten.bmm.default)
def bmm(self: Tensor, mat2: Tensor) -> Tensor:
    return _bilinear(torch.bmm, self, mat2)


@on_complex(aten.convolution.default)
def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
    result = _bilinear(lambda x, w: aten.convolution.default(x, w, None, *rest), input, weight)
    if bias is None:
        return result
    return torch.add(result, torch.reshape(bias, [-1] + [1] * (input.dim() - 2)))


@on_complex(aten.div.Tensor, aten.div.Scalar)
def div(self: Operand, other: Operand) -> Tensor:
    if isinstance(other, (bool, int, float)) and isinstance(self, Tensor):
        return joined(torch.div(real(self), other), torch.div(imaginary(self), other))
    return binary("stablehlo.divide", *_pair(self, other))


@on_complex(aten.reciprocal.default)
def reciprocal(self: Tensor) -> Tensor:
    return torch.div(as_complex(1, self.dtype), self)


@on_complex(aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar, aten.pow.Scalar)
def pow_(self: Operand, exponent: Operand) -> Tensor:
    if isinstance(exponent, (int, float)) and exponent in (2, 3) and isinstance(self, Tensor):
        return torch.mul(self, self) if exponent == 2 else torch.mul(torch.mul(self, self), self)
    left, right = _pair(self, exponent)
    zero = torch.logical_and(torch.eq(real(right), 0), torch.eq(imaginary(right), 0))
    return torch.where(zero, as_complex(1, left.dtype), binary("stablehlo.power", left, right))


for _name, _op in {
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log": "log",
    "log1p": "log_plus_one",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "sin": "sine",
    "cos": "cosine",
    "tanh": "tanh",
    "tan": "tan",
}.items():

    def _elementary(self: Tensor, _op: str = _op) -> Tensor:
        return unary(f"stablehlo.{_op}", self)

    on_complex(getattr(aten, _name).default)(_elementary)


for _name in ("sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh"):

    def _inverse(self: Tensor, _name: str = _name) -> Tensor:
        return unary(f"chlo.{_name}", self)

    on_complex(getattr(aten, _name).default)(_inverse)


@on_complex(aten.sigmoid.default)
def sigmoid(self: Tensor) -> Tensor:
    return torch.reciprocal(torch.add(torch.exp(torch.neg(self)), 1))


@on_complex(aten.abs.default)
def abs_(self: Tensor) -> Tensor:
    return unary("stablehlo.abs", self, part_dtype(self.dtype))


@on_complex(aten.angle.default)
def angle(self: Tensor) -> Tensor:
    return torch.atan2(imaginary(self), real(self))


@on_complex(aten.sgn.default)
def sgn(self: Tensor) -> Tensor:
    size = torch.abs(self)
    zero = torch.eq(size, 0)
    safe = torch.where(zero, 1.0, size)
    return joined(torch.div(real(self), safe), torch.div(imaginary(self), safe))


@on_complex(aten.conj_physical.default, aten._conj_physical.default)
def conj(self: Tensor) -> Tensor:
    return joined(real(self), torch.neg(imaginary(self)))


@on_complex(aten.eq.Tensor, aten.eq.Scalar)
def eq(self: Operand, other: Operand) -> Tensor:
    left, right = _pair(self, other)
    return torch.logical_and(torch.eq(real(left), real(right)), torch.eq(imaginary(left), imaginary(right)))


@on_complex(aten.ne.Tensor, aten.ne.Scalar)
def ne(self: Operand, other: Operand) -> Tensor:
    return torch.logical_not(torch.eq(self, other))  # type: ignore[arg-type]


@on_complex(aten.isfinite.default)
def isfinite(self: Tensor) -> Tensor:
    return torch.logical_and(torch.isfinite(real(self)), torch.isfinite(imaginary(self)))


@on_complex(aten.isnan.default)
def isnan(self: Tensor) -> Tensor:
    return torch.logical_or(torch.isnan(real(self)), torch.isnan(imaginary(self)))


@on_complex(aten.isinf.default)
def isinf(self: Tensor) -> Tensor:
    return torch.logical_or(torch.isinf(real(self)), torch.isinf(imaginary(self)))


@on_complex(aten.ones_like.default)
def ones_like(self: Tensor, **_: Any) -> Tensor:
    return joined(torch.ones(self.shape, dtype=part_dtype(self.dtype)), torch.zeros([], dtype=part_dtype(self.dtype)))


@on_complex(aten._to_copy.default)
def to_copy(self: Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    if dtype is None or dtype == self.dtype:
        return self.clone()
    return as_complex(self, dtype) if dtype.is_complex else cast(real(self), dtype)


@on_complex(aten.prod.dim_int, aten.prod.default)
def prod(self: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    value = cast(self, dtype or self.dtype) if dim is not None else cast(torch.reshape(self, [-1]), dtype or self.dtype)
    if value.dim() == 0:
        return value.clone()
    at = (dim or 0) % value.dim()
    sizes = [n for d, n in enumerate(value.shape) if d != at]
    one = tensor_type([], value.dtype)
    body = (
        f"%one = stablehlo.constant dense<(1.0, 0.0)> : {one}\n"
        f"%r0 = stablehlo.reduce(%a0 init: %one) applies stablehlo.multiply across dimensions = [{at}] : "
        f"({type_of(value)}, {one}) -> {tensor_type(sizes, value.dtype)}"
    )
    result = island(body, [value], (sizes, value.dtype))
    return torch.unsqueeze(result, at) if keepdim else result


@on_complex(aten.linalg_vector_norm.default)
def vector_norm(self: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    part = dtype and part_dtype(dtype)
    return torch.linalg.vector_norm(torch.abs(self), ord, dim, keepdim, dtype=part)


@on_complex(aten.view_as_real.default)
def view_as_real(self: Tensor) -> Tensor:
    return torch.stack([real(self), imaginary(self)], -1)


@on_complex(aten.vdot.default)
def vdot(self: Tensor, other: Tensor) -> Tensor:
    return torch.sum(torch.mul(conj(self), other))


@on_complex(aten.dot.default)
def dot(self: Tensor, tensor: Tensor) -> Tensor:
    return torch.sum(torch.mul(self, tensor))


@decompose(aten.view_as_complex.default)
def view_as_complex(self: Tensor) -> Tensor:
    return joined(torch.select(self, -1, 0), torch.select(self, -1, 1))


@decompose(aten.complex.default)
def complex_(real: Tensor, imag: Tensor) -> Tensor:
    return joined(real, imag)


@decompose(aten.polar.default)
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    return joined(torch.mul(abs, torch.cos(angle)), torch.mul(abs, torch.sin(angle)))


def _fft(x: Tensor, kind: str, lengths: Sequence[int], sizes: Sequence[int], dtype: torch.dtype) -> Tensor:
    listed = ", ".join(map(str, lengths))
    body = (
        f"%r0 = stablehlo.fft %a0, type = {kind}, length = [{listed}] : ({type_of(x)}) -> {tensor_type(sizes, dtype)}"
    )
    return island(body, [x], (sizes, dtype))


def _scaled(result: Tensor, normalization: int, lengths: Sequence[int], inverse: bool) -> Tensor:
    """``normalization``: 0 none, 1 by the root of the length, 2 by the length; XLA's inverse divides by the length."""
    count = math.prod(lengths)
    factor = {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[normalization] * (count if inverse else 1)
    return result if factor == 1.0 else torch.mul(result, factor)


def _one_dim(x: Tensor, kind: str, dim: int, size: int, length: int, dtype: torch.dtype) -> Tensor:
    moved = torch.movedim(x, dim, -1)
    return torch.movedim(_fft(moved, kind, [length], [*moved.shape[:-1], size], dtype), -1, dim)


@on_complex(aten._fft_c2c.default)
def fft_c2c(self: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
    lengths = [self.size(d) for d in dim]
    result = self
    for d, length in zip(dim, lengths, strict=True):
        result = _one_dim(result, "FFT" if forward else "IFFT", d, length, length, self.dtype)
    return _scaled(result, normalization, lengths, not forward)


@decompose(aten._fft_r2c.default)
def fft_r2c(self: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:
    lengths = [self.size(d) for d in dim]
    last, length = dim[-1], lengths[-1]
    dtype = complex_dtype(self.dtype)
    if onesided:
        result = _one_dim(self, "RFFT", last, length // 2 + 1, length, dtype)
    else:
        result = _one_dim(as_complex(self, dtype), "FFT", last, length, length, dtype)
    for d in dim[:-1]:
        result = _one_dim(result, "FFT", d, self.size(d), self.size(d), dtype)
    return _scaled(result, normalization, lengths, False)


@on_complex(aten._fft_c2r.default)
def fft_c2r(self: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    result = self
    for d in dim[:-1]:
        result = _one_dim(result, "IFFT", d, self.size(d), self.size(d), self.dtype)
    result = torch.narrow(result, dim[-1], 0, last_dim_size // 2 + 1)
    result = _one_dim(result, "IRFFT", dim[-1], last_dim_size, last_dim_size, part_dtype(self.dtype))
    return _scaled(result, normalization, [*[self.size(d) for d in dim[:-1]], last_dim_size], True)
