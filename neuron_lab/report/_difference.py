"""Two reports side by side, and what of them may be compared.

Counts always are. A time of another device, of a cold span against a warm one, or of a span that was cut short is shown and never
subtracted; the median over warm calls is compared on one device in any case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from neuron_lab.recording import Compile
from neuron_lab.report import _frames
from neuron_lab.report._report import Report
from neuron_lab.report._sizes import plural
from neuron_lab.report._split import PartName
from neuron_lab.report._tables import NeffRow, OpRow

if TYPE_CHECKING:
    import pandas as pd

_LONGEST_NAME = 40  # of a profile, in a sentence


@dataclass(frozen=True, slots=True)
class PartChange:
    """One part of the split, or "wall" for all of it, in nanoseconds."""

    name: PartName | str
    before_ns: int
    after_ns: int


@dataclass(frozen=True, slots=True)
class OpChange:
    """One op in both reports, None where it did not run; `made_before` and `made_after` count NEFFs that were compiled."""

    op: str
    before: OpRow | None
    after: OpRow | None
    made_before: int
    made_after: int

    @property
    def total_ns(self) -> tuple[int, int]:
        return (self.before.total_ns if self.before else 0, self.after.total_ns if self.after else 0)

    @property
    def calls(self) -> tuple[int, int]:
        return (self.before.calls if self.before else 0, self.after.calls if self.after else 0)

    @property
    def fallbacks(self) -> tuple[int, int]:
        return (self.before.fallback_calls if self.before else 0, self.after.fallback_calls if self.after else 0)

    @property
    def median_ns(self) -> tuple[float | None, float | None]:
        return (
            self.before.device_median_ns if self.before else None,
            self.after.device_median_ns if self.after else None,
        )


class Difference:
    """What changed from `before` to `after`. `caveats` are sentences; `times` and `medians` tell whether those may be subtracted."""

    def __init__(self, before: Report, after: Report) -> None:
        self.before = before
        self.after = after
        self.names = _name(before, "before"), _name(after, "after")
        self.medians = _device(before) == _device(after)
        obstacles = [*self._other_device(), *self._other_temperature(), *self._cut_short()]
        self.times = not obstacles
        self.caveats = (*obstacles, *self._notes())

    @cached_property
    def parts(self) -> tuple[PartChange, ...]:
        """The wall, then the parts of the split that took time in one of the two."""
        pairs = zip(self.before.split.parts, self.after.split.parts, strict=True)
        wall = PartChange("wall", self.before.recording.wall_ns, self.after.recording.wall_ns)
        return (wall, *(PartChange(old.name, old.ns, new.ns) for old, new in pairs if old.ns or new.ns))

    @cached_property
    def ops(self) -> tuple[OpChange, ...]:
        """Every op of the two, the largest change of its total time first; by its time where times are not compared."""
        names = self._graphs_named_again()
        old = {names.get(row.op, row.op): row for row in self.before.op_rows}
        new = {row.op: row for row in self.after.op_rows}
        made_old, made_new = _made(self.before, names), _made(self.after, {})
        rows = [
            OpChange(op, old.get(op), new.get(op), made_old[op], made_new[op])
            for op in dict.fromkeys([*new, *old, *made_new, *made_old])
        ]
        return tuple(sorted(rows, key=lambda row: (-self._weight(row), row.op)))

    def _graphs_named_again(self) -> dict[str, str]:
        """Names of the same NEFFs' graphs before and after: torch.compile counts a graph's name up each time it makes it."""
        now = {row.neff: row.op for row in self.after.neff_rows if row.op.startswith("graph::")}
        names = {row.op: now[row.neff] for row in self.before.neff_rows if row.neff in now}
        others = {row.op for row in self.before.op_rows} - names.keys()
        taken = Counter([*names.values(), *others])  # a name for two rows would lose one
        return {old: new for old, new in names.items() if taken[new] == 1}

    @property
    def peaks(self) -> tuple[int, int]:
        """The largest peak of HBM of a core, in bytes; it is compared in any case."""
        before, after = (
            max((curve.peak for curve in report.curves), default=0) for report in (self.before, self.after)
        )
        return before, after

    def _weight(self, row: OpChange) -> int:
        before, after = row.total_ns
        return abs(after - before) if self.times else max(before, after)

    @cached_property
    def new_neffs(self) -> tuple[Compile, ...]:
        """Compiled or loaded in `after`, and not used in `before`; the dearest first."""
        known = {row.neff for row in self.before.neff_rows} | {row.signature for row in self.before.neff_rows}
        made = self.after.recording.compiles
        fresh = [item for item in made if item.neff not in known and item.signature not in known]
        return tuple(sorted(fresh, key=lambda item: -item.total_ns))

    @cached_property
    def gone_neffs(self) -> tuple[NeffRow, ...]:
        """Used in `before`, and not in `after`."""
        used = {row.neff for row in self.after.neff_rows} | {row.signature for row in self.after.neff_rows}
        return tuple(row for row in self.before.neff_rows if row.neff not in used and row.signature not in used)

    @property
    def frame(self) -> pd.DataFrame:
        """One row an op; a difference is NaN where the two may not be compared."""
        return _frames.op_changes(self.ops, self.times, self.medians)

    @property
    def parts_frame(self) -> pd.DataFrame:
        """One row a part of the wall time."""
        return _frames.part_changes(self.parts, self.times)

    def _other_device(self) -> Iterator[str]:
        old, new = self.before.recording.environment, self.after.recording.environment
        if old.emulated != new.emulated:
            yield f"{old.device} against {new.device}: the emulator's times are this machine's, never Trainium's"
        elif old.device != new.device:
            yield f"different devices: {old.device} against {new.device}"

    def _other_temperature(self) -> Iterator[str]:
        old, new = (_temperature(report) for report in (self.before, self.after))
        if old[0] != new[0]:
            yield f"cold against warm: {self.names[0]} {old[1]}, {self.names[1]} {new[1]}"

    def _cut_short(self) -> Iterator[str]:
        for name, report in zip(self.names, (self.before, self.after), strict=True):
            if report.recording.partial:
                yield f"{name} was stopped by {report.recording.error}"

    def _notes(self) -> Iterator[str]:
        """What to know, though the times can be compared."""
        old, new = dict(self.before.recording.environment.versions), dict(self.after.recording.environment.versions)
        others = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        if others:
            yield "other versions: " + ", ".join(
                f"{name} {old.get(name, 'none')} → {new.get(name, 'none')}" for name in others
            )
        if bool(self.before.recording.startups) != bool(self.after.recording.startups):
            yield f"the compiler itself started in {self.names[0 if self.before.recording.startups else 1]} only"
        for name, report in zip(self.names, (self.before, self.after), strict=True):
            if report.split.estimated:
                yield f"the split of {name} is estimated from exact totals"
        ops = [{row.op for row in report.op_rows} for report in (self.before, self.after)]
        if all(ops) and not ops[0] & ops[1]:
            yield "they have no op in common: are they the same program?"


def _name(report: Report, otherwise: str) -> str:
    """What a sentence calls it: a label may be of any length and have line breaks."""
    label = " ".join(report.summary.label.split())
    return (label if len(label) <= _LONGEST_NAME else f"{label[: _LONGEST_NAME - 1]}…") or otherwise


def _device(report: Report) -> tuple[bool, str]:
    environment = report.recording.environment
    return environment.emulated, environment.device


def _temperature(report: Report) -> tuple[str, str]:
    """ "cold", "loaded" or "warm", and that in words."""
    made, loaded = report.summary.neffs_compiled, report.summary.neffs_loaded
    if made:
        return "cold", f"compiled {plural(made, 'NEFF')}"
    return ("loaded", f"loaded {plural(loaded, 'NEFF')}") if loaded else ("warm", "was warm")


def _made(report: Report, names: dict[str, str]) -> Counter[str]:
    return Counter(names.get(item.op, item.op) for item in report.recording.compiles if item.source != "disk")
