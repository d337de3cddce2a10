"""The columns of the table by op, by NEFF and by module, for text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from neuron_lab.render._format import DASH, count, duration, share, size
from neuron_lab.report import ModuleRow, NeffRow, OpRow, Report, View, named_signature

Row: TypeAlias = OpRow | NeffRow | ModuleRow


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a text table. Lower `rank` stays longer when the line gets too long; `sort` is the order it shows."""

    title: str
    rank: int
    cell: Callable[[Row, int], str]
    sort: str = ""


def _neffs(row: Row) -> str:
    return DASH if isinstance(row, NeffRow) or not row.neffs else count(row.neffs)


def _origin(row: Row) -> str:
    return row.source if isinstance(row, NeffRow) else DASH


def _fallback(row: Row) -> str:
    if not isinstance(row, NeffRow) and row.fallback_calls:
        return f"{count(row.fallback_calls)} · {duration(row.fallback_ns)}"
    return DASH


def narrowed(row: Row) -> str:
    """Calls that TorchNeuron computes in 32 bits; "!" when a value does not fit there."""
    if not isinstance(row, OpRow) or not row.wide_calls:
        return DASH
    return count(row.wide_calls) + "!" * bool(row.beyond_calls)


def phase(row: Row) -> str:
    """Of a module's row: a part of the training step."""
    return (isinstance(row, ModuleRow) and row.phase) or DASH


def warm_median(row: Row) -> float | None:
    """Of an op or NEFF: calls of a module are too different for one."""
    return None if isinstance(row, ModuleRow) else row.device_median_ns


def _time(ns: float | None) -> str:
    return duration(ns) if ns else DASH


COLUMNS = (
    Column("phase", 1, lambda row, wall: phase(row)),
    Column("calls", 0, lambda row, wall: count(row.calls), "calls"),
    Column("NEFFs", 4, lambda row, wall: _neffs(row)),
    Column("from", 3, lambda row, wall: _origin(row)),
    Column("compile", 1, lambda row, wall: _time(row.compile.made_ns), "compile"),
    Column("load", 6, lambda row, wall: _time(row.compile.load_ns)),
    Column("device", 1, lambda row, wall: _time(row.device_ns), "device"),
    Column("warm median", 7, lambda row, wall: _time(warm_median(row))),
    Column("fallback", 2, lambda row, wall: _fallback(row), "fallback"),
    Column("64→32", 6, lambda row, wall: narrowed(row)),
    Column("bytes", 5, lambda row, wall: size(row.bytes) if row.bytes else DASH, "bytes"),
    Column("total", 2, lambda row, wall: _time(row.total_ns), "time"),
    Column("share", 3, lambda row, wall: share(row.total_ns, wall)),
)


def in_use(columns: tuple[Column, ...], rows: list[Row], wall_ns: int, sort: str) -> list[Column]:
    """The columns that say something about `rows`; the one they are sorted by stays in any case."""
    return [
        column for column in columns if column.sort == sort or any(column.cell(row, wall_ns) != DASH for row in rows)
    ]


def name_of(row: Row) -> str:
    """What a row stands for: an op's full name, a module's path, or a NEFF's signature."""
    if isinstance(row, OpRow):
        return row.op
    if isinstance(row, ModuleRow):
        return row.module or "(no module)"
    return named_signature(row.op, row.signature) or f"{row.op} {row.neff[:12]}"


def rows_of(report: Report, view: View) -> tuple[list[Row], list[Row]]:
    """Rows of the table, and those left out."""
    if view.by == "neff":
        neffs, other_neffs = view.select(report.neff_rows)
        return [*neffs], [*other_neffs]
    if view.by == "module":
        modules, other_modules = view.select(report.module_rows)
        return [*modules], [*other_modules]
    ops, other_ops = view.select(report.op_rows)
    return [*ops], [*other_ops]
