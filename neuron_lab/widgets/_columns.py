"""A recording as columns: what the browser draws and adds up, in as few bytes as possible.

One table of events (op calls, copies, compiles, loads, starts of the compiler) and one of HBM changes, both in time order. Times are
whole ticks from the start of the span; the length of a tick in nanoseconds stands beside them.
"""

from __future__ import annotations

import gzip
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from neuron_lab.recording import Recording, Where, uncollected
from neuron_lab.report import Report, compile_lines

_Array: TypeAlias = npt.NDArray[Any]

KINDS = ("compiled", "fallback", "host", "empty", "copy", "compile", "load", "startup")
_KIND = {name: number for number, name in enumerate(KINDS)}
_OPS = dict(list(_KIND.items())[:4])
_UNSIGNED = 2**32 - 1
_DETAIL = 240


def _looked_up(numbers: Mapping[Any, int], values: Sequence[Hashable]) -> npt.NDArray[np.uint32]:
    return np.fromiter(map(numbers.__getitem__, values), dtype=np.uint32, count=len(values))


def _narrow(array: _Array) -> _Array:
    """The same numbers in the smallest type that the browser has an array of."""
    if array.size and array.min() < 0:
        return array.astype(np.float64)
    most = int(array.max(initial=0))
    return array.astype(
        next((kind for kind in (np.uint8, np.uint16, np.uint32) if most <= np.iinfo(kind).max), np.float64)
    )


class Numbers(dict[Any, int]):
    """Numbers for values in the order they are met, from `first` on."""

    def __init__(self, first: int = 0) -> None:
        super().__init__()
        self._first = first

    def __missing__(self, value: Any) -> int:
        self[value] = number = len(self) + self._first
        return number

    def of(self, values: Sequence[Hashable]) -> npt.NDArray[np.uint32]:
        return _looked_up(self, values)


@dataclass(frozen=True, slots=True)
class Columns:
    """`packed` is gzip over all arrays, one after the other; `layout` says which they are. The rest are the values that numbers stand for."""

    packed: bytes
    layout: tuple[dict[str, Any], ...]
    tick_ns: float
    labels: tuple[str, ...]
    places: tuple[tuple[str, int], ...]
    cores: tuple[int, ...]
    threads: int
    details: tuple[str, ...]


def columns(report: Report) -> Columns:
    """Every event the recording kept, and every change of HBM."""
    with uncollected():
        return _Builder(report).build()


class _Builder:
    def __init__(self, report: Report) -> None:
        self.recording: Recording = report.recording
        self.tick_ns = max(1.0, self.recording.wall_ns / _UNSIGNED)
        self.labels, self.cores, self.threads = Numbers(), Numbers(), Numbers()
        self.places = Numbers(first=1)  # 0 is no line of the user's
        self.details: list[str] = []
        self._place_of: dict[Where | None, int] = {None: 0}

    def build(self) -> Columns:
        parts = [self._ops(), self._copies(), *self._compiling()]
        events = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        order = np.argsort(events["start"], kind="stable")
        arrays = [("events", name, array[order]) for name, array in events.items()]
        arrays += [("memory", name, array) for name, array in self._memory().items()]
        layout, chunks = [], []
        for table, name, array in arrays:
            delta = name == "start"  # ascending: differences are small numbers
            stored = _narrow(np.diff(array, prepend=array.dtype.type(0)) if delta else array)
            layout.append(
                {"table": table, "name": name, "type": stored.dtype.str[1:], "length": stored.size, "delta": delta}
            )
            chunks.append(stored.astype(stored.dtype.newbyteorder("<"), copy=False).tobytes())
        return Columns(
            packed=gzip.compress(b"".join(chunks), compresslevel=1, mtime=0),
            layout=tuple(layout),
            tick_ns=self.tick_ns,
            labels=tuple(self.labels),
            places=tuple(self.places),
            cores=tuple(self.cores),
            threads=len(self.threads),
            details=tuple(self.details),
        )

    def _ops(self) -> dict[str, _Array]:
        rows: Sequence[Sequence[Any]] = list(zip(*self.recording.ops, strict=True)) or [()] * 11
        op, kind, _, core, thread, start, end, device, nbytes, cold, where = rows
        return self._table(
            start=start,
            end=end,
            device=device,
            nbytes=nbytes,
            labels=op,
            where=where,
            cores=core,
            kind=_looked_up({name: _OPS.get(name, _KIND["host"]) for name in set(kind)}, kind),
            cold=np.array(cold, dtype=np.uint32),
            thread=self.threads.of(thread),
        )

    def _copies(self) -> dict[str, _Array]:
        rows: Sequence[Sequence[Any]] = list(zip(*self.recording.copies, strict=True)) or [()] * 6
        direction, core, start, end, nbytes, where = rows
        return self._table(
            start=start,
            end=end,
            nbytes=nbytes,
            labels=[f"copy {name}" for name in direction],
            where=where,
            cores=core,
            kind=np.full(len(start), _KIND["copy"], dtype=np.uint32),
        )

    def _compiling(self) -> Iterable[dict[str, _Array]]:
        items, waited = self.recording.compiles, compile_lines(self.recording)
        first = len(self.details)
        self.details += [item.signature[:_DETAIL] for item in items]
        yield self._table(
            start=[item.start_ns for item in items],
            end=[item.start_ns + item.total_ns for item in items],
            labels=[item.op for item in items],
            where=[waited.get(item.neff) for item in items],
            cores=[],
            kind=np.array([_KIND["load" if item.source == "disk" else "compile"] for item in items], dtype=np.uint32),
            detail=np.arange(first + 1, first + 1 + len(items), dtype=np.uint32),
        )
        starts = self.recording.startups
        yield self._table(
            start=[start for start, _ in starts],
            end=[end for _, end in starts],
            labels=["start the compiler"] * len(starts),
            where=[None] * len(starts),
            cores=[],
            kind=np.full(len(starts), _KIND["startup"], dtype=np.uint32),
        )

    def _table(
        self,
        *,
        start: Sequence[int],
        end: Sequence[int],
        labels: Sequence[str],
        where: Sequence[Where | None],
        cores: Sequence[int],
        kind: _Array,
        device: Sequence[int] = (),
        nbytes: Sequence[int] = (),
        **known: _Array,
    ) -> dict[str, _Array]:
        begun = self._ticks(start)
        nothing = np.zeros(len(start), dtype=np.uint32)
        return {
            "start": begun,
            "duration": np.maximum(self._ticks(end), begun) - begun,
            "device": self._spans(device) if device else nothing,
            "bytes": np.array(nbytes, dtype=np.int64) if nbytes else nothing,
            "label": self.labels.of(labels),
            "line": self._lines(where),
            "core": self.cores.of(cores) if cores else nothing,
            "kind": kind,
            "cold": known.get("cold", nothing),
            "thread": known.get("thread", nothing),
            "detail": known.get("detail", nothing),
        }

    def _memory(self) -> dict[str, _Array]:
        rows: Sequence[Sequence[Any]] = list(zip(*self.recording.memory_log.changes, strict=True)) or [()] * 5
        core, at, change, used, where = rows
        table: dict[str, _Array] = {
            "start": self._ticks(at),
            "change": np.array(change, dtype=np.int64),
            "used": np.array(used, dtype=np.int64),
            "line": self._lines(where),
            "core": self.cores.of(core),
        }
        order = np.argsort(table["start"], kind="stable")
        return {name: array[order] for name, array in table.items()}

    def _ticks(self, times: Sequence[int]) -> npt.NDArray[np.uint32]:
        """From the start of the span, cut to it."""
        begin, end = self.recording.start_ns, self.recording.end_ns
        since = np.array(times, dtype=np.int64).clip(begin, max(begin, end)) - begin
        return (since / self.tick_ns).astype(np.uint32)

    def _spans(self, lengths: Sequence[int]) -> npt.NDArray[np.uint32]:
        return (np.array(lengths, dtype=np.int64).clip(0, self.recording.wall_ns) / self.tick_ns).astype(np.uint32)

    def _lines(self, where: Sequence[Where | None]) -> npt.NDArray[np.uint32]:
        """The same line is one number, whatever function it was called from."""
        for place in dict.fromkeys(where):
            if place is not None and place not in self._place_of:
                self._place_of[place] = self.places[place.file, place.line]
        return _looked_up(self._place_of, where)
