"""A finished recording."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias, TypeVar

from neuron_lab.device import LateVariable, RawLog
from neuron_lab.recording._collector import uncollected
from neuron_lab.recording._environment import Environment
from neuron_lab.recording._events import (
    Compile,
    Copy,
    CopyTotal,
    Fallback,
    GraphCompile,
    Held,
    LinePeak,
    MemoryChange,
    MemoryLog,
    MemoryPeak,
    OpCall,
    OpTotal,
    OutOfMemory,
    Where,
    WideTotal,
)
from neuron_lab.recording._holdings import Kept
from neuron_lab.recording._sources import Source

_Record = TypeVar("_Record")
_Event = TypeVar("_Event", OpCall, Copy, MemoryChange)

# Ops that get a layer's own tensors: their signatures tell the sizes of a model, whatever a span does with them.
LAYERS = frozenset(
    f"aten::{name}"
    for name in (
        "linear linear_backward addmm convolution convolution_backward embedding native_layer_norm native_batch_norm"
    ).split()
)
# Of each op, the newest signatures that a new one is compared with.
_EARLIER = 128


@dataclass(frozen=True, slots=True)
class CorePeak:
    """HBM of one core in bytes: the highest so far when the span began and when it ended, what was held then, and the limit."""

    core: int
    peak_before: int
    used: int
    peak: int
    limit: int


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything one profiled span left behind; immutable.

    `label` says which span ("In[12]"). `start_ns`, `end_ns` bound it on the `time.perf_counter_ns` clock. `error` is the name of the
    exception that cut the span short, None when it ran to its end. `ops` and `copies` are the newest events, `dropped` counts
    those that no longer fitted; every other field is exact. `startups` are (start_ns, end_ns) of starting the compiler itself,
    which the totals leave out.

    `earlier` are compiles of this process before the span, of the ops in it and of LAYERS; `sources` the user's lines that did something.
    `late_variables` came too late to change anything. `reads_clock`: the program in the span takes the time itself. `unix_ns` is
    when the span began, 0 when that is not known. `kept` is what only the notebook's history kept alive at the end of a cell; it is
    looked up when HBM ran out or grew. `synchronised`: every op was waited for, one at a time. An op's device time then holds its
    dispatch, an eager compile's whole time is its `compile_ns`, and a fallback's reason is "". `stopped_at` is the innermost line of
    the user's that `error` came out of. `graphs` are the functions that torch.compile traced; `graphs_lost`: there were more, of
    which Dynamo keeps no record.

    Every field is saved to a file by its name and type: a new one needs a default, for files that were written before it.
    """

    label: str
    start_ns: int
    end_ns: int
    error: str | None
    environment: Environment
    ops: tuple[OpCall, ...]
    copies: tuple[Copy, ...]
    op_totals: tuple[OpTotal, ...]
    copy_totals: tuple[CopyTotal, ...]
    compiles: tuple[Compile, ...]
    fallbacks: tuple[Fallback, ...]
    startups: tuple[tuple[int, int], ...]
    syncs: int
    dropped: int
    overhead_ns: int
    earlier: tuple[Compile, ...] = ()
    sources: tuple[Source, ...] = ()
    memory: tuple[CorePeak, ...] = ()
    late_variables: tuple[LateVariable, ...] = ()
    reads_clock: bool = False
    wide: tuple[WideTotal, ...] = ()
    memory_log: MemoryLog = field(default_factory=MemoryLog)
    kept: tuple[Kept, ...] = ()
    unix_ns: int = 0
    synchronised: bool = False
    stopped_at: Where | None = None
    graphs: tuple[GraphCompile, ...] = ()
    graphs_lost: bool = False

    @property
    def wall_ns(self) -> int:
        """Wall time of the span."""
        return self.end_ns - self.start_ns

    @property
    def idle_ns(self) -> int:
        """From the last event on the device to the end of the span; 0 when there was none."""
        ends = [*(call.end_ns for call in self.ops), *(item.end_ns for item in self.copies)]
        return self.end_ns - max(ends, default=self.end_ns)

    @property
    def partial(self) -> bool:
        """True when an exception cut the span short."""
        return self.error is not None


def from_raw(
    raw: RawLog,
    *,
    label: str,
    start_ns: int,
    end_ns: int,
    error: str | None,
    environment: Environment,
    overhead_ns: int = 0,
) -> Recording:
    """Type what a hook handed back; `overhead_ns` is added to the hook's own."""
    starts = _startups_by_call(raw)
    return Recording(
        label=label,
        start_ns=start_ns,
        end_ns=end_ns,
        error=error,
        environment=environment,
        ops=_many(OpCall, raw.ops),
        copies=_many(Copy, raw.copies),
        op_totals=_without(placed(OpTotal, raw.totals), starts),
        copy_totals=placed(CopyTotal, raw.copy_totals),
        compiles=_records(Compile, raw.compiles),
        fallbacks=tuple(
            Fallback(op, reason, calls, spent - sum(ns for call, ns in starts.items() if call[:2] == (op, "fallback")))
            for op, reason, calls, spent in raw.fallbacks
        ),
        startups=tuple(raw.startups),
        syncs=raw.syncs,
        dropped=raw.dropped,
        overhead_ns=raw.overhead_ns + overhead_ns,
        wide=placed(WideTotal, raw.wide),
        memory_log=_memory_log(raw),
        synchronised=raw.synchronised,
    )


def _memory_log(raw: RawLog) -> MemoryLog:
    return MemoryLog(
        changes=_many(MemoryChange, raw.memory),
        peaks=tuple(_peaks(raw)),
        line_peaks=placed(LinePeak, raw.line_peaks),
        ooms=tuple(
            OutOfMemory(core, at, asked, used, limit, _where(where), _held(held))
            for core, at, asked, used, limit, where, held in raw.ooms
        ),
        dropped=raw.dropped_changes,
    )


def _peaks(raw: RawLog) -> Iterator[MemoryPeak]:
    """What was refused tells the use at that time, and may be all that is known of what was held from before."""
    refused = {core: (at, used, held) for core, at, _, used, _, _, held in sorted(raw.ooms, key=lambda oom: oom[3])}
    for core, at, used, held in raw.peaks:
        if core in refused and refused[core][1] > used:
            at, used, held = refused[core]
        yield MemoryPeak(core, at, used, _held(held))


def _held(rows: Iterable[tuple[Any, ...]]) -> tuple[Held, ...]:
    held = (Held(_where(where), nbytes, blocks) for where, nbytes, blocks in rows)
    return tuple(sorted(held, key=lambda item: -item.bytes))


def _where(place: tuple[Any, ...] | None) -> Where | None:
    return Where._make(place) if place else None


def earlier_compiles(history: Iterable[tuple[Any, ...]], recording: Recording) -> tuple[Compile, ...]:
    """Of a process's compiles, those before the span, of its ops and of layers, the newest of each op."""
    ops = LAYERS | {total.op for total in recording.op_totals} | {item.op for item in recording.compiles}
    used = {total.neff for total in recording.op_totals}
    kept: list[Compile] = []
    counts: Counter[str] = Counter()
    for row in reversed(list(history)):
        item = Compile(*row)
        if item.start_ns >= recording.start_ns or item.op not in ops:
            continue
        counts[item.op] += 1
        if counts[item.op] <= _EARLIER or item.neff in used:
            kept.append(item)
    return tuple(reversed(kept))


_Call: TypeAlias = tuple[str, str, str | None, int, Where | None]


def _startups_by_call(raw: RawLog) -> dict[_Call, int]:
    """Nanoseconds that calls waited for the compiler to start: no op's own time, whichever op came first."""
    found: dict[_Call, int] = {}
    for start, end in raw.startups:
        around = [row for row in raw.ops if row[5] <= start and end <= row[6]]
        if around:
            row = min(around, key=lambda row: row[6] - row[5])
            call = (row[0], row[1], row[2], row[3], _where(row[10]) if len(row) > 10 else None)
            found[call] = found.get(call, 0) + end - start
    return found


def _without(totals: tuple[OpTotal, ...], starts: dict[_Call, int]) -> tuple[OpTotal, ...]:
    """A call may have run in several modules: the one that waited is the longest."""
    found = list(totals)
    for call, waited in starts.items():
        same = [i for i, t in enumerate(found) if (t.op, t.kind, t.neff, t.core, t.where) == call]
        if same:
            longest = max(same, key=lambda i: found[i].total_ns)
            found[longest] = replace(found[longest], total_ns=max(0, found[longest].total_ns - waited))
    return tuple(found)


def placed(make: Callable[..., _Record], rows: Iterable[tuple[Any, ...]]) -> tuple[_Record, ...]:
    """Records with a line: a row may end before it."""
    at = [item.name for item in fields(make)].index("where")  # type: ignore[arg-type]
    return tuple(make(*row[:at], _where(row[at]) if len(row) > at else None, *row[at + 1 :]) for row in rows)


def _records(make: Callable[..., _Record], rows: Iterable[tuple[Any, ...]]) -> tuple[_Record, ...]:
    return tuple(make(*row) for row in rows)


def _many(kind: type[_Event], rows: Iterable[tuple[Any, ...]]) -> tuple[_Event, ...]:
    """Events of a named tuple with a line at its end, where a row may end before; the same line is one object for all of them."""
    last: int = len(kind._fields) - 1
    places: dict[Any, Where | None] = {None: None}

    def new_place(row: tuple[Any, ...]) -> Where | None:
        return places.setdefault(row[last], Where._make(row[last])) if len(row) > last else None

    def fields_of(row: tuple[Any, ...]) -> tuple[Any, ...]:
        known = len(row) > last and row[last] in places
        return (*row[:last], places[row[last]] if known else new_place(row))

    make = functools.partial(tuple.__new__, kind)  # `kind._make` is a Python function and takes half as long again
    with uncollected():
        return tuple(map(make, map(fields_of, rows)))
