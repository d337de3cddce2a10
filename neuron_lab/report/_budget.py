"""A budget a profiled cell must stay within."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from neuron_lab.errors import UsageProblem
from neuron_lab.report._summary import Summary


@dataclass(frozen=True, slots=True)
class _Limit:
    measure: Callable[[Summary], float]
    describe: Callable[[float, float], str]


_LIMITS = {
    "neffs": _Limit(
        lambda found: found.neffs_compiled, lambda had, limit: f"{_counted(had, 'NEFF')} compiled, budget {limit:g}"
    ),
    "fallbacks": _Limit(
        lambda found: found.fallback_calls, lambda had, limit: f"{_counted(had, 'CPU fallback')}, budget {limit:g}"
    ),
    "ms": _Limit(lambda found: found.wall_s * 1e3, lambda had, limit: f"{had:.1f} ms, budget {limit:g} ms"),
}


@dataclass(frozen=True, slots=True)
class Budget:
    """Upper limits: `neffs` newly compiled, `fallbacks` calls that ran on the CPU, `ms` of wall time. A limit itself is still within."""

    limits: tuple[tuple[str, float], ...]

    @staticmethod
    def parse(text: str) -> Budget:
        """Read "neffs=0,fallbacks=0,ms=50". Raises UsageProblem when a name or a number is not one."""
        limits = []
        for item in text.split(","):
            name, _, number = (part.strip() for part in item.partition("="))
            if name not in _LIMITS:
                raise UsageProblem(
                    f"no budget is called {name!r} in {text!r}; use {', '.join(_LIMITS)}, as in 'neffs=0,ms=50'"
                )
            limits.append((name, _number(name, number)))
        return Budget(tuple(limits))

    def exceeded(self, found: Summary) -> list[str]:
        """What went over, one sentence each; empty when all is within."""
        over = []
        for name, limit in self.limits:
            had = _LIMITS[name].measure(found)
            if had > limit:
                over.append(_LIMITS[name].describe(had, limit))
        return over


def _counted(number: float, noun: str) -> str:
    return f"{number:g} {noun}{'' if number == 1 else 's'}"


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise UsageProblem(f"the budget {name}={text} is not a number of 0 or more")
    return value
