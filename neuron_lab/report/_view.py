"""Which rows of a report are shown, and in what order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias, TypeVar

from neuron_lab.errors import UsageProblem
from neuron_lab.report._lines import LineRow
from neuron_lab.report._modules import ModuleRow
from neuron_lab.report._tables import NeffRow, OpRow

_Any: TypeAlias = OpRow | NeffRow | LineRow | ModuleRow
_Row = TypeVar("_Row", OpRow, NeffRow, LineRow, ModuleRow)


def _fallback_ns(row: _Any) -> int:
    return 0 if isinstance(row, NeffRow) else row.fallback_ns  # no view sorts NEFFs by it


def _compile_ns(row: _Any) -> int:
    return row.compile_ns + row.load_ns if isinstance(row, LineRow) else row.compile.total_ns


_KEYS: dict[str, Callable[[_Any], int]] = {
    "time": lambda row: row.total_ns,
    "compile": _compile_ns,
    "device": lambda row: row.device_ns,
    "fallback": _fallback_ns,
    "calls": lambda row: row.calls,
    "bytes": lambda row: row.bytes,
}
SORTS = tuple(_KEYS)
# A report keeps within 80 kB, however many rows it is asked for; the frames and the explorer have all.
MOST_ROWS = 150
_MOST_LINES = 200
GROUPS = ("op", "neff", "line", "module")


@dataclass(frozen=True, slots=True)
class View:
    """Show the first `top` rows by `sort`, 150 at most, without those that took less than `min_ms` milliseconds in all.

    `by` is what a row of the table stands for: "op", "neff", "line" or "module". Raises UsageProblem when a value makes no sense.
    """

    top: int = 8
    sort: str = "time"
    min_ms: float = 0.0
    by: str = "op"

    def __post_init__(self) -> None:
        if self.sort not in _KEYS:
            raise UsageProblem(f"cannot sort by {self.sort!r}; choose one of {', '.join(SORTS)}")
        if self.by not in GROUPS:
            raise UsageProblem(f"cannot show rows by {self.by!r}; choose one of {', '.join(GROUPS)}")
        if self.by == "neff" and self.sort == "fallback":
            raise UsageProblem("cannot sort NEFFs by 'fallback': a call that ran on the CPU has none")
        # Looked at here, before the program runs: a report that cannot be shown would come too late.
        if not isinstance(self.top, int) or self.top < 1:
            raise UsageProblem(f"top is {self.top!r}; show at least 1 row")
        if not isinstance(self.min_ms, (int, float)) or not self.min_ms >= 0:
            raise UsageProblem(f"min_ms is {self.min_ms!r}; a duration is 0 or more")

    def changed(self, **options: Any) -> View:
        """The same view with some options changed. Raises UsageProblem for one that does not exist."""
        unknown = sorted(options.keys() - {item.name for item in fields(self)})
        if unknown:
            raise UsageProblem(
                f"no option is called {unknown[0]!r}; there are {', '.join(item.name for item in fields(self))}"
            )
        return replace(self, **options)

    @property
    def lines(self) -> int:
        """Lines of source that a view by line has room for: each row with its neighbours, and the names of files."""
        return min(3 * self.top, _MOST_LINES)

    def select(self, rows: Sequence[_Row]) -> tuple[list[_Row], list[_Row]]:
        """Rows to show, and the rows left out."""
        key = _KEYS[self.sort]
        ordered = sorted(rows, key=key, reverse=True)
        long_enough = [row for row in ordered if row.total_ns >= self.min_ms * 1e6]
        short = [row for row in ordered if row.total_ns < self.min_ms * 1e6]
        count = min(self.top, MOST_ROWS)
        return long_enough[:count], long_enough[count:] + short
