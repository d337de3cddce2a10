"""Which rows of a report are shown, and in what order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from neuron_lab.errors import UsageProblem
from neuron_lab.report._tables import OpRow

_KEYS: dict[str, Callable[[OpRow], int]] = {
    "time": lambda row: row.total_ns,
    "compile": lambda row: row.compile.total_ns,
    "device": lambda row: row.device_ns,
    "fallback": lambda row: row.fallback_ns,
    "calls": lambda row: row.calls,
    "bytes": lambda row: row.bytes,
}
SORTS = tuple(_KEYS)


@dataclass(frozen=True, slots=True)
class View:
    """Show the first `top` ops by `sort`, without those that took less than `min_ms` milliseconds in all.

    Raises UsageProblem when a value makes no sense.
    """

    top: int = 12
    sort: str = "time"
    min_ms: float = 0.0

    def __post_init__(self) -> None:
        if self.sort not in _KEYS:
            raise UsageProblem(f"cannot sort by {self.sort!r}; choose one of {', '.join(SORTS)}")
        if self.top < 1:
            raise UsageProblem(f"top is {self.top}; show at least 1 row")
        if self.min_ms < 0:
            raise UsageProblem(f"min_ms is {self.min_ms}; a duration cannot be negative")

    def changed(self, **options: Any) -> View:
        """The same view with some options changed. Raises UsageProblem for one that does not exist."""
        unknown = sorted(options.keys() - {item.name for item in fields(self)})
        if unknown:
            raise UsageProblem(
                f"no option is called {unknown[0]!r}; there are {', '.join(item.name for item in fields(self))}"
            )
        return replace(self, **options)

    def select(self, rows: Sequence[OpRow]) -> tuple[list[OpRow], list[OpRow]]:
        """Rows to show, and the rows left out."""
        key = _KEYS[self.sort]
        ordered = sorted(rows, key=lambda row: (-key(row), row.op))
        long_enough = [row for row in ordered if row.total_ns >= self.min_ms * 1e6]
        short = [row for row in ordered if row.total_ns < self.min_ms * 1e6]
        return long_enough[: self.top], long_enough[self.top :] + short
