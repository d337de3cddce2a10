"""One profile as a row of the session's table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from neuron_lab.report._report import Report

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class SessionRow:
    """What is kept of a profile. Times are nanoseconds; `findings` are codes, a code for each finding. `error` cut it short."""

    label: str
    unix_ns: int
    device: str
    emulated: bool
    wall_ns: int
    compile_ns: int
    load_ns: int
    startup_ns: int
    device_ns: int
    fallback_ns: int
    copies_ns: int
    rest_ns: int
    op_calls: int
    neffs_compiled: int
    neffs_loaded: int
    fallback_calls: int
    findings: tuple[str, ...] = ()
    error: str | None = None


def session_row(report: Report) -> SessionRow:
    """The row of one profile."""
    found, split = report.summary, report.split
    return SessionRow(
        label=found.label,
        unix_ns=report.recording.unix_ns,
        device=found.device,
        emulated=found.emulated,
        wall_ns=report.recording.wall_ns,
        compile_ns=split.compile_ns,
        load_ns=split.load_ns,
        startup_ns=split.startup_ns,
        device_ns=split.device_ns,
        fallback_ns=split.fallback_ns,
        copies_ns=split.copies_ns,
        rest_ns=split.rest_ns,
        op_calls=found.op_calls,
        neffs_compiled=found.neffs_compiled,
        neffs_loaded=found.neffs_loaded,
        fallback_calls=found.fallback_calls,
        findings=tuple(item.code for item in report.findings),
        error=found.error,
    )


def session_total(rows: Sequence[SessionRow]) -> SessionRow:
    """All rows in one: sums, and the findings of all."""
    devices = dict.fromkeys(row.device for row in rows)
    numbers = {
        item.name: sum(getattr(row, item.name) for row in rows) for item in fields(SessionRow) if item.type == "int"
    }
    numbers["unix_ns"] = min((row.unix_ns for row in rows), default=0)
    findings = tuple(code for row in rows for code in row.findings)
    emulated = any(row.emulated for row in rows)
    return SessionRow(label="total", device=", ".join(devices), emulated=emulated, findings=findings, **numbers)


def session_frame(rows: Iterable[SessionRow]) -> pd.DataFrame:
    """One row a profile, times in seconds: `wall_s` and the parts that add up to it."""
    import pandas as pd

    names = [item.name for item in fields(SessionRow)]
    times = [name for name in names if name.endswith("_ns")]
    frame = pd.DataFrame([[getattr(row, name) for name in names] for row in rows], columns=names)
    frame[times] = frame[times] / 1e9
    return frame.rename(columns={name: name.replace("_ns", "_s") for name in times})
