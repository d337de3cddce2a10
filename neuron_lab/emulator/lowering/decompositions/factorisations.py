"""Triangular solves, Cholesky and LU factorisations, and what LAPACK builds on them."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._island import island, repeat, type_of
from .._promotion import cast
from .._records import Unlowerable
from .._registry import decompose

aten = torch.ops.aten


def _real(*tensors: Tensor) -> None:
    if any(t.is_complex() for t in tensors):
        raise Unlowerable("a factorisation of complex numbers")


def _batched(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.expand([*batch, *a.shape[-2:]]), b.expand([*batch, *b.shape[-2:]])


def _solve(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, transpose: bool = False, unit: bool = False
) -> Tensor:
    _real(a, b)
    a, b = _batched(a, b)
    kind = "TRANSPOSE" if transpose else "NO_TRANSPOSE"
    options = f"left_side = {str(left).lower()}, lower = {str(not upper).lower()}, unit_diagonal = {str(unit).lower()}"
    body = (
        f'%r0 = "stablehlo.triangular_solve"(%a0, %a1) {{{options}, transpose_a = #stablehlo<transpose {kind}>}} : '
        f"({type_of(a)}, {type_of(b)}) -> {type_of(b)}"
    )
    return island(body, [a, b], (b.shape, b.dtype))


@decompose(aten.linalg_solve_triangular.default)
def solve_triangular(self: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    return _solve(self, B, upper=upper, left=left, unit=unitriangular)


@decompose(aten.triangular_solve.default)
def triangular_solve(
    self: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    solution = _solve(A, self, upper=upper, transpose=transpose, unit=unitriangular)
    return solution, _batched(A, self)[0].clone()


@decompose(aten.cholesky_solve.default)
def cholesky_solve(self: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    first = _solve(input2, self, upper=upper, transpose=upper)
    return _solve(input2, first, upper=upper, transpose=not upper)


@decompose(aten.cholesky_inverse.default)
def cholesky_inverse(self: Tensor, upper: bool = False) -> Tensor:
    return cholesky_solve(_identity(self), self, upper)


def _identity(like: Tensor) -> Tensor:
    return cast(torch.eye(like.size(-1)), like.dtype).expand(like.shape)


def _cholesky(self: Tensor, upper: bool) -> tuple[Tensor, Tensor]:
    """The factor, and the order of the first leading minor that is not positive, or 0."""
    _real(self)
    source = self.mT if upper else self
    lower = island(
        f"%r0 = stablehlo.cholesky %a0, lower = true : {type_of(source)}", [source], (self.shape, self.dtype)
    )
    lower = torch.tril(lower)
    size = self.size(-1)
    broken = torch.isnan(torch.diagonal(lower, dim1=-2, dim2=-1))
    order = torch.where(broken, torch.add(torch.arange(size), 1), size + 1)
    first = torch.amin(order, [-1])
    info = cast(torch.where(torch.gt(first, size), 0, first), torch.int32)
    return lower.mT if upper else lower, info


@decompose(aten.cholesky.default)
def cholesky(self: Tensor, upper: bool = False) -> Tensor:
    raise Unlowerable("it raises by the values of its input")


@decompose(aten.linalg_cholesky_ex.default)
def cholesky_ex(self: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    if check_errors:
        raise Unlowerable("check_errors needs the result on the host")
    return _cholesky(self, upper)


def _eliminate(k: Tensor, matrix: Tensor, order: Tensor, pivots: Tensor, info: Tensor) -> list[Tensor]:
    """One column of LU with partial pivoting, on [batch, rows, columns]."""
    rows = torch.reshape(torch.arange(matrix.size(1)), [1, -1])
    columns = torch.reshape(torch.arange(matrix.size(2)), [1, 1, -1])
    here = torch.eq(rows, k)
    zero = torch.zeros([], dtype=matrix.dtype)
    column = torch.sum(torch.where(torch.eq(columns, k), matrix, zero), [2])
    size = torch.where(torch.ge(rows, k), torch.abs(column), -1.0)
    best = torch.eq(size, torch.amax(size, [1], True))
    chosen = torch.amin(torch.where(best, rows, matrix.size(1)), [1], True)
    there = torch.eq(rows, chosen)

    def row(mask: Tensor) -> Tensor:
        return torch.sum(torch.where(torch.unsqueeze(mask, -1), matrix, zero), [1], True)

    upper, lower = row(there), row(here)
    swapped = torch.where(torch.unsqueeze(there, -1), lower, matrix)
    swapped = torch.where(torch.unsqueeze(here, -1), upper, swapped)
    held, moved = (torch.sum(torch.where(mask, order, 0), [1], True) for mask in (here, there))
    order = torch.where(here, moved, torch.where(there, held, order))
    column = torch.sum(torch.where(torch.eq(columns, k), swapped, zero), [2])
    pivot = torch.sum(torch.where(here, column, zero), [1], True)
    singular = torch.eq(pivot, 0)
    below = torch.gt(rows, k)
    factor = torch.where(torch.logical_and(below, torch.logical_not(singular)), torch.div(column, pivot), zero)
    update = torch.mul(torch.unsqueeze(factor, -1), upper)
    reduced = torch.where(torch.gt(columns, k), torch.sub(swapped, update), swapped)
    at_column = torch.logical_and(torch.eq(columns, k), torch.unsqueeze(below, -1))
    reduced = torch.where(at_column, torch.unsqueeze(factor, -1), reduced)
    steps = torch.reshape(torch.arange(pivots.size(1)), [1, -1])
    pivots = torch.where(torch.eq(steps, k), torch.add(chosen, 1), pivots)
    failed = torch.logical_and(torch.reshape(singular, [-1]), torch.eq(info, 0))
    return [reduced, order, pivots, torch.where(failed, torch.add(k, 1), info)]


def _lu(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(LU, row order, pivots counted from 1, info), all but the first as int64."""
    _real(a)
    batch, rows, columns = a.shape[:-2], a.size(-2), a.size(-1)
    count = math.prod(batch)
    steps = min(rows, columns)
    order = torch.arange(rows).expand([count, rows]).clone()
    state = [
        torch.reshape(a, [count, rows, columns]),
        order,
        torch.zeros([count, steps], dtype=torch.int64),
        torch.zeros([count], dtype=torch.int64),
    ]
    matrix, order, pivots, info = repeat(_eliminate, steps, state)
    return (
        torch.reshape(matrix, a.shape),
        torch.reshape(order, [*batch, rows]),
        torch.reshape(pivots, [*batch, steps]),
        torch.reshape(info, list(batch)),
    )


def _unpacked(lu: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = lu.shape[-2:]
    steps = min(rows, columns)
    lower = torch.tril(torch.narrow(lu, -1, 0, steps), -1)
    lower = torch.add(lower, cast(torch.eye(rows, steps), lu.dtype))
    return lower, torch.triu(torch.narrow(lu, -2, 0, steps))


def _permutation(order: Tensor, dtype: torch.dtype) -> Tensor:
    """P with A = P L U: column i is the unit vector of row ``order[i]``."""
    size = order.size(-1)
    rows = torch.reshape(torch.arange(size), [size, 1])
    return cast(torch.eq(rows, torch.unsqueeze(order, -2)), dtype)


@decompose(aten.linalg_lu.default)
def linalg_lu(A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    if not pivot:
        raise Unlowerable("LU without pivoting")
    lu, order, _, _ = _lu(A)
    return (_permutation(order, A.dtype), *_unpacked(lu))


@decompose(aten.linalg_lu_factor_ex.default)
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    if not pivot or check_errors:
        raise Unlowerable("LU without pivoting, or with a check on the host")
    lu, _, pivots, info = _lu(A)
    return lu, cast(pivots, torch.int32), cast(info, torch.int32)


def _order_of(pivots: Tensor, rows: int) -> Tensor:
    """The row order that exchanging row i with row ``pivots[i] - 1``, one after the other, gives."""
    batch = pivots.shape[:-1]
    count, steps = math.prod(batch), pivots.size(-1)
    state = [torch.arange(rows).expand([count, rows]).clone(), cast(torch.reshape(pivots, [count, steps]), torch.int64)]
    return torch.reshape(repeat(_exchange, steps, state)[0], [*batch, rows])


def _exchange(k: Tensor, order: Tensor, pivots: Tensor) -> list[Tensor]:
    rows = torch.reshape(torch.arange(order.size(1)), [1, -1])
    steps = torch.reshape(torch.arange(pivots.size(1)), [1, -1])
    chosen = torch.sub(torch.sum(torch.where(torch.eq(steps, k), pivots, 0), [1], True), 1)
    here, there = torch.eq(rows, k), torch.eq(rows, chosen)
    held, moved = (torch.sum(torch.where(mask, order, 0), [1], True) for mask in (here, there))
    return [torch.where(here, moved, torch.where(there, held, order)), pivots]


@decompose(aten.lu_unpack.default)
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    _real(LU_data)
    nothing = torch.zeros([0], dtype=LU_data.dtype)
    lower, upper = _unpacked(LU_data) if unpack_data else (nothing, nothing)
    if not unpack_pivots:
        return nothing, lower, upper
    return _permutation(_order_of(LU_pivots, LU_data.size(-2)), LU_data.dtype), lower, upper


def _solved(lu: Tensor, order: Tensor, b: Tensor, left: bool, adjoint: bool) -> Tensor:
    """X with A X = B or X A = B, or the same with the transpose of A."""
    if not left:
        return _solved(lu, order, b.mT, True, not adjoint).mT
    permutation = _permutation(order, lu.dtype)
    permutation, b = _batched(permutation, b)
    if adjoint:
        first = _solve(lu, b, upper=True, transpose=True)
        return torch.matmul(permutation, _solve(lu, first, upper=False, transpose=True, unit=True))
    first = _solve(lu, torch.matmul(permutation.mT, b), upper=False, unit=True)
    return _solve(lu, first, upper=True)


@decompose(aten.linalg_lu_solve.default)
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    _real(LU, B)
    return _solved(LU, _order_of(pivots, LU.size(-1)), B, left, adjoint)


@decompose(aten._linalg_solve_ex.default)
def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if check_errors:
        raise Unlowerable("check_errors needs the result on the host")
    lu, order, pivots, info = _lu(A)
    is_vector = B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1])
    right = torch.unsqueeze(B, -1) if is_vector else B
    solution = _solved(lu, order, right, left, False)
    solution = torch.squeeze(solution, -1) if is_vector else solution
    return solution, lu, cast(pivots, torch.int32), cast(info, torch.int32)


@decompose(aten.linalg_inv_ex.default)
def inv_ex(A: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    if check_errors:
        raise Unlowerable("check_errors needs the result on the host")
    lu, order, _, info = _lu(A)
    return _solved(lu, order, _identity(A), True, False), cast(info, torch.int32)


def _exchanges(pivots: Tensor) -> Tensor:
    moved = torch.ne(pivots, torch.add(torch.arange(pivots.size(-1)), 1))
    return torch.sum(cast(moved, torch.int64), [-1])


def _sign(lu: Tensor, pivots: Tensor) -> Tensor:
    odd = torch.ne(torch.bitwise_and(_exchanges(pivots), 1), 0)
    return cast(torch.where(odd, -1.0, 1.0), lu.dtype)


def _factor_for_det(a: Tensor) -> tuple[Tensor, Tensor]:
    """The CPU factors the transpose of a contiguous matrix, whose determinant is the same."""
    lu, _, pivots, _ = _lu(a.mT if a.is_contiguous() else a)
    return lu, pivots


@decompose(aten._linalg_det.default)
def det(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lu, pivots = _factor_for_det(A)
    diagonal = torch.diagonal(lu, dim1=-2, dim2=-1)
    return torch.mul(torch.prod(diagonal, -1), _sign(lu, pivots)), lu, cast(pivots, torch.int32)


@decompose(aten._linalg_slogdet.default)
def slogdet(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    lu, pivots = _factor_for_det(A)
    diagonal = torch.diagonal(lu, dim1=-2, dim2=-1)
    sign = torch.mul(torch.prod(torch.sign(diagonal), -1), _sign(lu, pivots))
    return sign, torch.sum(torch.log(torch.abs(diagonal)), [-1]), lu, cast(pivots, torch.int32)
