"""HBM over the span: the curve of each core, its peak and what that was made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from neuron_lab.recording import Held, MemoryPeak, Recording, Where, uncollected

_NAMED = 4
_LEAST = 0.01  # of the whole, that is worth a name


@dataclass(frozen=True, slots=True)
class Portion:
    """Bytes that one line of the user's has taken. `where` is None for no line of the user's, and for what was there `before` the span."""

    bytes: int
    where: Where | None
    before: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """HBM of one core. `points` are (nanoseconds from the start of the span, bytes in use from then on), in time order.

    `peak` and its `portions`, the largest first, are exact also where the oldest points are missing; `limit` is 0 when it is not known.
    """

    core: int
    limit: int
    peak: int
    peak_ns: int
    used: int
    portions: tuple[Portion, ...]
    points: tuple[tuple[int, int], ...]
    wall_ns: int

    def columns(self, count: int) -> list[tuple[int, int]]:
        """(lowest, highest) use in each of `count` equal slices of the span: no peak is lost, however many the points are.

        The first `unknown(count)` are (0, 0).
        """
        times = np.fromiter((at for at, _ in self.points), np.int64, len(self.points))
        uses = np.fromiter((used for _, used in self.points), np.int64, len(self.points))
        begins = [-(-index * max(1, self.wall_ns) // count) for index in range(1, count)]
        ends = [*np.searchsorted(times, begins).tolist(), len(times)]
        found, begin = [], 0
        for end in ends:
            # The use stays as it was until the next point: the last one before the slice counts in it.
            part = uses[max(0, begin - 1) : end]
            found.append((int(part.min()), int(part.max())) if part.size else (0, 0))
            begin = end
        return found

    def unknown(self, count: int) -> int:
        """How many of `count` equal slices lie before the first point, which is later than the start when older ones are missing."""
        return self.points[0][0] * count // max(1, self.wall_ns) if self.points else count


def curves(recording: Recording) -> tuple[Curve, ...]:
    """One a core that took or gave back HBM in the span, by number."""
    log = recording.memory_log
    limits = {core.core: core.limit for core in recording.memory}
    ends = {core.core: core.used for core in recording.memory}
    found = []
    for peak in sorted(log.peaks, key=lambda peak: peak.core):
        own = _points(recording, peak)
        found.append(
            Curve(
                core=peak.core,
                limit=limits.get(peak.core, 0),
                peak=peak.used,
                peak_ns=min(max(0, peak.at_ns - recording.start_ns), recording.wall_ns),
                used=own[-1][1] if own else ends.get(peak.core, 0),
                portions=portions(peak.used, peak.held),
                points=own,
                wall_ns=recording.wall_ns,
            )
        )
    return tuple(found)


def _points(recording: Recording, peak: MemoryPeak) -> tuple[tuple[int, int], ...]:
    """In time order, from the start of the span when no older ones are missing."""
    log = recording.memory_log
    own = [change for change in log.changes if change.core == peak.core]
    times = np.fromiter((change.at_ns for change in own), np.int64, len(own)) - recording.start_ns
    times = times.clip(0, recording.wall_ns)
    order = np.argsort(times, kind="stable")
    uses = np.fromiter((change.used for change in own), np.int64, len(own))
    # A core that only refused what did not fit stayed as it was.
    before = own[0].used - own[0].change if own else peak.used
    first = [] if log.dropped else [(0, before)]
    with uncollected():
        return (*first, *zip(times[order].tolist(), uses[order].tolist(), strict=True))


def portions(used: int, held: Sequence[Held]) -> tuple[Portion, ...]:
    """What `used` bytes were made of by line, the largest first; what no line of the span took was there before it."""
    lines: defaultdict[tuple[str, int] | None, int] = defaultdict(int)
    first: dict[tuple[str, int] | None, Where | None] = {}
    for item in held:
        key = None if item.where is None else (item.where.file, item.where.line)
        lines[key] += item.bytes
        first.setdefault(key, item.where)
    found = [Portion(taken, first[key]) for key, taken in lines.items()]
    before = used - sum(lines.values())
    if before > 0:
        found.append(Portion(before, None, before=True))
    return tuple(sorted(found, key=lambda portion: -portion.bytes))


def named(portions: Sequence[Portion], place: Callable[[Where | None], str]) -> list[tuple[Portion, str]]:
    """The large ones with the line's name, a file's or cell's once when lines of it follow each other; the last is the rest."""
    total = sum(portion.bytes for portion in portions)
    shown = [portion for portion in portions[:_NAMED] if portion.bytes >= _LEAST * total]
    found, file = [], None
    for portion in shown:
        if portion.where is None:
            name = "from before" if portion.before else "by no line of yours"
        elif portion.where.file == file:
            name = f"line {portion.where.line}"
        else:
            name = place(portion.where)
        file = portion.where.file if portion.where else file
        found.append((portion, name))
    rest = sum(portion.bytes for portion in portions[len(shown) :])
    if rest >= _LEAST * total and len(shown) < len(portions):
        found.append((Portion(rest, None), f"by {len(portions) - len(shown)} more"))
    return found
