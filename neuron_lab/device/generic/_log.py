"""What one session saw: rings of events, exact totals."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from neuron_lab.device.generic._frames import Callers
from neuron_lab.device.generic._surface import Graph


@dataclass(slots=True)
class Log:
    """A `neuron_lab.device.RawLog`. Empty are what the surface does not tell: starts of the compiler, 64-bit values, HBM by line."""

    ops: list[tuple[Any, ...]]
    totals: list[tuple[Any, ...]]
    compiles: list[tuple[Any, ...]]
    fallbacks: list[tuple[Any, ...]]
    copies: list[tuple[Any, ...]]
    copy_totals: list[tuple[Any, ...]]
    syncs: int
    dropped: int
    overhead_ns: int
    synchronised: bool = True
    startups: list[tuple[int, int]] = field(default_factory=list)
    wide: list[tuple[Any, ...]] = field(default_factory=list)
    memory: list[tuple[Any, ...]] = field(default_factory=list)
    peaks: list[tuple[Any, ...]] = field(default_factory=list)
    line_peaks: list[tuple[Any, ...]] = field(default_factory=list)
    ooms: list[tuple[Any, ...]] = field(default_factory=list)
    dropped_changes: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """One call of an op or a graph; the fields of `RawLog.ops`."""

    op: str
    kind: str
    neff: str | None
    core: int
    thread: int
    start_ns: int
    end_ns: int
    device_ns: int
    bytes: int
    cold: bool


@dataclass(frozen=True, slots=True)
class Move:
    """One copy."""

    direction: str
    core: int
    start_ns: int
    end_ns: int
    bytes: int


class Tally:
    """Counts for one session. `owner` is the thread that opened it."""

    def __init__(self, capacity: int, owner: int) -> None:
        self.compiles: list[tuple[Any, ...]] = []
        self.overhead_ns = 0
        self.owner = owner
        self._callers = Callers(owner)
        self._ops: deque[tuple[Any, ...]] = deque(maxlen=capacity)
        self._copies: deque[tuple[Any, ...]] = deque(maxlen=capacity)
        self._op_totals: dict[tuple[Any, ...], list[int]] = {}
        self._copy_totals: dict[tuple[Any, ...], list[int]] = {}

    def ran(self, run: Run) -> None:
        """Count a call; its caller is read off the stack."""
        by = self._callers.now()
        spent = run.end_ns - run.start_ns
        key = (run.op, run.kind, run.neff, run.core, *by)
        _add(self._op_totals, key, 1, int(run.cold), spent, run.device_ns, run.bytes)
        event = (run.op, run.kind, run.neff, run.core, run.thread, run.start_ns, run.end_ns, run.device_ns)
        self._ops.append((*event, run.bytes, run.cold, by.where))

    def moved(self, move: Move) -> None:
        """Count a copy."""
        by = self._callers.now()
        _add(self._copy_totals, (move.direction, *by), 1, move.end_ns - move.start_ns, move.bytes)
        self._copies.append((move.direction, move.core, move.start_ns, move.end_ns, move.bytes, by.where))

    def log(self, graphs: list[Graph]) -> Log:
        """Everything, with the graphs that were compiled meanwhile."""
        totals = [(*key[:4], *sums, *key[4:]) for key, sums in self._op_totals.items()]
        copy_totals = [(*key[:1], *sums, *key[1:]) for key, sums in self._copy_totals.items()]
        kept = len(self._ops) + len(self._copies)
        return Log(
            ops=list(self._ops),
            totals=totals,
            compiles=self.compiles + [_compile_of(graph) for graph in graphs],
            fallbacks=self._fallbacks(),
            copies=list(self._copies),
            copy_totals=copy_totals,
            syncs=sum(sums[0] for key, sums in self._copy_totals.items() if key[0] == "d2h"),
            dropped=sum(row[4] for row in totals) + sum(row[1] for row in copy_totals) - kept,
            overhead_ns=self.overhead_ns,
        )

    def _fallbacks(self) -> list[tuple[Any, ...]]:
        """The surface gives no reason: it is ""."""
        found: dict[tuple[str, str], list[int]] = {}
        for (op, kind, *_), (calls, _cold, spent, *_) in self._op_totals.items():
            if kind == "fallback":
                _add(found, (op, ""), calls, spent)
        return [(*key, *sums) for key, sums in found.items()]


def _compile_of(graph: Graph) -> tuple[Any, ...]:
    """One that took no time came from disk."""
    parts = graph.trace_ns, graph.lower_ns, graph.compile_ns
    start_ns = time.perf_counter_ns() - (time.time_ns() - graph.unix_ns)
    return f"graph::{graph.name}", graph.neff, "compiled" if any(parts) else "disk", start_ns, *parts, ""


def _add(sums: dict[tuple[Any, ...], list[int]], key: tuple[Any, ...], *values: int) -> None:
    row = sums.setdefault(key, [0] * len(values))
    for index, value in enumerate(values):
        row[index] += value
