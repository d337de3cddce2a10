"""QR by Householder reflections, step by step as LAPACK's geqr2: the signs are LAPACK's too."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._island import repeat
from .._promotion import cast
from .._records import Unlowerable
from .._registry import decompose

aten = torch.ops.aten


def _flat(a: Tensor) -> Tensor:
    if a.is_complex():
        raise Unlowerable("a factorisation of complex numbers")
    return torch.reshape(a, [math.prod(a.shape[:-2]), *a.shape[-2:]])


def _reflect(k: Tensor, matrix: Tensor, taus: Tensor) -> list[Tensor]:
    """Bring column ``k`` of [batch, rows, columns] to zero below its diagonal; the reflector stays in its place."""
    rows = torch.reshape(torch.arange(matrix.size(1)), [1, -1])
    columns = torch.reshape(torch.arange(matrix.size(2)), [1, 1, -1])
    zero = torch.zeros([], dtype=matrix.dtype)
    column = torch.sum(torch.where(torch.eq(columns, k), matrix, zero), [2])
    below = torch.where(torch.gt(rows, k), column, zero)
    alpha = torch.sum(torch.where(torch.eq(rows, k), column, zero), [1], True)
    rest = torch.sqrt(torch.sum(torch.mul(below, below), [1], True))
    trivial = torch.eq(rest, 0)
    length = torch.sqrt(torch.add(torch.mul(alpha, alpha), torch.mul(rest, rest)))
    beta = torch.where(torch.lt(alpha, 0), length, torch.neg(length))
    beta = torch.where(trivial, torch.ones([], dtype=matrix.dtype), beta)
    tau = torch.where(trivial, zero, torch.div(torch.sub(beta, alpha), beta))
    tail = torch.where(trivial, zero, torch.div(below, torch.sub(alpha, beta)))
    reflector = torch.where(torch.eq(rows, k), torch.ones([], dtype=matrix.dtype), tail)
    shares = torch.sum(torch.mul(torch.unsqueeze(reflector, -1), matrix), [1], True)
    update = torch.mul(torch.mul(torch.unsqueeze(reflector, -1), shares), torch.unsqueeze(tau, -1))
    reduced = torch.where(torch.gt(columns, k), torch.sub(matrix, update), matrix)
    diagonal = torch.where(trivial, alpha, beta)
    new = torch.where(torch.eq(rows, k), diagonal, torch.where(torch.gt(rows, k), tail, column))
    reduced = torch.where(torch.eq(columns, k), torch.unsqueeze(new, -1), reduced)
    steps = torch.reshape(torch.arange(taus.size(1)), [1, -1])
    return [reduced, torch.where(torch.eq(steps, k), tau, taus)]


@decompose(aten.geqrf.default)
def geqrf(self: Tensor) -> tuple[Tensor, Tensor]:
    matrix = _flat(self)
    steps = min(self.shape[-2:])
    taus = torch.zeros([matrix.size(0), steps], dtype=self.dtype)
    reduced, taus = repeat(_reflect, steps, [matrix, taus])
    return torch.reshape(reduced, self.shape), torch.reshape(taus, [*self.shape[:-2], steps])


def _apply(k: Tensor, q: Tensor, reflectors: Tensor, taus: Tensor) -> list[Tensor]:
    """``q`` after the reflection that is ``k``-th from the last."""
    rows = torch.reshape(torch.arange(reflectors.size(1)), [1, -1])
    columns = torch.reshape(torch.arange(reflectors.size(2)), [1, 1, -1])
    steps = torch.reshape(torch.arange(taus.size(1)), [1, -1])
    zero, one = torch.zeros([], dtype=q.dtype), torch.ones([], dtype=q.dtype)
    at = torch.sub(taus.size(1) - 1, k)
    column = torch.sum(torch.where(torch.eq(columns, at), reflectors, zero), [2])
    vector = torch.where(torch.gt(rows, at), column, torch.where(torch.eq(rows, at), one, zero))
    tau = torch.sum(torch.where(torch.eq(steps, at), taus, zero), [1], True)
    shares = torch.sum(torch.mul(torch.unsqueeze(vector, -1), q), [1], True)
    update = torch.mul(torch.mul(torch.unsqueeze(vector, -1), shares), torch.unsqueeze(tau, -1))
    return [torch.sub(q, update), reflectors, taus]


def _product(reflectors: Tensor, taus: Tensor, columns: int) -> Tensor:
    """The first ``columns`` of the product of all reflections."""
    flat = _flat(reflectors)
    count, rows = flat.shape[:2]
    start = cast(torch.eye(rows, columns), flat.dtype).expand([count, rows, columns]).clone()
    steps = taus.size(-1)
    q = repeat(_apply, steps, [start, flat, torch.reshape(taus, [count, steps])])[0]
    return torch.reshape(q, [*reflectors.shape[:-2], rows, columns])


@decompose(aten.linalg_householder_product.default)
def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    if tau.size(-1) == 0:
        raise Unlowerable("no reflections")
    return _product(input, tau, input.size(-1))


@decompose(aten.linalg_qr.default)
def linalg_qr(A: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    if mode == "r":
        raise Unlowerable("QR without Q")
    rows, columns = A.shape[-2:]
    reduced, taus = geqrf(A)
    kept = rows if mode == "complete" else min(rows, columns)
    return _product(reduced, taus, kept), torch.triu(torch.narrow(reduced, -2, 0, kept))
