"""The fast hook: what the device did between `start` and `stop`, with next to no cost for the program."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from neuron_lab.emulator import clock

__all__ = [
    "Compile",
    "Counters",
    "Hook",
    "RawLog",
    "compiled",
    "compiling",
    "counters",
    "history",
    "history_set_aside",
    "hook",
    "observers",
    "started",
    "watchers",
]

_CAPACITY = 1 << 17  # events kept per session: about 10 MB


class Compile(NamedTuple):
    """One NEFF that was made or read; times in nanoseconds, start on the `time.perf_counter_ns` clock."""

    op: str
    neff: str
    source: str
    """ "compiled" or "disk"; for "disk" the whole read is in `compile_ns`."""
    start_ns: int
    trace_ns: int
    lower_ns: int
    compile_ns: int
    signature: str


@dataclass(frozen=True, slots=True)
class RawLog:
    """What a session saw, as tuples. Times are nanoseconds on the `time.perf_counter_ns` clock."""

    ops: list[tuple[Any, ...]]
    """(op, kind, neff, core, thread, start_ns, end_ns, device_ns, bytes, cold, where): a ring, the newest are kept.

    `where` is the user's line, (file, first line of the function, function, line), or None.
    """
    totals: list[tuple[Any, ...]]
    """(op, kind, neff, core, calls, cold_calls, total_ns, device_ns, bytes, where, module, phase): exact, a row for each line,
    module and phase that called.

    `module` is the path of the innermost module that ran, "Net.layers.0", or None; `phase` "forward", "backward" or "optimizer".
    """
    compiles: list[tuple[Any, ...]]
    """The fields of `Compile`."""
    fallbacks: list[tuple[Any, ...]]
    """(op, reason, calls, total_ns)."""
    copies: list[tuple[Any, ...]]
    """(direction, core, start_ns, end_ns, bytes, where): a ring."""
    copy_totals: list[tuple[Any, ...]]
    """(direction, calls, total_ns, bytes, where, module, phase)."""
    startups: list[tuple[int, int]]
    """(start_ns, end_ns) of starting the compiler itself: once in a process."""
    wide: list[tuple[Any, ...]]
    """(op, integers, floats, calls, beyond, where): exact. Compiled calls with 64-bit integers or floats, `beyond` those in which a
    value does not fit 32 bits."""
    memory: list[tuple[Any, ...]]
    """(core, at_ns, change, used, where): HBM taken or given back, a ring; `used` is afterwards, `where` the line that took it."""
    peaks: list[tuple[Any, ...]]
    """(core, at_ns, used, [(where, bytes, blocks), ...]): the highest use and what of it the session saw taken."""
    line_peaks: list[tuple[Any, ...]]
    """(core, used, where): the highest use after this line took something."""
    ooms: list[tuple[Any, ...]]
    """(core, at_ns, asked, used, limit, where, [(where, bytes, blocks), ...]): the first that did not fit."""
    syncs: int
    dropped: int
    """Of `ops` and `copies`."""
    dropped_changes: int
    """Of `memory`."""
    overhead_ns: int
    """Estimated: the cost of one event, measured when the session starts, times the events. And, measured, looking at 64-bit values."""
    synchronised: bool = False
    """Never: nothing is waited for that the program did not wait for."""


@dataclass(slots=True)
class Counters:
    """Since the process started or the counts were cleared."""

    compiled: int = 0
    from_disk: int = 0
    compile_ns: int = 0
    executable_bytes: int = 0
    """Of the executables that were made or read."""


counters = Counters()
_history: deque[Compile] = deque(maxlen=1 << 14)
_lock = threading.Lock()
_open: list[Hook] = []
observers: list[Callable[[Compile, int], None]] = []
"""Each is called with a NEFF made or read and the bytes of its executable, on the compile thread."""

watchers: list[tuple[Callable[[str], None], Callable[[str, bool], None]]] = []
"""Pairs, called on the compile thread with the op or graph: before it is compiled, and after, then also whether a NEFF was made."""


def compiled(event: Compile, executable_bytes: int) -> None:
    """Called by dispatch, on the compile thread, for every NEFF made or read."""
    with _lock:
        _history.append(event)
        counters.executable_bytes += executable_bytes
        if event.source == "disk":
            counters.from_disk += 1
        else:
            counters.compiled += 1
            counters.compile_ns += event.trace_ns + event.lower_ns + event.compile_ns
        for session in _open:
            session.compiles.append(event)
    for observe in observers:
        observe(event, executable_bytes)


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Around a compile, on the compile thread: tells the watchers of its beginning and end."""
    told = list(watchers)
    for begins, _ in told:
        begins(name)
    made = False
    try:
        yield
        made = True
    finally:
        for _, ends in told:
            ends(name, made)


def started(start_ns: int, end_ns: int) -> None:
    """Called by dispatch when a part of the compiler has been started."""
    with _lock:
        for session in _open:
            session.startups.append((start_ns, end_ns))


def history() -> list[Compile]:
    """The newest NEFFs made or read by this process, oldest first."""
    with _lock:
        return list(_history)


@contextmanager
def history_set_aside() -> Iterator[None]:
    """An empty history for a while."""
    global _history
    with _lock:
        before, _history = _history, deque(maxlen=_history.maxlen)
    try:
        yield
    finally:
        with _lock:
            _history = before


def hook() -> Hook:
    """A new session, not yet started."""
    return Hook()


class Hook:
    """One recording session. Several may be open at once; each sees what happens between its own `start` and `stop`."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self.compiles: list[Compile] = []
        self.startups: list[tuple[int, int]] = []
        self._capacity = capacity
        self._session: Any = None

    def start(self) -> None:
        """Begin to record. Raises RuntimeError when this session is already open."""
        if self._session is not None:
            raise RuntimeError("this recording session is already open")
        from neuron_lab.emulator import shim

        self.compiles, self.startups = [], []
        with _lock:
            _open.append(self)
        self._session = shim().open_session(self._capacity)

    def stop(self) -> RawLog:
        """End the session. Raises RuntimeError when it is not open."""
        if self._session is None:
            raise RuntimeError("this recording session is not open")
        from neuron_lab.emulator import shim

        shim().close_session(self._session)
        with _lock:
            _open.remove(self)
        raw = shim().drain(self._session)
        self._session = None
        fallbacks = _fallbacks(raw["totals"])
        events = sum(row[4] for row in raw["totals"]) + sum(row[1] for row in raw["copy_totals"])
        return RawLog(
            ops=[_cold_if_compiled(row, 9) for row in raw["ops"]],
            totals=[_cold_if_compiled(row, 5)[:-1] for row in raw["totals"]],
            compiles=_as_called(self.compiles, raw["totals"]),
            fallbacks=fallbacks,
            copies=raw["copies"],
            copy_totals=raw["copy_totals"],
            startups=list(self.startups),
            **{name: raw[name] for name in ("wide", "memory", "peaks", "line_peaks", "ooms")},
            **{name: raw[name] for name in ("syncs", "dropped", "dropped_changes")},
            overhead_ns=int(events * _event_ns()) + raw["check_ns"],
        )


def _cold_if_compiled(row: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    """The shim also calls a call cold that only found out that there is nothing to compile."""
    return row if not row[at] or row[1] == "compiled" else (*row[:at], type(row[at])(0), *row[at + 1 :])


def _as_called(compiles: list[Compile], totals: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Each under the op whose call waited for it: dropout runs the NEFF of its backward, but it is dropout that the program called."""
    waited: dict[str, list[str]] = {}
    for op, _kind, neff, _core, _calls, cold, *_ in totals:
        if cold:
            waited.setdefault(neff, []).append(op)
    return [
        event if event.op in (ops := waited.get(event.neff, [event.op])) else event._replace(op=ops[0])
        for event in compiles
    ]


def _fallbacks(totals: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    calls: Counter[tuple[str, str]] = Counter()
    spent: Counter[tuple[str, str]] = Counter()
    for op, kind, _neff, _core, count, _cold, total_ns, *_, reason in totals:
        if kind == "fallback":
            calls[op, reason] += count
            spent[op, reason] += total_ns
    return [(op, reason, count, spent[op, reason]) for (op, reason), count in calls.items()]


_measured_ns: float | None = None


def _event_ns() -> float:
    """Nanoseconds that recording adds to one event, measured once on this machine."""
    global _measured_ns
    if _measured_ns is None:
        from neuron_lab.emulator import shim

        rounds = 2000
        started = clock.now_ns()
        shim().record_idle_events(rounds)
        _measured_ns = (clock.now_ns() - started) / rounds
    return _measured_ns
