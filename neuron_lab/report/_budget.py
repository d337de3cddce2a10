"""A budget a profiled cell must stay within."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from neuron_lab.errors import UsageProblem
from neuron_lab.report._report import Report
from neuron_lab.report._signature import named_signature
from neuron_lab.report._sizes import plural

_NAMED = 3  # culprits that a message names


@dataclass(frozen=True, slots=True)
class _Limit:
    measure: Callable[[Report], float]
    describe: Callable[[Report, float, float], str]


def _neffs(report: Report, had: float, limit: float) -> str:
    made = (item for item in report.recording.compiles if item.source != "disk")
    culprits = _named(
        _at(named_signature(item.op, item.signature), report.place_of_compile(item.neff)) for item in made
    )
    return f"{plural(int(had), 'NEFF')} compiled, budget {limit:g}: {culprits}"


def _fallbacks(report: Report, had: float, limit: float) -> str:
    calls: Counter[tuple[str, str]] = Counter()
    for total in report.recording.op_totals:
        if total.kind == "fallback":
            calls[total.op, report.place(total.where)] += total.calls
    culprits = _named(_at(f"{op} {number}×", place) for (op, place), number in calls.most_common())
    return f"{plural(int(had), 'CPU fallback')}, budget {limit:g}: {culprits}"


_LIMITS = {
    "neffs": _Limit(lambda found: found.summary.neffs_compiled, _neffs),
    "fallbacks": _Limit(lambda found: found.summary.fallback_calls, _fallbacks),
    "ms": _Limit(
        lambda found: found.summary.wall_s * 1e3, lambda found, had, limit: f"{had:.1f} ms, budget {limit:g} ms"
    ),
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

    def exceeded(self, found: Report) -> list[str]:
        """What went over and because of what, one sentence each; empty when all is within."""
        over = []
        for name, limit in self.limits:
            had = _LIMITS[name].measure(found)
            if had > limit:
                over.append(_LIMITS[name].describe(found, had, limit))
        return over


def _at(culprit: str, place: str) -> str:
    return f"{culprit} at {place}" if place else culprit


def _named(culprits: Iterable[str]) -> str:
    names = list(culprits)
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise UsageProblem(f"the budget {name}={text} is not a number of 0 or more")
    return value
