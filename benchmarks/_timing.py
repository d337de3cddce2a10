"""Medians, and the one way results are printed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def medians_us(calls: Mapping[str, Callable[[], object]], *, rounds: int = 60, number: int = 200) -> dict[str, float]:
    """Microseconds per call, the median over `rounds`. The calls take turns, so that a drift of the machine hits all alike."""
    for call in calls.values():
        call()
        call()
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.perf_counter_ns()
            for _ in range(number):
                call()
            samples[name].append((time.perf_counter_ns() - started) / number / 1e3)
    return {name: statistics.median(values) for name, values in samples.items()}


def row(name: str, value: float, unit: str, budget: float | None = None, note: str = "") -> None:
    """One line: figure, budget and whether it holds."""
    verdict = "" if budget is None else f"  budget {budget:g} {unit}  {'ok' if value <= budget else 'OVER'}"
    print(f"  {name:<34} {value:>9.2f} {unit}{verdict}{'  ' + note if note else ''}", flush=True)
