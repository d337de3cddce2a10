"""Regularised incomplete gamma functions, in float64, as the series and the continued fraction of Cephes."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._island import repeat
from .._promotion import cast, result_type
from .._records import Unlowerable
from .._registry import decompose
from .arithmetic import floating

aten = torch.ops.aten

_ROUNDS = 2000
"""MAXITER of the CPU's kernels."""


def _series(k: Tensor, x: Tensor, term: Tensor, total: Tensor, rank: Tensor) -> list[Tensor]:
    rank = torch.add(rank, 1.0)
    term = torch.div(torch.mul(term, x), rank)
    return [x, term, torch.add(total, term), rank]


def _fraction(k: Tensor, a: Tensor, x: Tensor, c: Tensor, d: Tensor, value: Tensor) -> list[Tensor]:
    """Lentz's method for Gamma(a, x) / (x^a e^-x)."""
    i = torch.add(cast(k, torch.float64), 1.0)
    factor = torch.neg(torch.mul(i, torch.sub(i, a)))
    base = torch.add(torch.sub(torch.add(x, 1.0), a), torch.mul(i, 2.0))
    d = torch.add(torch.mul(factor, d), base)
    d = torch.reciprocal(torch.where(torch.lt(torch.abs(d), 1e-300), 1e-300, d))
    c = torch.add(base, torch.div(factor, c))
    c = torch.where(torch.lt(torch.abs(c), 1e-300), 1e-300, c)
    return [a, x, c, d, torch.mul(value, torch.mul(c, d))]


def _both(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """(P(a, x), Q(a, x)) for positive a and x."""
    lower = torch.lt(x, torch.add(a, 1.0))
    near = torch.where(lower, x, torch.zeros([], dtype=x.dtype))
    far = torch.where(lower, torch.add(a, 2.0), x)
    scale = torch.exp(torch.sub(torch.sub(torch.mul(a, torch.log(x)), x), torch.lgamma(a)))
    one = torch.ones(a.shape, dtype=a.dtype)
    top = torch.amax(torch.reshape(torch.add(a, 1.0), [-1]), [0])
    rounds = cast(torch.clamp(torch.add(torch.mul(torch.sqrt(top), 10.0), 100.0), 100.0, float(_ROUNDS)), torch.int64)
    series = torch.div(torch.mul(scale, repeat(_series, rounds, [near, one, one, a])[2]), a)
    base = torch.reciprocal(torch.sub(torch.add(far, 1.0), a))
    state = [a, far, torch.full(a.shape, 1e300, dtype=a.dtype), base, base]
    fraction = torch.mul(scale, repeat(_fraction, rounds, state)[4])
    first = torch.where(lower, series, torch.sub(1.0, fraction))
    return first, torch.where(lower, torch.sub(1.0, series), fraction)


def _gamma(self: Tensor, other: Tensor, *, upper: bool) -> Tensor:
    target = floating(result_type(self, other))
    if target == torch.float64:
        raise Unlowerable("float64 incomplete gamma functions lose digits")
    a, x = torch.broadcast_tensors(cast(self, torch.float64), cast(other, torch.float64))
    plain = torch.logical_and(torch.logical_and(torch.gt(a, 0), torch.gt(x, 0)), torch.isfinite(torch.add(a, x)))
    one = torch.ones([], dtype=torch.float64)
    value = _both(torch.where(plain, a, one), torch.where(plain, x, one))[int(upper)]
    # Where nothing (x = 0, or a infinite) or everything (x infinite, or a = 0) lies below x.
    nothing = torch.logical_or(torch.eq(x, 0), torch.logical_and(torch.isinf(a), torch.isfinite(x)))
    value = torch.where(plain, value, torch.where(nothing, float(upper), float(not upper)))
    undefined = torch.logical_or(torch.lt(a, 0), torch.lt(x, 0))
    both_zero = torch.logical_and(torch.eq(a, 0), torch.eq(x, 0))
    both_infinite = torch.logical_and(torch.isinf(a), torch.isinf(x))
    undefined = torch.logical_or(undefined, torch.logical_or(both_zero, both_infinite))
    undefined = torch.logical_or(undefined, torch.logical_or(torch.isnan(a), torch.isnan(x)))
    return cast(torch.where(undefined, math.nan, value), target)


@decompose(aten.igamma.default)
def igamma(self: Tensor, other: Tensor) -> Tensor:
    return _gamma(self, other, upper=False)


@decompose(aten.igammac.default)
def igammac(self: Tensor, other: Tensor) -> Tensor:
    return _gamma(self, other, upper=True)
