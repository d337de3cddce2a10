"""Exact float64 remainders, by long division."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._island import repeat, unary
from .._promotion import cast

_WIDTH, _BIAS, _MASK = 52, 1023, 2047
"""Of float64: mantissa bits, exponent bias, exponent bits."""


def _exponent(x: Tensor) -> Tensor:
    bits = unary("stablehlo.bitcast_convert", x, torch.int64)
    return torch.bitwise_and(torch.bitwise_right_shift(bits, _WIDTH), _MASK)


def _power_of_two(n: Tensor) -> Tensor:
    bits = torch.bitwise_left_shift(torch.add(n, _BIAS), _WIDTH)
    return unary("stablehlo.bitcast_convert", bits, torch.float64)


def _subtract(k: Tensor, rest: Tensor, step: Tensor, shift: Tensor) -> list[Tensor]:
    """One binary digit of the quotient; every operation is exact."""
    fits = torch.logical_and(torch.ge(rest, step), torch.le(k, shift))
    return [torch.where(fits, torch.sub(rest, step), rest), torch.mul(step, 0.5), shift]


def fmod(left: Tensor, right: Tensor) -> Tensor:
    """C's fmod of float64 tensors of one shape, for normal numbers: XLA's CPU client takes subnormal ones for 0."""
    rest, divisor = torch.abs(left), torch.abs(right)
    plain = torch.logical_and(torch.isfinite(left), torch.logical_and(torch.isfinite(right), torch.ne(right, 0)))
    rest = torch.where(plain, rest, 0.0)
    divisor = torch.where(plain, divisor, 1.0)
    shift = torch.clamp(torch.sub(_exponent(rest), _exponent(divisor)), min=0)
    half = torch.bitwise_right_shift(shift, 1)
    step = torch.mul(torch.mul(divisor, _power_of_two(half)), _power_of_two(torch.sub(shift, half)))
    rounds = torch.add(torch.amax(torch.reshape(shift, [-1]), [0]), 1)
    rest = repeat(_subtract, rounds, [rest, step, shift])[0]
    infinite = torch.logical_and(torch.isfinite(left), torch.eq(torch.abs(right), math.inf))
    rest = torch.where(plain, rest, torch.where(infinite, torch.abs(left), math.nan))
    return torch.copysign(cast(rest, left.dtype), left)
