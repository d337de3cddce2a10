"""A device that does what a test tells it, on a clock the test moves."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import pytest

from neuron_lab import _result, _session, _top
from neuron_lab import device as facade
from neuron_lab.device import CoreMemory, DeviceInfo
from neuron_lab.recording import Meter

MS = 1_000_000

Place = tuple[str, int, str, int]


@dataclass
class FakeClock:
    """Nanoseconds that pass only when told to."""

    now: int = 1_000 * MS

    def __call__(self) -> int:
        return self.now

    def advance(self, ms: float) -> int:
        self.now += round(ms * MS)
        return self.now


@dataclass
class FakeLog:
    """A RawLog."""

    ops: list[tuple[Any, ...]] = field(default_factory=list)
    totals: list[tuple[Any, ...]] = field(default_factory=list)
    compiles: list[tuple[Any, ...]] = field(default_factory=list)
    fallbacks: list[tuple[Any, ...]] = field(default_factory=list)
    copies: list[tuple[Any, ...]] = field(default_factory=list)
    copy_totals: list[tuple[Any, ...]] = field(default_factory=list)
    startups: list[tuple[int, int]] = field(default_factory=list)
    wide: list[tuple[Any, ...]] = field(default_factory=list)
    memory: list[tuple[Any, ...]] = field(default_factory=list)
    peaks: list[tuple[Any, ...]] = field(default_factory=list)
    line_peaks: list[tuple[Any, ...]] = field(default_factory=list)
    ooms: list[tuple[Any, ...]] = field(default_factory=list)
    syncs: int = 0
    dropped: int = 0
    dropped_changes: int = 0
    overhead_ns: int = 0
    synchronised: bool = False


@dataclass
class FakeDevice:
    """Runs pretended ops: each moves the clock and tells every open session."""

    clock: FakeClock = field(default_factory=FakeClock)
    capacity: int = 1_000_000
    overhead_ns: int = 0
    sessions: list[FakeSession] = field(default_factory=list)
    history: list[tuple[Any, ...]] = field(default_factory=list)
    memory: list[CoreMemory] = field(default_factory=list)
    busy: list[int] | None = None
    graphs: list[tuple[Any, ...]] = field(default_factory=list)
    where: Place | None = None
    scope: tuple[str | None, str] = (None, "")

    def within(self, module: str | None, phase: str = "forward") -> FakeDevice:
        """What follows runs in this module and phase."""
        self.scope = module, phase
        return self

    def at(
        self, line: int, *, file: str = "/project/train.py", function: str = "<module>", first: int = 1
    ) -> FakeDevice:
        """What follows is done by this line of the user's."""
        self.where = (file, first, function, line)
        return self

    def hook(self) -> FakeSession:
        return FakeSession(self)

    def run(
        self,
        op: str = "aten::add.Tensor",
        *,
        device_ms: float = 1.0,
        host_ms: float = 0.0,
        compile_ms: tuple[float, float, float] | None = None,
        load_ms: float | None = None,
        neff: str | None = None,
        core: int = 0,
        nbytes: int = 0,
        thread: int = 1,
        signature: str | None = None,
        wide: tuple[bool, bool, int] | None = None,
    ) -> None:
        """A compiled op; `compile_ms` = (trace, lower, compile) makes it cold, `load_ms` a hit on disk. A graph is made before its call.

        `wide` = (integers, floats, calls beyond 32 bits) of 64-bit values.
        """
        key = neff or f"{abs(hash(op)):032x}"[:32]
        start = self.clock.now
        if compile_ms is not None or load_ms is not None:
            trace, lower, build = (round(ms * MS) for ms in compile_ms or (0, 0, load_ms or 0))
            source = "disk" if compile_ms is None else "compiled"
            signature = signature or f"{op}(float32[8, 4]) default=float32"
            made = (op, key, source, start, trace, lower, build, signature)
            self.history.append(made)
            self._tell("compiles", made)
            self.clock.advance(sum(compile_ms or (load_ms or 0,)))
            start = self.clock.now if op.startswith("graph::") else start
        self.clock.advance(host_ms)
        end = self.clock.advance(device_ms)
        cold = compile_ms is not None or load_ms is not None
        if wide is not None:
            self._tell("wide", (op, *wide[:2], 1, wide[2], self._line()))
        self._tell(
            "ops", (op, "compiled", key, core, thread, start, end, round(device_ms * MS), nbytes, cold, self._line())
        )

    def fall_back(self, op: str, ms: float, reason: str, *, core: int = 0, nbytes: int = 0) -> None:
        start = self.clock.now
        end = self.clock.advance(ms)
        self._tell("ops", (op, "fallback", None, core, 1, start, end, end - start, nbytes, False, self._line()))
        self._tell("fallbacks", (op, reason, 1, end - start))

    def host(self, op: str, ms: float) -> None:
        start = self.clock.now
        end = self.clock.advance(ms)
        self._tell("ops", (op, "host", None, 0, 1, start, end, end - start, 0, False, self._line()))

    def start_compiler(self, ms: float) -> None:
        start = self.clock.now
        self._tell("startups", (start, self.clock.advance(ms)))

    def svd_that_starts_the_compiler(self, startup_ms: float, ms: float) -> None:
        """A fallback that had to be tried first, by a compiler that had to be started."""
        begun = self.clock.now
        self.start_compiler(startup_ms)
        end = self.clock.advance(ms)
        self._tell("ops", ("aten::svd", "fallback", None, 0, 1, begun, end, end - begun, 0, False, self._line()))
        self._tell("fallbacks", ("aten::svd", "no lowering", 1, end - begun))

    def copy(self, direction: str, ms: float, nbytes: int) -> None:
        start = self.clock.now
        self._tell("copies", (direction, 0, start, self.clock.advance(ms), nbytes, self._line()))

    def _line(self) -> Place | None:
        """Where a test put it, else the line of the notebook cell that called."""
        frame = None if self.where else inspect.currentframe()
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith("<ipython-input") or "ipykernel_" in code.co_filename:
                return code.co_filename, code.co_firstlineno, code.co_name, frame.f_lineno
            frame = frame.f_back
        return self.where

    def _tell(self, what: str, event: tuple[Any, ...]) -> None:
        for session in self.sessions:
            session.take(what, event)


class FakeSession:
    """A device.Hook on a FakeDevice: one session, as the emulator's."""

    def __init__(self, device: FakeDevice) -> None:
        self.device = device
        self.log = FakeLog(overhead_ns=device.overhead_ns)
        self._totals: dict[tuple[Any, ...], list[int]] = {}
        self._copies: dict[tuple[Any, ...], list[int]] = {}
        self._fallbacks: dict[tuple[str, str], list[int]] = {}

    def start(self) -> None:
        self.device.sessions.append(self)

    def stop(self) -> FakeLog:
        self.device.sessions.remove(self)
        self.log.totals = [(*key[:4], *sums, *key[4:]) for key, sums in self._totals.items()]
        self.log.copy_totals = [(*key[:1], *sums, *key[1:]) for key, sums in self._copies.items()]
        self.log.fallbacks = [(*key, *sums) for key, sums in self._fallbacks.items()]
        return self.log

    def take(self, what: str, event: tuple[Any, ...]) -> None:
        if what in ("compiles", "wide"):
            getattr(self.log, what).append(event)
        elif what == "startups":
            self.log.startups.append((event[0], event[1]))
        elif what == "fallbacks":
            _add(self._fallbacks, event[:2], event[2:])
        elif what == "copies":
            direction, _, start, end, nbytes, where = event
            _add(self._copies, (direction, where, *self.device.scope), (1, end - start, nbytes))
            self._append(self.log.copies, event)
        else:
            op, kind, neff, core, _, start, end, device_ns, nbytes, cold, where = event
            _add(
                self._totals,
                (op, kind, neff, core, where, *self.device.scope),
                (1, int(cold), end - start, device_ns, nbytes),
            )
            self._append(self.log.ops, event)

    def _append(self, ring: list[tuple[Any, ...]], event: tuple[Any, ...]) -> None:
        ring.append(event)
        if len(ring) > self.device.capacity:
            del ring[0]
            self.log.dropped += 1


def serve(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put `device` behind everything above the device facade, and start with no last result."""
    info = DeviceInfo("emulator", "emulated trn2.3xlarge", "no Trainium here", 4, {"torch": "2.13.0"})
    monkeypatch.setattr(facade, "hook", device.hook)
    monkeypatch.setattr(facade, "resolve", lambda: info)
    monkeypatch.setattr(facade, "compile_history", lambda: device.history)
    monkeypatch.setattr(facade, "core_memory", lambda: tuple(device.memory))
    monkeypatch.setattr(facade, "busy_ns", lambda: None if device.busy is None else tuple(device.busy))
    monkeypatch.setattr(facade, "late_variables", tuple)
    monkeypatch.setattr(facade, "now_ns", device.clock)
    monkeypatch.setattr(facade, "graph_compiles", lambda since, until: (device.graphs, False))
    monkeypatch.setattr(_result, "_last", None)
    monkeypatch.setattr(_top, "_meter", Meter(lambda: facade.busy_ns(), device.clock))
    monkeypatch.setattr(_session, "_log", _session._Log())


def _add(sums: dict[Any, list[int]], key: Any, values: tuple[int, ...]) -> None:
    row = sums.setdefault(key, [0] * len(values))
    for index, value in enumerate(values):
        row[index] += value
