"""Special functions, by the formulas of aten/src/ATen/native/Math.h."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .._promotion import cast, computation_dtype
from .._records import Unlowerable
from .._registry import decompose
from .arithmetic import floating

aten = torch.ops.aten

_ERFINV_A = (0.886226899, -1.645349621, 0.914624893, -0.140543331)
_ERFINV_B = (-2.118377725, 1.442710462, -0.329097515, 0.012229801)
_ERFINV_C = (-1.970840454, -1.624906493, 3.429567803, 1.641345311)
_ERFINV_D = (3.543889200, 1.637067800)
"""Coefficients of ``calc_erfinv``, constant term first."""


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Horner's rule, constant term first."""
    total: Tensor = torch.full([], coefficients[-1], dtype=x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        total = torch.add(torch.mul(total, x), coefficient)
    return total


@decompose(aten.erfinv.default)
def erfinv(self: Tensor) -> Tensor:
    target = floating(self.dtype)
    y = cast(self, computation_dtype(target))
    size = torch.abs(y)
    square = torch.mul(y, y)
    lower = polynomial(square, _ERFINV_A)
    lower = torch.div(torch.mul(y, lower), torch.add(torch.mul(polynomial(square, _ERFINV_B), square), 1.0))
    tail = torch.sqrt(torch.neg(torch.log(torch.div(torch.sub(1.0, size), 2.0))))
    upper = polynomial(tail, _ERFINV_C)
    upper = torch.div(upper, torch.add(torch.mul(polynomial(tail, _ERFINV_D), tail), 1.0))
    x = torch.where(torch.le(size, 0.7), lower, torch.mul(upper, torch.sign(y)))
    for _ in range(2):
        slope = torch.mul(torch.exp(torch.neg(torch.mul(x, x))), 2.0 / math.sqrt(math.pi))
        x = torch.sub(x, torch.div(torch.sub(torch.erf(x), y), slope))
    x = torch.where(torch.eq(size, 1.0), torch.mul(torch.sign(y), math.inf), x)
    return cast(torch.where(torch.gt(size, 1.0), math.nan, x), target)


_LANCZOS_G = 7.0
_LANCZOS = (
    0.99999999999980993227684700473478,
    676.520368121885098567009190444019,
    -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,
    -176.61502916214059906584551354,
    12.507343278686904814458936853,
    -0.13857109526572011689554707,
    9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)
"""Lanczos coefficients for g = 7 and nine terms (Godfrey), as used by XLA."""


@decompose(aten.lgamma.default)
def lgamma(self: Tensor) -> Tensor:
    target = floating(self.dtype)
    value = cast(self, torch.float64)
    mirrored = torch.lt(value, 0.5)
    z = torch.sub(torch.where(mirrored, torch.neg(value), torch.sub(value, 1.0)), 0.0)
    series: Tensor = torch.full([], _LANCZOS[0], dtype=torch.float64)
    for index, coefficient in enumerate(_LANCZOS[1:], start=1):
        series = torch.add(series, torch.div(coefficient, torch.add(z, float(index))))
    shifted = torch.add(z, _LANCZOS_G + 0.5)
    log_shifted = torch.log(shifted)
    plain = torch.sub(torch.mul(torch.add(z, 0.5), log_shifted), shifted)
    plain = torch.add(torch.add(plain, 0.5 * math.log(2 * math.pi)), torch.log(series))
    fraction = torch.sub(torch.abs(value), torch.floor(torch.abs(value)))
    sine = torch.log(torch.sin(torch.mul(fraction, math.pi)))
    reflected = torch.sub(torch.sub(math.log(math.pi), sine), plain)
    result = torch.where(mirrored, reflected, plain)
    pole = torch.logical_and(torch.le(value, 0), torch.eq(value, torch.floor(value)))
    result = torch.where(torch.logical_or(pole, torch.eq(torch.abs(value), math.inf)), math.inf, result)
    return cast(result, target)


@decompose(aten.angle.default)
def angle(self: Tensor) -> Tensor:
    if self.is_complex():
        raise Unlowerable("angle of complex numbers")
    target = floating(self.dtype)
    value = cast(self, target)
    turned = torch.where(torch.lt(value, 0), math.pi, torch.zeros([], dtype=target))
    return torch.where(torch.isnan(value), value, cast(turned, target))
