"""Rows as pandas DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from neuron_lab.recording import Compile, CopyTotal, GraphCompile, Recording, Where
from neuron_lab.report._guards import guard_failure
from neuron_lab.report._lines import LineRow
from neuron_lab.report._modules import ModuleRow
from neuron_lab.report._recompiles import Recompile, changed, fix_for
from neuron_lab.report._signature import short_signature
from neuron_lab.report._tables import CompileTime, NeffRow, OpRow

if TYPE_CHECKING:
    import pandas as pd

    from neuron_lab.report._difference import OpChange, PartChange

# `compile_s` is the sum of the next three; `load_s` is reading NEFFs from disk.
_STAGES = ["compile_s", "trace_s", "lower_s", "xla_s", "load_s"]
OP_COLUMNS = [
    *("op", "calls", "cold_calls", "neffs", *_STAGES, "memory_hits", "disk_hits", "device_ms", "device_ms_median"),
    *("fallback_calls", "fallback_ms", "host_calls", "wide_calls", "beyond_calls", "bytes", "total_ms", "share"),
]
NEFF_COLUMNS = [
    "neff",
    "op",
    "signature",
    "source",
    *_STAGES,
    "calls",
    "cold_calls",
    "device_ms",
    "device_ms_median",
    "bytes",
    "cores",
]
COMPILE_COLUMNS = ["op", "neff", "source", "at_s", *_STAGES, "signature"]
LINE_COLUMNS = [
    *("place", "line", "source", "function", "calls", "neffs", "neffs_compiled", "neffs_loaded", "compile_s", "load_s"),
    *("device_ms", "fallback_calls", "fallback_ms", "copies", "copy_bytes", "bytes", "peak_bytes", "total_ms", "ops"),
]
MODULE_COLUMNS = [
    *("module", "phase", "calls", "cold_calls", "neffs", *_STAGES, "device_ms", "fallback_calls", "fallback_ms"),
    *("copies", "copy_bytes", "bytes", "total_ms", "ops"),
]
RECOMPILE_COLUMNS = ["op", "where", "changed", "cost_s", "source", "nearest", "met", "signature", "fix"]
GRAPH_COLUMNS = ["graph", "function", "where", "changed", "cost_s", "fix", "reasons", "failure"]
FALLBACK_COLUMNS = ["op", "reason", "calls", "ms"]
MEMORY_COLUMNS = ["at_s", "core", "change", "used", "where"]
COPY_COLUMNS = ["direction", "calls", "ms", "bytes"]
OP_CHANGE_COLUMNS = [
    *("op", "calls_before", "calls_after", "neffs_compiled_before", "neffs_compiled_after"),
    *("fallback_calls_before", "fallback_calls_after", "total_ms_before", "total_ms_after", "total_ms_delta"),
    *("device_ms_median_before", "device_ms_median_after", "device_ms_median_delta"),
]
PART_CHANGE_COLUMNS = ["part", "before_s", "after_s", "delta_s"]


def ops(rows: Iterable[OpRow], wall_ns: int) -> pd.DataFrame:
    """One row an op; `share` is the part of the wall time spent in its calls, 0 to 1 (more with threads)."""
    return _frame(OP_COLUMNS, (_op(row, wall_ns) for row in rows))


def neffs(rows: Iterable[NeffRow]) -> pd.DataFrame:
    """One row a NEFF."""
    return _frame(NEFF_COLUMNS, map(_neff, rows))


def lines(rows: Iterable[LineRow]) -> pd.DataFrame:
    """One row a line of the user's source that did something."""
    return _frame(LINE_COLUMNS, map(_line, rows))


def modules(rows: Iterable[ModuleRow]) -> pd.DataFrame:
    """One row a module and phase; `module` is "" for what ran in none."""
    return _frame(MODULE_COLUMNS, map(_module, rows))


def compiles(recording: Recording) -> pd.DataFrame:
    """One row a compile or a load from disk, in time order; `at_s` counts from the start of the profile."""
    items = sorted(recording.compiles, key=lambda item: item.start_ns)
    return _frame(COMPILE_COLUMNS, (_compile(item, recording.start_ns) for item in items))


def fallbacks(recording: Recording) -> pd.DataFrame:
    """One row an op and reason, the dearest first."""
    items = sorted(recording.fallbacks, key=lambda item: -item.total_ns)
    return _frame(FALLBACK_COLUMNS, ([item.op, item.reason, item.calls, item.total_ns / 1e6] for item in items))


def copies(totals: Iterable[CopyTotal]) -> pd.DataFrame:
    """One row a direction."""
    return _frame(COPY_COLUMNS, ([item.direction, item.calls, item.total_ns / 1e6, item.bytes] for item in totals))


def memory(recording: Recording, place: Callable[[Where | None], str]) -> pd.DataFrame:
    """One row a change of HBM, in time order; `change` and `used` are bytes, `at_s` counts from the start of the profile."""
    changes = sorted(recording.memory_log.changes, key=lambda item: item.at_ns)
    rows = (
        [(item.at_ns - recording.start_ns) / 1e9, item.core, item.change, item.used, place(item.where)]
        for item in changes
    )
    return _frame(MEMORY_COLUMNS, rows)


def op_changes(rows: Iterable[OpChange], times: bool, medians: bool) -> pd.DataFrame:
    """One row an op in two reports; `times`, `medians`: whether those may be subtracted."""
    return _frame(OP_CHANGE_COLUMNS, (_op_change(row, times, medians) for row in rows))


def part_changes(rows: Iterable[PartChange], times: bool) -> pd.DataFrame:
    """One row a part of the wall time."""
    return _frame(
        PART_CHANGE_COLUMNS,
        (
            [row.name, row.before_ns / 1e9, row.after_ns / 1e9, _delta(row.before_ns, row.after_ns, times) / 1e3]
            for row in rows
        ),
    )


def _op_change(row: OpChange, times: bool, medians: bool) -> list[Any]:
    totals, warm = row.total_ns, row.median_ns
    return [
        *(row.op, *row.calls, row.made_before, row.made_after, *row.fallbacks),
        *(totals[0] / 1e6, totals[1] / 1e6, _delta(*totals, times)),
        *(_ms(warm[0]), _ms(warm[1]), _delta(*warm, medians)),
    ]


def _delta(before: float | None, after: float | None, comparable: bool) -> float:
    """Milliseconds; NaN where there is nothing to subtract."""
    return (after - before) / 1e6 if comparable and before is not None and after is not None else float("nan")


def _frame(columns: list[str], rows: Iterable[list[Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(rows), columns=columns)


def _op(row: OpRow, wall_ns: int) -> list[Any]:
    return [
        row.op,
        row.calls,
        row.cold_calls,
        row.neffs,
        *_stages(row.compile),
        row.memory_hits,
        row.disk_hits,
        row.device_ns / 1e6,
        _ms(row.device_median_ns),
        row.fallback_calls,
        row.fallback_ns / 1e6,
        row.host_calls,
        row.wide_calls,
        row.beyond_calls,
        row.bytes,
        row.total_ns / 1e6,
        row.total_ns / wall_ns if wall_ns else 0.0,
    ]


def _neff(row: NeffRow) -> list[Any]:
    return [
        row.neff,
        row.op,
        row.signature,
        row.source,
        *_stages(row.compile),
        row.calls,
        row.cold_calls,
        row.device_ns / 1e6,
        _ms(row.device_median_ns),
        row.bytes,
        row.cores,
    ]


def recompiles(rows: Iterable[Recompile], place: Callable[[Where | None], str]) -> pd.DataFrame:
    """One row a compile or load; `met` says whether the nearest signature was met here or earlier in the process."""
    return _frame(RECOMPILE_COLUMNS, (_recompile(row, place(row.where)) for row in rows))


def graphs(rows: Iterable[GraphCompile], place: Callable[[Where | None], str]) -> pd.DataFrame:
    """One row a function that torch.compile traced."""
    return _frame(GRAPH_COLUMNS, (_graph(row, place(row.place)) for row in rows))


def _graph(row: GraphCompile, where: str) -> list[Any]:
    failed = guard_failure(row)
    return [row.graph, row.function, where, failed.text, row.duration_ns / 1e9, failed.fix, row.reasons, row.failure]


def _recompile(row: Recompile, where: str) -> list[Any]:
    item, nearest = row.compile, "" if row.nearest is None else short_signature(row.nearest.signature)
    met = "" if row.nearest is None else "here" if row.same_span else "earlier"
    signature = short_signature(item.signature)
    cost_s = item.total_ns / 1e9
    return [item.op, where, changed(row), cost_s, item.source, nearest, met, signature, fix_for(row.changes)]


def _line(row: LineRow) -> list[Any]:
    return [
        *(row.place, row.line, row.text, row.function, row.calls, row.neffs, row.neffs_compiled, row.neffs_loaded),
        *(row.compile_ns / 1e9, row.load_ns / 1e9, row.device_ns / 1e6, row.fallback_calls, row.fallback_ns / 1e6),
        *(row.copies, row.copy_bytes, row.bytes, row.peak_bytes, row.total_ns / 1e6, row.ops),
    ]


def _module(row: ModuleRow) -> list[Any]:
    return [
        *(
            row.module or "",
            row.phase,
            row.calls,
            row.cold_calls,
            row.neffs,
            *_stages(row.compile),
            row.device_ns / 1e6,
        ),
        *(
            row.fallback_calls,
            row.fallback_ns / 1e6,
            row.copies,
            row.copy_bytes,
            row.bytes,
            row.total_ns / 1e6,
            row.ops,
        ),
    ]


def _compile(item: Compile, start_ns: int) -> list[Any]:
    at = (item.start_ns - start_ns) / 1e9
    return [item.op, item.neff, item.source, at, *_stages(CompileTime.of([item])), item.signature]


def _stages(time: CompileTime) -> list[float]:
    """Stages that the device does not tell are no numbers."""
    stages = [ns / 1e9 for ns in (time.trace_ns, time.lower_ns, time.xla_ns)]
    if time.whole_ns and not any(stages):
        stages = [float("nan")] * len(stages)
    return [time.made_ns / 1e9, *stages, time.load_ns / 1e9]


def _ms(ns: float | None) -> float:
    return float("nan") if ns is None else ns / 1e6
