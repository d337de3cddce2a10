"""Where the wall time went: parts that add up to it exactly.

Threads and cores overlap, and a copy may happen inside a fallback, so sums of durations can count an instant twice. Each instant of
the wall is therefore given to the first of start-up, compile, load, CPU fallback, copies, device that was going on somewhere;
what is left is Python and the rest. Inside a call the executable is taken to have run last, which is how an eager call works.

When the event ring overflowed, the newest events give the overlap and the exact totals give the size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from neuron_lab.recording import Recording

PartName: TypeAlias = Literal["compile", "load", "startup", "device", "fallback", "copies", "rest"]
_PRIORITY: tuple[PartName, ...] = ("startup", "compile", "load", "fallback", "copies", "device")
_Times: TypeAlias = npt.NDArray[np.int64]


class Part(NamedTuple):
    """One part of the split, in nanoseconds."""

    name: PartName
    ns: int


@dataclass(frozen=True, slots=True)
class Split:
    """The parts in nanoseconds: making NEFFs, reading them from disk, starting the compiler itself, and so on.

    `estimated`: the event ring overflowed and the parts were scaled from exact totals.
    """

    compile_ns: int
    load_ns: int
    startup_ns: int
    device_ns: int
    fallback_ns: int
    copies_ns: int
    rest_ns: int
    estimated: bool = False

    @property
    def wall_ns(self) -> int:
        return sum(part.ns for part in self.parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        """In the order they are shown."""
        return (
            Part("compile", self.compile_ns),
            Part("load", self.load_ns),
            Part("startup", self.startup_ns),
            Part("device", self.device_ns),
            Part("fallback", self.fallback_ns),
            Part("copies", self.copies_ns),
            Part("rest", self.rest_ns),
        )


def split(recording: Recording) -> Split:
    """Divide the wall time of `recording`."""
    # A damaged file may have an end before its start: that took no time.
    spans = {name: (starts, np.maximum(starts, ends)) for name, (starts, ends) in _spans(recording).items()}
    parts = _exclusive(spans, recording.start_ns, recording.end_ns)
    if recording.dropped:
        parts = _scaled(parts, spans, _exact_totals(recording), recording.wall_ns)
    rest = recording.wall_ns - sum(parts.values())
    return Split(
        compile_ns=parts["compile"],
        load_ns=parts["load"],
        startup_ns=parts["startup"],
        device_ns=parts["device"],
        fallback_ns=parts["fallback"],
        copies_ns=parts["copies"],
        rest_ns=rest,
        estimated=recording.dropped > 0,
    )


def _spans(recording: Recording) -> dict[PartName, tuple[_Times, _Times]]:
    """Start and end of every known interval of each part."""
    made = [item for item in recording.compiles if item.source != "disk"]
    loaded = [item for item in recording.compiles if item.source == "disk"]
    fallbacks = [call for call in recording.ops if call.kind == "fallback"]
    compiled = [call for call in recording.ops if call.kind == "compiled"]
    return {
        "startup": (
            _times(start for start, _ in recording.startups),
            _times(end for _, end in recording.startups),
        ),
        "compile": (_times(c.start_ns for c in made), _times(c.start_ns + c.total_ns for c in made)),
        "load": (_times(c.start_ns for c in loaded), _times(c.start_ns + c.total_ns for c in loaded)),
        "fallback": (_times(c.start_ns for c in fallbacks), _times(c.end_ns for c in fallbacks)),
        "copies": (_times(c.start_ns for c in recording.copies), _times(c.end_ns for c in recording.copies)),
        "device": (_times(c.end_ns - c.device_ns for c in compiled), _times(c.end_ns for c in compiled)),
    }


def _times(values: Iterable[int]) -> _Times:
    return np.fromiter(values, dtype=np.int64)


def _exclusive(spans: dict[PartName, tuple[_Times, _Times]], begin: int, end: int) -> dict[PartName, int]:
    """Wall time of each part that no earlier part of `_PRIORITY` claims."""
    starts, ends = np.empty(0, np.int64), np.empty(0, np.int64)
    covered = 0
    parts: dict[PartName, int] = {}
    for name in _PRIORITY:
        starts = np.concatenate([starts, spans[name][0].clip(begin, end)])
        ends = np.concatenate([ends, spans[name][1].clip(begin, end)])
        union = _union_length(starts, ends)
        parts[name] = union - covered
        covered = union
    return parts


def _union_length(starts: _Times, ends: _Times) -> int:
    if not starts.size:
        return 0
    order = np.argsort(starts, kind="stable")
    first, reached = starts[order], np.maximum.accumulate(ends[order])
    gaps = np.maximum(first[1:] - reached[:-1], 0)
    return int(reached[-1] - first[0] - gaps.sum())


def _exact_totals(recording: Recording) -> dict[PartName, int]:
    totals = recording.op_totals
    return {
        "startup": sum(end - start for start, end in recording.startups),
        "compile": sum(item.total_ns for item in recording.compiles if item.source != "disk"),
        "load": sum(item.total_ns for item in recording.compiles if item.source == "disk"),
        "fallback": sum(total.total_ns for total in totals if total.kind == "fallback"),
        "copies": sum(total.total_ns for total in recording.copy_totals),
        "device": sum(total.device_ns for total in totals if total.kind == "compiled"),
    }


def _scaled(
    parts: dict[PartName, int], spans: dict[PartName, tuple[_Times, _Times]], exact: dict[PartName, int], wall_ns: int
) -> dict[PartName, int]:
    """Grow each part by what the ring lost, then shrink all of them alike if they no longer fit into the wall."""
    grown: dict[PartName, int] = {}
    for name, ns in parts.items():
        seen = int((spans[name][1] - spans[name][0]).sum())
        told = max(0, exact[name])
        grown[name] = ns * told // seen if seen else told
    total = sum(grown.values())
    if total <= wall_ns:
        return grown
    return {name: ns * wall_ns // total for name, ns in grown.items()}
