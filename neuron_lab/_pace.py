"""How fast the machine is from moment to moment: on a shared one other work halves its speed for seconds, where nothing shows it.

What runs beside, on the other thread of a core or in another virtual machine, appears in no clock of the process and in no load
average. So a process of its own times the same small pieces of work, over and over, on each processor in turn. A machine may be slow
for minutes too: its best is looked for in this measurement and those before it, whose best times are kept in a file.
"""

from __future__ import annotations

import bisect
import itertools
import os
import platform
import select
import statistics
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

# A sample takes some 0.1 ms of one processor, so the program beside it loses about 1 %.
_EVERY_S = 0.01
# A span is judged by the samples in it and around it; a short one would hold none.
_AROUND_NS = 100 * 10**6
# The best time of a piece of work is that which so many of its samples were faster than: one may be out of the common.
_BEST = 0.01
# How many measurements count. Between any two comparisons of one program, of twelve on a busy machine, 21 of 90 figures differed by more
# than 15 % with each one's own best, 2 with the best so far.
_KEPT = 20
_LARGEST_FILE = 1 << 16
# When a sample began, on which processor, and how long each of two pieces of work took.
_COLUMNS = 4


class Pace:
    """Measured from entering to leaving; `slowness` answers afterwards. Times are those of `time.perf_counter_ns`.

    kept: the file with the best times of earlier measurements, by default `pace` in the user's cache directory.
    """

    def __init__(self, kept: Path | None = None) -> None:
        self._kept = kept or _default_file()
        self._times: list[int] = []
        self._cpus: list[int] = []
        self._slow: list[float] = []

    def __enter__(self) -> Pace:
        # In a session of its own: an interrupt of a notebook goes to the kernel's whole process group.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        written, _error = self._process.communicate()
        row = _COLUMNS * array("q").itemsize
        self._add(array("q", written[: len(written) // row * row]))  # a sampler that was killed may have written a part

    def _add(self, samples: array[int]) -> None:
        """Rows of `_COLUMNS` numbers, times in nanoseconds."""
        if not samples:
            return
        columns = [samples[column::_COLUMNS] for column in range(_COLUMNS)]
        self._times, self._cpus = columns[0].tolist(), columns[1].tolist()
        best = _best_so_far([sorted(lengths)[int(len(lengths) * _BEST)] for lengths in columns[2:]], self._kept)
        self._slow = [
            statistics.fmean(took / least for took, least in zip(row, best, strict=True))
            for row in zip(*columns[2:], strict=True)
        ]

    def slowness(self, begun: int, ended: int) -> float | None:
        """How many times as long as at the machine's best a program takes in that span; None when nothing was measured."""
        if not self._times:
            return None
        first = bisect.bisect_left(self._times, begun - _AROUND_NS)
        last = bisect.bisect_right(self._times, ended + _AROUND_NS)
        if first == last:  # before the first sample, or the sampler was kept from running
            first = min(first, len(self._times) - 1)
            last = first + 1
        by_cpu: dict[int, list[float]] = {}
        for cpu, slow in zip(self._cpus[first:last], self._slow[first:last], strict=True):
            by_cpu.setdefault(cpu, []).append(slow)
        # The median: a sample that was itself put off by the program is no measure of the machine.
        return float(statistics.fmean(map(statistics.median, by_cpu.values())))


def _default_file() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("neuron_lab", appauthor=False)) / "pace"


def _best_so_far(best: Sequence[int], kept: Path) -> list[int]:
    """The best time of each piece of work in the last measurements on this machine, of which `best` is the newest; it is kept too."""
    from neuron_lab import _files
    from neuron_lab.errors import FileProblem

    machine = f"{platform.node()} {platform.machine()} Python {platform.python_version()}"
    try:
        first, *lines = _files.read(kept, _LARGEST_FILE).decode().splitlines()
        rows = [list(map(int, line.split())) for line in lines[1 - _KEPT :]]
        rows = [row for row in rows if first == machine and len(row) == len(best) and min(row) > 0]
    except (FileProblem, ValueError):  # the first measurement here, or no file of ours
        rows = []
    rows.append(list(best))
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        _files.write(kept, "\n".join((machine, *(" ".join(map(str, row)) for row in rows))))
    except (FileProblem, OSError):
        pass  # a home that cannot be written to: each measurement is judged by itself
    return [min(times) for times in zip(*rows, strict=True)]


def _work() -> tuple[Callable[[], None], ...]:
    """What compilers, Dynamo and the launch of an op are made of: their mean followed those more closely than each alone."""
    made: list[dict[str, int]] = [{} for _ in range(300)]

    def arithmetic() -> None:
        total = 0
        for number in range(1000):
            total += number * number & 7

    def objects() -> None:
        for item in made:
            item["length"] = len(str(id(item)))

    return arithmetic, objects


def _sample() -> None:
    """Until standard input ends, which it also does when the process at its other end is no more."""
    samples, work = array("q"), _work()
    pinned = hasattr(os, "sched_setaffinity")  # not on macOS
    for cpu in itertools.cycle(sorted(os.sched_getaffinity(0)) if pinned else [0]):
        if select.select([0], [], [], _EVERY_S)[0]:
            break
        if pinned:
            os.sched_setaffinity(0, {cpu})
        marks = [time.perf_counter_ns()]
        for piece in work:
            piece()
            marks.append(time.perf_counter_ns())
        samples.extend((marks[0], cpu, *(after - before for before, after in itertools.pairwise(marks))))
    sys.stdout.buffer.write(samples)


if __name__ == "__main__":
    _sample()
