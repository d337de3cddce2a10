"""Orthogonal polynomials by their recurrences, as aten/src/ATen/native/Math.h."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .._island import repeat
from .._promotion import cast, result_type
from .._records import Unlowerable
from .._registry import decompose
from .arithmetic import floating

aten = torch.ops.aten

Step = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(k, x, q, p) -> the polynomial after ``q`` and ``p``; ``k`` is the degree of ``q``."""


@dataclass(frozen=True, slots=True)
class _Family:
    first: Callable[[Tensor], Tensor]
    """The polynomial of degree 1; degree 0 is 1."""
    step: Step
    shifted: bool = False
    closed: Callable[[Tensor, Tensor], Tensor] | None = None
    """The value between -1 and 1 from (n, acos x), for degrees above ``above``."""
    above: int = 0
    at_one: Callable[[Tensor], Tensor] | None = None
    at_minus_one: Callable[[Tensor], Tensor] | None = None


def _chebyshev(k: Tensor, x: Tensor, q: Tensor, p: Tensor) -> Tensor:
    return torch.sub(torch.mul(torch.add(x, x), q), p)


def _hermite(k: Tensor, x: Tensor, q: Tensor, p: Tensor) -> Tensor:
    return torch.sub(torch.mul(torch.add(x, x), q), torch.mul(torch.mul(k, 2), p))


def _hermite_e(k: Tensor, x: Tensor, q: Tensor, p: Tensor) -> Tensor:
    return torch.sub(torch.mul(x, q), torch.mul(k, p))


def _laguerre(k: Tensor, x: Tensor, q: Tensor, p: Tensor) -> Tensor:
    factor = torch.add(torch.mul(k, 2), torch.sub(1.0, x))
    return torch.div(torch.sub(torch.mul(factor, q), torch.mul(k, p)), torch.add(k, 1))


def _legendre(k: Tensor, x: Tensor, q: Tensor, p: Tensor) -> Tensor:
    factor = torch.mul(torch.add(torch.mul(k, 2), 1), x)
    return torch.div(torch.sub(torch.mul(factor, q), torch.mul(k, p)), torch.add(k, 1))


def _one(n: Tensor) -> Tensor:
    return torch.ones(n.shape, dtype=n.dtype)


def _alternating(n: Tensor) -> Tensor:
    return torch.where(torch.eq(torch.remainder(n, 2.0), 0), 1.0, -1.0)


def _odd(n: Tensor) -> Tensor:
    return torch.add(torch.mul(n, 2), 1)


def _successor(n: Tensor) -> Tensor:
    return torch.add(n, 1)


def _signed(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda n: torch.mul(_alternating(n), function(n))


def _closed_t(n: Tensor, angle: Tensor) -> Tensor:
    return torch.cos(torch.mul(n, angle))


def _closed_u(n: Tensor, angle: Tensor) -> Tensor:
    return torch.div(torch.sin(torch.mul(torch.add(n, 1), angle)), torch.sin(angle))


def _closed_v(n: Tensor, angle: Tensor) -> Tensor:
    return torch.div(torch.cos(torch.mul(torch.add(n, 0.5), angle)), torch.cos(torch.div(angle, 2)))


def _closed_w(n: Tensor, angle: Tensor) -> Tensor:
    return torch.div(torch.sin(torch.mul(torch.add(n, 0.5), angle)), torch.sin(torch.div(angle, 2)))


def _double(x: Tensor) -> Tensor:
    return torch.add(x, x)


def _same(x: Tensor) -> Tensor:
    return x


_FAMILIES = {
    "chebyshev_polynomial_t": _Family(_same, _chebyshev, False, _closed_t, 6, _one, _alternating),
    "chebyshev_polynomial_u": _Family(_double, _chebyshev, False, _closed_u, 8, _successor, _signed(_successor)),
    "chebyshev_polynomial_v": _Family(
        lambda x: torch.sub(_double(x), 1.0), _chebyshev, False, _closed_v, 8, _one, _signed(_odd)
    ),
    "chebyshev_polynomial_w": _Family(
        lambda x: torch.add(_double(x), 1.0), _chebyshev, False, _closed_w, 8, _odd, _alternating
    ),
    "hermite_polynomial_h": _Family(_double, _hermite),
    "hermite_polynomial_he": _Family(_same, _hermite_e),
    "laguerre_polynomial_l": _Family(lambda x: torch.sub(1.0, x), _laguerre),
    "legendre_polynomial_p": _Family(_same, _legendre, at_one=_one, at_minus_one=_alternating),
}
for _kind in "tuvw":
    _plain = _FAMILIES[f"chebyshev_polynomial_{_kind}"]
    _FAMILIES[f"shifted_chebyshev_polynomial_{_kind}"] = _Family(
        _plain.first, _plain.step, True, _plain.closed, 4 if _kind == "w" else 6, _plain.at_one, _plain.at_minus_one
    )

_HERMITE_LIMITS = {torch.float32: 128, torch.float64: 512}
"""``getHermitianLimit``: NaN for higher degrees."""


def _evaluated(family: _Family, x: Tensor, n: Tensor) -> Tensor:
    def advance(k: Tensor, x: Tensor, n: Tensor, p: Tensor, q: Tensor) -> list[Tensor]:
        degree = torch.add(cast(k, x.dtype), 1.0)
        new = family.step(degree, x, q, p)
        going = torch.lt(degree, n)
        return [x, n, torch.where(going, q, p), torch.where(going, new, q)]

    first = family.first(x)
    one = torch.ones(x.shape, dtype=x.dtype)
    limit = cast(torch.clamp(torch.sub(torch.amax(torch.reshape(n, [-1]), [0]), 1.0), 0.0, 1e5), torch.int64)
    value = repeat(advance, limit, [x, n, one, first])[3]
    if family.closed is not None:
        inside = torch.logical_and(torch.lt(torch.abs(x), 1.0), torch.gt(n, float(family.above)))
        value = torch.where(inside, family.closed(n, torch.acos(torch.clamp(x, -1.0, 1.0))), value)
    if family.at_one is not None and family.at_minus_one is not None:
        value = torch.where(torch.eq(x, 1.0), family.at_one(n), value)
        value = torch.where(torch.eq(x, -1.0), family.at_minus_one(n), value)
    value = torch.where(torch.eq(n, 0.0), one, value)
    return torch.where(torch.lt(n, 0.0), torch.zeros([], dtype=x.dtype), value)


def _register(name: str, family: _Family) -> None:
    def run(x: Tensor, n: Tensor) -> Tensor:
        target = floating(result_type(x, n))
        if target not in _HERMITE_LIMITS:
            raise Unlowerable("orthogonal polynomials of 16-bit floats")
        left, degree = torch.broadcast_tensors(cast(x, target), torch.trunc(cast(n, target)))
        value = _evaluated(family, torch.sub(torch.add(left, left), 1.0) if family.shifted else left.clone(), degree)
        if "hermite" in name:
            value = torch.where(torch.gt(degree, float(_HERMITE_LIMITS[target])), float("nan"), value)
        return value

    packet = getattr(aten, f"special_{name}")
    decompose(packet.default)(run)


for _name, _family in _FAMILIES.items():
    _register(_name, _family)
