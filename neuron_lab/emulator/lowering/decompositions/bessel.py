"""Bessel functions, as aten/src/ATen/native/Math.h but in float64 throughout."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .._promotion import cast
from .._registry import decompose
from . import _cephes as table
from .arithmetic import floating

aten = torch.ops.aten

_TWO_OVER_PI = 2 / math.pi


def _horner(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    total = torch.full([], coefficients[0], dtype=x.dtype)
    for coefficient in coefficients[1:]:
        total = torch.add(torch.mul(total, x), coefficient)
    return total


def _chebyshev(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """``chbevl``: a Chebyshev series by Clenshaw's recurrence."""
    p = q = torch.zeros([], dtype=x.dtype)
    a = torch.full([], coefficients[0], dtype=x.dtype)
    for coefficient in coefficients[1:]:
        p, q = q, a
        a = torch.add(torch.sub(torch.mul(x, q), p), coefficient)
    return torch.mul(torch.sub(a, p), 0.5)


def _ratio(x: Tensor, top: Sequence[float], bottom: Sequence[float]) -> Tensor:
    return torch.div(_horner(x, top), _horner(x, bottom))


def _waves(x: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """The asymptotic J and Y of ``order`` for x > 5."""
    t = torch.div(5.0, x)
    square = torch.mul(t, t)
    tables = (
        (table.J0_PP, table.J0_PQ, table.J0_QP, table.J0_QQ)
        if order == 0
        else (table.J1_PP, table.J1_PQ, table.J1_QP, table.J1_QQ)
    )
    p, q = _ratio(square, *tables[:2]), torch.mul(t, _ratio(square, *tables[2:]))
    phase = torch.sub(x, (2 * order + 1) * math.pi / 4)
    sine, cosine = torch.sin(phase), torch.cos(phase)
    scale = torch.div(math.sqrt(_TWO_OVER_PI), torch.sqrt(x))
    first = torch.mul(torch.sub(torch.mul(p, cosine), torch.mul(q, sine)), scale)
    return first, torch.mul(torch.add(torch.mul(p, sine), torch.mul(q, cosine)), scale)


def _j0(x: Tensor) -> Tensor:
    size = torch.abs(x)
    square = torch.mul(x, x)
    near = torch.mul(torch.sub(square, 5.78318596294678452118), torch.sub(square, 30.4712623436620863991))
    near = torch.mul(near, _ratio(square, table.J0_RP, table.J0_RQ))
    return torch.where(torch.le(size, 5.0), near, _waves(size, 0)[0])


def _j1(x: Tensor) -> Tensor:
    size = torch.abs(x)
    square = torch.mul(x, x)
    near = torch.mul(torch.sub(square, 14.6819706421238932572), torch.sub(square, 49.2184562321694603670))
    near = torch.mul(torch.mul(near, _ratio(square, table.J1_RP, table.J1_RQ)), size)
    return torch.mul(torch.where(torch.le(size, 5.0), near, _waves(size, 1)[0]), torch.sign(x))


def _bounded_below(x: Tensor, value: Tensor, at_zero: float) -> Tensor:
    """``at_zero`` at 0 and NaN below it."""
    return torch.where(torch.lt(x, 0.0), math.nan, torch.where(torch.eq(x, 0.0), at_zero, value))


def _y0(x: Tensor) -> Tensor:
    near = torch.add(
        _ratio(torch.mul(x, x), table.Y0_YP, table.Y0_YQ), torch.mul(torch.mul(torch.log(x), _j0(x)), _TWO_OVER_PI)
    )
    return _bounded_below(x, torch.where(torch.le(x, 5.0), near, _waves(x, 0)[1]), -math.inf)


def _y1(x: Tensor) -> Tensor:
    near = torch.mul(torch.sub(torch.mul(_j1(x), torch.log(x)), torch.reciprocal(x)), _TWO_OVER_PI)
    near = torch.add(torch.mul(x, _ratio(torch.mul(x, x), table.Y1_YP, table.Y1_YQ)), near)
    return _bounded_below(x, torch.where(torch.le(x, 5.0), near, _waves(x, 1)[1]), -math.inf)


def _i0e(x: Tensor) -> Tensor:
    size = torch.abs(x)
    near = _chebyshev(torch.sub(torch.div(size, 2.0), 2.0), table.I0_A)
    far = torch.div(_chebyshev(torch.sub(torch.div(32.0, size), 2.0), table.I0_B), torch.sqrt(size))
    return torch.where(torch.le(size, 8.0), near, far)


def _i1e(x: Tensor) -> Tensor:
    size = torch.abs(x)
    near = torch.mul(_chebyshev(torch.sub(torch.div(size, 2.0), 2.0), table.I1_A), size)
    far = torch.div(_chebyshev(torch.sub(torch.div(32.0, size), 2.0), table.I1_B), torch.sqrt(size))
    return torch.mul(torch.where(torch.le(size, 8.0), near, far), torch.sign(x))


def _i0(x: Tensor) -> Tensor:
    return torch.mul(_i0e(x), torch.exp(torch.abs(x)))


def _i1(x: Tensor) -> Tensor:
    return torch.mul(_i1e(x), torch.exp(torch.abs(x)))


def _k0e(x: Tensor) -> Tensor:
    near = _chebyshev(torch.sub(torch.mul(x, x), 2.0), table.K0_A)
    near = torch.mul(torch.sub(near, torch.mul(torch.log(torch.mul(x, 0.5)), _i0(x))), torch.exp(x))
    far = torch.div(_chebyshev(torch.sub(torch.div(8.0, x), 2.0), table.K0_B), torch.sqrt(x))
    return _bounded_below(x, torch.where(torch.le(x, 2.0), near, far), math.inf)


def _k1e(x: Tensor) -> Tensor:
    near = torch.div(_chebyshev(torch.sub(torch.mul(x, x), 2.0), table.K1_A), x)
    near = torch.mul(torch.add(near, torch.mul(torch.log(torch.mul(x, 0.5)), _i1(x))), torch.exp(x))
    far = torch.div(_chebyshev(torch.sub(torch.div(8.0, x), 2.0), table.K1_B), torch.sqrt(x))
    return _bounded_below(x, torch.where(torch.le(x, 2.0), near, far), math.inf)


def _unscaled(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.mul(function(x), torch.exp(torch.neg(x)))


def _spherical_j0(x: Tensor) -> Tensor:
    near = _horner(torch.mul(x, x), [(-1) ** k / math.factorial(2 * k + 1) for k in reversed(range(7))])
    far = torch.where(torch.isinf(x), 0.0, torch.div(torch.sin(x), x))
    return torch.where(torch.lt(torch.abs(x), 0.5), near, far)


def _register(name: str, function: Callable[[Tensor], Tensor]) -> None:
    def run(self: Tensor) -> Tensor:
        return cast(function(cast(self, torch.float64)), floating(self.dtype))

    decompose(getattr(aten, name).default)(run)


for _name, _function in {
    "special_bessel_j0": _j0,
    "special_bessel_j1": _j1,
    "special_bessel_y0": _y0,
    "special_bessel_y1": _y1,
    "i0": _i0,
    "special_i0e": _i0e,
    "special_i1": _i1,
    "special_i1e": _i1e,
    "special_modified_bessel_i0": _i0,
    "special_modified_bessel_i1": _i1,
    "special_modified_bessel_k0": _unscaled(_k0e),
    "special_modified_bessel_k1": _unscaled(_k1e),
    "special_scaled_modified_bessel_k0": _k0e,
    "special_scaled_modified_bessel_k1": _k1e,
    "special_spherical_bessel_j0": _spherical_j0,
}.items():
    _register(_name, _function)
