"""Reductions."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .._promotion import cast, computation_dtype
from .._registry import decompose

aten = torch.ops.aten
Dims = Sequence[int] | int | None


def dims_of(tensor: Tensor, dim: Dims) -> list[int]:
    """Sorted non-negative dims; None and an empty list mean all."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(tensor.dim()))
    listed = [dim] if isinstance(dim, int) else dim
    return sorted({d % max(tensor.dim(), 1) for d in listed})


def count(tensor: Tensor, dims: Sequence[int]) -> int:
    """How many elements one result of a reduction over ``dims`` covers."""
    return math.prod(tensor.size(d) for d in dims) if tensor.dim() else 1


def _lifted(tensor: Tensor) -> Tensor:
    """0-d reductions crash torch-mlir: reduce a one-element vector instead."""
    return tensor if tensor.dim() else torch.reshape(tensor, [1])


@decompose(aten.sum.default)
def sum_all(self: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return torch.sum(_lifted(self), list(range(max(self.dim(), 1))), dtype=dtype)


@decompose(aten.sum.dim_IntList)
def sum_dims(self: Tensor, dim: Dims, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    target = dtype or (self.dtype if self.is_floating_point() or self.is_complex() else torch.int64)
    if self.dim() == 0:
        return cast(self, target).clone()
    if self.dtype == torch.uint8:
        self = cast(self, torch.int32)
    compute = computation_dtype(target)
    dims = dims_of(self, dim)
    if self.dtype == compute and dtype is None and dim is not None and list(dim) == dims:  # type: ignore[arg-type]
        return NotImplemented
    return cast(torch.sum(cast(self, compute), dims, keepdim), target)


@decompose(aten.mean.default)
def mean_all(self: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return torch.mean(self, dim=None, dtype=dtype)


@decompose(aten.mean.dim)
def mean_dims(self: Tensor, dim: Dims, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    target = dtype or self.dtype
    wide = cast(self, computation_dtype(target))
    dims = dims_of(self, dim)
    return cast(torch.div(torch.sum(wide, dims, keepdim), count(self, dims)), target)


@decompose(aten.amax.default)
def amax(self: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    return _extreme(self, dim, keepdim, largest=True)


@decompose(aten.amin.default)
def amin(self: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    return _extreme(self, dim, keepdim, largest=False)


def _extreme(self: Tensor, dim: Dims, keepdim: bool, *, largest: bool) -> Tensor:
    dims = dims_of(self, dim)
    if self.dim() == 0:
        return self.clone()
    if self.dtype in (torch.bool, torch.uint8):
        wide = cast(self, torch.int32)
        return cast((torch.amax if largest else torch.amin)(wide, dims, keepdim), self.dtype)
    if not isinstance(dim, int) and dim is not None and list(dim) == dims:
        return NotImplemented
    return torch.amax(self, dims, keepdim) if largest else torch.amin(self, dims, keepdim)


@decompose(aten.max.default)
def max_all(self: Tensor) -> Tensor:
    return torch.amax(self, list(range(self.dim())))


@decompose(aten.min.default)
def min_all(self: Tensor) -> Tensor:
    return torch.amin(self, list(range(self.dim())))


@decompose(aten.aminmax.default)
def aminmax(self: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    dims = list(range(self.dim())) if dim is None else [dim]
    return torch.amin(self, dims, keepdim), torch.amax(self, dims, keepdim)


@decompose(aten.max.dim)
def max_dim(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return torch.amax(self, [dim], keepdim), torch.argmax(self, dim, keepdim)


@decompose(aten.min.dim)
def min_dim(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return torch.amin(self, [dim], keepdim), torch.argmin(self, dim, keepdim)


@decompose(aten.argmax.default)
def argmax(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return _position(self, dim, keepdim, largest=True)


@decompose(aten.argmin.default)
def argmin(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return _position(self, dim, keepdim, largest=False)


def _position(self: Tensor, dim: int | None, keepdim: bool, *, largest: bool) -> Tensor:
    """First index of the extreme, NaN counting as the extreme, as on the CPU."""
    if self.dim() == 0:
        return torch.zeros([], dtype=torch.int64)
    if dim is None:
        found = _position(torch.reshape(self, [-1]), 0, False, largest=largest)
        return torch.reshape(found, [1] * self.dim()) if keepdim else found
    dim %= self.dim()
    if self.dtype == torch.uint8:
        self = cast(self, torch.int32)
    best = torch.amax(self, [dim], True) if largest else torch.amin(self, [dim], True)
    hit = torch.eq(self, best)
    if self.is_floating_point():
        hit = torch.logical_or(hit, torch.isnan(self))
    size = self.size(dim)
    index = torch.reshape(torch.arange(size), [size if d == dim else 1 for d in range(self.dim())])
    return torch.amin(torch.where(hit, index, size), [dim], keepdim)


@decompose(aten.any.default)
def any_all(self: Tensor) -> Tensor:
    return _flags(self, list(range(self.dim())), False, True)


@decompose(aten.any.dim, aten.any.dims)
def any_dims(self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return _flags(self, dims_of(self, dim), keepdim, True)


@decompose(aten.all.default)
def all_all(self: Tensor) -> Tensor:
    return _flags(self, list(range(self.dim())), False, False)


@decompose(aten.all.dim, aten.all.dims)
def all_dims(self: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return _flags(self, dims_of(self, dim), keepdim, False)


def _flags(self: Tensor, dims: list[int], keepdim: bool, any_: bool) -> Tensor:
    """any and all, which give uint8 for uint8 and bool otherwise."""
    truth = cast(self if self.dtype == torch.bool else torch.ne(self, 0), torch.int32)
    if self.dim():
        truth = torch.amax(truth, dims, keepdim) if any_ else torch.amin(truth, dims, keepdim)
    return cast(truth, torch.uint8 if self.dtype == torch.uint8 else torch.bool)


def variance(self: Tensor, dims: list[int], correction: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Two-pass variance and mean in the computation type."""
    wide = cast(self, computation_dtype(self.dtype))
    total = count(self, dims)
    mean = torch.div(torch.sum(wide, dims, True), total)
    centred = torch.sub(wide, mean)
    if centred.is_complex():
        centred = torch.abs(centred)
    squares = torch.sum(torch.mul(centred, centred), dims, keepdim)
    divisor = max(total - correction, 0.0)
    spread = torch.div(squares, divisor) if divisor else torch.div(squares, 0.0)
    return spread, mean if keepdim else torch.reshape(mean, spread.shape)


def _correction(correction: float | None, unbiased: bool = True) -> float:
    return float(unbiased) if correction is None else float(correction)


@decompose(aten.var.correction)
def var(self: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    return cast(variance(self, dims_of(self, dim), _correction(correction), keepdim)[0], self.dtype)


@decompose(aten.std.correction)
def std(self: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    return cast(torch.sqrt(variance(self, dims_of(self, dim), _correction(correction), keepdim)[0]), self.dtype)


@decompose(aten.var_mean.correction)
def var_mean(
    self: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    spread, mean = variance(self, dims_of(self, dim), _correction(correction), keepdim)
    return cast(spread, self.dtype), cast(mean, self.dtype)


@decompose(aten.std_mean.correction)
def std_mean(
    self: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    spread, mean = variance(self, dims_of(self, dim), _correction(correction), keepdim)
    return cast(torch.sqrt(spread), self.dtype), cast(mean, self.dtype)


@decompose(aten.linalg_vector_norm.default)
def vector_norm(
    self: Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    target = dtype or self.dtype
    wide = torch.abs(cast(self, computation_dtype(target)))
    dims = dims_of(self, dim)
    if self.dim() == 0:
        wide, dims, keepdim = torch.reshape(wide, [1]), [0], False
    return cast(_norm(wide, float(ord), dims, keepdim), target)


def _norm(magnitude: Tensor, order: float, dims: list[int], keepdim: bool) -> Tensor:
    if order == math.inf:
        return torch.amax(magnitude, dims, keepdim)
    if order == -math.inf:
        return torch.amin(magnitude, dims, keepdim)
    if order == 0:
        return torch.sum(cast(torch.ne(magnitude, 0), magnitude.dtype), dims, keepdim)
    if order == 1:
        return torch.sum(magnitude, dims, keepdim)
    if order == 2:
        return torch.sqrt(torch.sum(torch.mul(magnitude, magnitude), dims, keepdim))
    return torch.pow(torch.sum(torch.pow(magnitude, order), dims, keepdim), 1.0 / order)


@decompose(aten.norm.Scalar)
def norm_all(self: Tensor, p: float = 2) -> Tensor:
    return torch.linalg.vector_norm(self, p)


@decompose(aten.norm.ScalarOpt_dim)
def norm_dim(self: Tensor, p: float | None, dim: Dims, keepdim: bool = False) -> Tensor:
    return torch.linalg.vector_norm(self, 2 if p is None else p, dims_of(self, dim), keepdim)


@decompose(aten.norm.ScalarOpt_dim_dtype)
def norm_dim_dtype(self: Tensor, p: float | None, dim: Dims, keepdim: bool, *, dtype: torch.dtype) -> Tensor:
    return torch.linalg.vector_norm(self, 2 if p is None else p, dims_of(self, dim), keepdim, dtype=dtype)


@decompose(aten.norm.ScalarOpt_dtype)
def norm_all_dtype(self: Tensor, p: float | None, *, dtype: torch.dtype) -> Tensor:
    return torch.linalg.vector_norm(self, 2 if p is None else p, dtype=dtype)


@decompose(aten.logsumexp.default)
def logsumexp(self: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    if self.dim() == 0:
        return self.clone()
    target = self.dtype if self.is_floating_point() else torch.get_default_dtype()
    wide = cast(self, computation_dtype(target))
    dims = dims_of(self, dim)
    top = torch.amax(wide, dims, True)
    top = torch.where(torch.eq(torch.abs(top), math.inf), 0.0, top)
    total = torch.log(torch.sum(torch.exp(torch.sub(wide, top)), dims, keepdim))
    return cast(torch.add(total, torch.reshape(top, total.shape)), target)


@decompose(aten.count_nonzero.dim_IntList, aten.count_nonzero.default)
def count_nonzero(self: Tensor, dim: Dims = None) -> Tensor:
    truth = cast(torch.ne(self, 0), torch.int64)
    return torch.sum(truth, dims_of(self, dim)) if self.dim() else truth


@decompose(aten.prod.default)
def prod_all(self: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return torch.prod(torch.reshape(self, [-1]), 0, dtype=dtype)


@decompose(aten.prod.dim_int)
def prod_dim(self: Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    target = dtype or (self.dtype if self.is_floating_point() or self.is_complex() else torch.int64)
    if self.dim() == 0:
        return cast(self, target).clone()
    compute = computation_dtype(target)
    if self.dtype == compute and dtype is None:
        return NotImplemented
    return cast(torch.prod(cast(self, compute), dim, keepdim), target)


@decompose(aten.trace.default)
def trace(self: Tensor) -> Tensor:
    rows, columns = self.shape
    mask = torch.eq(torch.reshape(torch.arange(rows), [rows, 1]), torch.arange(columns))
    return torch.sum(torch.where(mask, self, 0), [0, 1])
