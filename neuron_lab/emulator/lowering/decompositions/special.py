"""Special functions, by the formulas of aten/src/ATen/native/Math.h."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .._island import binary, island, repeat, tensor_type, type_of, unary
from .._promotion import cast, computation_dtype, result_type
from .._records import Unlowerable
from .._registry import decompose
from . import _ndtri as table
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
    if self.is_complex():
        raise Unlowerable("lgamma of complex numbers")
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


def _register_chlo(name: str, op: str) -> None:
    def run(self: Tensor) -> Tensor:
        target = floating(self.dtype)
        return cast(unary(op, cast(self, computation_dtype(target))), target)

    decompose(getattr(aten, name).default)(run)


_register_chlo("erfc", "chlo.erfc")


@decompose(aten.special_erfcx.default)
def erfcx(self: Tensor) -> Tensor:
    """In float64, by a continued fraction where ``erfc`` underflows."""
    x = cast(self, torch.float64)
    if self.dtype == torch.float64:
        raise Unlowerable("erfcx of float64")
    near = torch.mul(torch.exp(torch.mul(x, x)), unary("chlo.erfc", x))
    inverse = torch.div(0.5, torch.mul(x, x))
    tail = polynomial(inverse, (1.0, -1.0, 3.0, -15.0, 105.0, -945.0))
    far = torch.div(tail, torch.mul(x, math.sqrt(math.pi)))
    return cast(torch.where(torch.gt(x, 20.0), far, near), floating(self.dtype))


@decompose(aten.special_log_ndtr.default)
def log_ndtr(self: Tensor) -> Tensor:
    x = cast(self, computation_dtype(floating(self.dtype)))
    t = torch.mul(x, 1 / math.sqrt(2))
    lower = torch.sub(torch.log(torch.div(erfcx(torch.neg(t)), 2.0)), torch.mul(t, t))
    upper = torch.log1p(torch.div(torch.neg(torch.erfc(t)), 2.0))
    return cast(torch.where(torch.lt(x, -1.0), lower, upper), floating(self.dtype))


@decompose(torch.ops.prims.ndtri.default)
def ndtri(self: Tensor) -> Tensor:
    """The quantile of the normal distribution, as ``calc_ndtri``."""
    target = floating(self.dtype)
    p = cast(self, computation_dtype(target))
    tail = math.exp(-2.0)
    upper = torch.gt(p, 1.0 - tail)
    y = torch.where(upper, torch.sub(1.0, p), p)
    centred = torch.sub(y, 0.5)
    square = torch.mul(centred, centred)
    middle = torch.add(centred, torch.mul(centred, torch.mul(square, _ratio(square, table.NDTRI_P0, table.NDTRI_Q0))))
    x = torch.sqrt(torch.mul(torch.log(y), -2.0))
    inverse = torch.div(1.0, x)
    near = _ratio(inverse, table.NDTRI_P1, table.NDTRI_Q1)
    far = _ratio(inverse, table.NDTRI_P2, table.NDTRI_Q2)
    outer = torch.sub(
        torch.sub(x, torch.div(torch.log(x), x)), torch.mul(inverse, torch.where(torch.lt(x, 8.0), near, far))
    )
    outer = torch.where(upper, outer, torch.neg(outer))
    result = torch.where(torch.gt(y, tail), torch.mul(middle, math.sqrt(2 * math.pi)), outer)
    result = torch.where(torch.eq(p, 0.0), -math.inf, torch.where(torch.eq(p, 1.0), math.inf, result))
    outside = torch.logical_or(torch.lt(p, 0.0), torch.gt(p, 1.0))
    return cast(torch.where(outside, math.nan, result), target)


def _ratio(x: Tensor, top: Sequence[float], bottom: Sequence[float]) -> Tensor:
    return torch.div(polynomial(x, top[::-1]), polynomial(x, bottom[::-1]))


@decompose(aten.digamma.default)
def digamma(self: Tensor) -> Tensor:
    target = floating(self.dtype)
    x = cast(self, computation_dtype(target))
    pole = torch.copysign(torch.full([], math.inf, dtype=x.dtype), torch.neg(x))
    return cast(torch.where(torch.eq(x, 0), pole, unary("chlo.digamma", x)), target)


@decompose(aten.polygamma.default)
def polygamma(n: int, self: Tensor) -> Tensor:
    """(-1)^(n+1) n! zeta(n + 1, x) in float64; XLA's zeta is right for positive x only."""
    if n == 0:
        return torch.digamma(self)
    x = cast(self, torch.float64)
    order = torch.full(x.shape, float(n + 1), dtype=torch.float64)
    depth = torch.amax(torch.reshape(torch.neg(x), [-1]), [0])
    rounds = cast(torch.clamp(torch.add(torch.ceil(depth), 1.0), 0.0, _DEEPEST), torch.int64)
    order, positive, total = repeat(_toward_one, rounds, [order, x, torch.zeros(x.shape, dtype=torch.float64)])
    factor = math.factorial(n) * (-1) ** (n + 1)
    return cast(torch.mul(torch.add(binary("chlo.zeta", order, positive), total), float(factor)), floating(self.dtype))


_DEEPEST = 1e5
"""Terms of the zeta function that are added one by one."""


def _toward_one(k: Tensor, order: Tensor, x: Tensor, total: Tensor) -> list[Tensor]:
    """zeta(s, x) = x^-s + zeta(s, x + 1) for x below 1; ``order`` is a whole number."""
    below = torch.lt(x, 1.0)
    term = torch.pow(x, torch.neg(order))
    return [order, torch.where(below, torch.add(x, 1.0), x), torch.where(below, torch.add(total, term), total)]


@decompose(aten.special_zeta.default)
def zeta(self: Tensor, other: Tensor) -> Tensor:
    target = floating(result_type(self, other))
    return cast(binary("chlo.zeta", cast(self, torch.float64), cast(other, torch.float64)), target)


@decompose(aten.nextafter.default)
def nextafter(self: Tensor, other: Tensor) -> Tensor:
    common = result_type(self, other)
    return binary("chlo.next_after", cast(self, common), cast(other, common))


@decompose(aten.frexp.Tensor)
def frexp(self: Tensor) -> tuple[Tensor, Tensor]:
    """From the bits: mantissas in [0.5, 1)."""
    if self.dtype not in (torch.float32, torch.float64):
        raise Unlowerable("frexp of 16-bit floats")
    kind, width, bias = (torch.int32, 23, 126) if self.dtype == torch.float32 else (torch.int64, 52, 1022)
    special = torch.logical_or(torch.eq(self, 0), torch.logical_not(torch.isfinite(self)))
    scaled = torch.mul(self, 2.0 ** (width + 1))
    subnormal = torch.lt(torch.abs(self), torch.finfo(self.dtype).smallest_normal)
    value = torch.where(subnormal, scaled, self)
    exponent = torch.bitwise_and(torch.bitwise_right_shift(unary(_BITCAST, value, kind), width), 2 * bias + 3)
    mantissa = torch.mul(value, unary(_BITCAST, _power_of_two(exponent, bias, width, kind), self.dtype))
    exponent = torch.sub(torch.sub(exponent, bias), torch.where(subnormal, width + 1, 0))
    return torch.where(special, self, mantissa), torch.where(special, 0, cast(exponent, torch.int32))


_BITCAST = "stablehlo.bitcast_convert"


def _power_of_two(exponent: Tensor, bias: int, width: int, kind: torch.dtype) -> Tensor:
    """Bits of the power that brings a number with this biased exponent into [0.5, 1)."""
    return torch.bitwise_left_shift(cast(torch.clamp(torch.sub(2 * bias + 1, exponent), min=0), kind), width)


@decompose(aten.gcd.default)
def gcd(self: Tensor, other: Tensor) -> Tensor:
    """Euclid's algorithm, as many rounds as the operands need."""
    return _euclid(self, other)


def _euclid(self: Tensor, other: Tensor) -> Tensor:
    common = result_type(self, other)
    if common == torch.bool or common.is_floating_point or common.is_complex:
        raise Unlowerable("gcd takes integers")
    left, right = torch.broadcast_tensors(torch.abs(cast(self, common)), torch.abs(cast(other, common)))
    kind = type_of(left)
    flags = tensor_type(left.shape, torch.bool)
    dims = ", ".join(map(str, range(left.dim())))
    body = f"""%zero = stablehlo.constant dense<0> : {kind}
    %false = stablehlo.constant dense<false> : tensor<i1>
    %r0, %rest = stablehlo.while(%a = %a0, %b = %a1) : {kind}, {kind}
    cond {{
      %more = stablehlo.compare NE, %b, %zero : ({kind}, {kind}) -> {flags}
      %any = stablehlo.reduce(%more init: %false) applies stablehlo.or across dimensions = [{dims}] : ({flags}, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    }} do {{
      %done = stablehlo.compare EQ, %b, %zero : ({kind}, {kind}) -> {flags}
      %one = stablehlo.constant dense<1> : {kind}
      %divisor = stablehlo.select %done, %one, %b : {flags}, {kind}
      %modulo = stablehlo.remainder %a, %divisor : {kind}
      %next = stablehlo.select %done, %a, %b : {flags}, {kind}
      %left = stablehlo.select %done, %zero, %modulo : {flags}, {kind}
      stablehlo.return %next, %left : {kind}, {kind}
    }}"""
    return island(body, [left, right], (left.shape, common))


@decompose(aten.lcm.default)
def lcm(self: Tensor, other: Tensor) -> Tensor:
    common = result_type(self, other)
    divisor = _euclid(self, other)
    safe = torch.where(torch.eq(divisor, 0), torch.ones([], dtype=common), divisor)
    part = torch.div(cast(self, common), safe, rounding_mode="trunc")
    return torch.abs(torch.mul(part, cast(other, common)))
