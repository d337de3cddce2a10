"""One line in the cell while it compiles: what, how many, how long, and how long it took before.

The compile thread only notes what it does. A thread of its own draws, at most ten times a second and only once the compiles of the
cell together exceed a second; the last line is drawn when the cell has ended. So the program that is measured draws nothing.

In a notebook it is an output that is replaced in place and no widget: it needs no widget manager, and what stays in the file is text.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from statistics import median
from typing import Protocol, TextIO

from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

_THRESHOLD_S = 1.0
_PERIOD_S = 0.1
_WORTH_TELLING_S = 0.5  # of one compile
_REMEMBERED = 16
_LONGEST_NAME = 48


@dataclass(frozen=True, slots=True)
class Step:
    """What the line says. `share`: how much of the estimate for this compile has passed, None without one or when it was too low.
    `spent_s`: by all compiles of the cell. `last`: the cell has ended."""

    text: str
    spent_s: float
    share: float | None = None
    last: bool = False


class Line(Protocol):
    """One line that can be replaced."""

    def show(self, step: Step) -> None:
        """Draw it, the first time below what the cell has shown so far."""


class Progress:
    """What the compiles of the running cell have come to. Has no thread and draws nothing; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._earlier: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))
        self._cells = 0
        self._running: tuple[str, float] | None = None
        self._forget()

    def _forget(self) -> None:
        self._done, self._spent, self._shown = 0, 0.0, False

    def cell_starts(self) -> None:
        """Cells nest: user code may run one. The line is the outermost cell's."""
        with self._lock:
            self._cells += 1
            if self._cells == 1:
                self._forget()

    def cell_ended(self) -> Step | None:
        """The last step, None when none was drawn for this cell or another goes on around it."""
        with self._lock:
            self._cells = max(0, self._cells - 1)
            if self._cells or not self._shown:
                return None
            self._shown = False
            left = f" · {_short(self._running[0])} goes on" if self._running else ""
            text = f"compiled {self._done} NEFF{'' if self._done == 1 else 's'} in {self._total():.1f} s{left}"
            return Step(text, self._total(), last=True)

    def begins(self, name: str) -> None:
        """A compile of an op or graph starts."""
        with self._lock:
            self._running = name, self._clock()

    def ends(self, name: str, made: bool) -> None:
        """It is over; `made` says whether there is a NEFF."""
        with self._lock:
            if self._running is None:
                return
            took, self._running = self._clock() - self._running[1], None
            self._spent += took
            self._done += made
            if made:
                self._earlier[_kind(name)].append(took)

    @property
    def busy(self) -> bool:
        """Whether something compiles now."""
        return self._running is not None

    def step(self) -> Step | None:
        """What to draw now, None below the threshold, between compiles and outside of cells."""
        with self._lock:
            if not self._cells or self._running is None or self._total() < _THRESHOLD_S:
                return None
            self._shown = True
            name, since = self._running
            took, earlier = self._clock() - since, self._earlier[_kind(name)]
            expected = median(earlier) if earlier else 0.0
            parts, share = [f"compiling NEFF {self._done + 1}: {_short(name)}"], None
            if max(took, expected) >= _WORTH_TELLING_S:
                parts.append(f"{took:.1f} s" + (f" of about {expected:.1f} s" if earlier else ""))
                share = took / expected if took < expected else None
            return Step(" · ".join([*parts, f"{self._total():.1f} s in all"]), self._total(), share)

    def _total(self) -> float:
        return self._spent + (self._clock() - self._running[1] if self._running else 0.0)


def _kind(name: str) -> str:
    """Graphs are made once each: the nearest thing to one is another graph."""
    return "graph" if name.startswith("graph::") else name


def _short(name: str) -> str:
    text = name.removeprefix("graph::")
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


class Drawer:
    """Draws the line of one shell from a thread that sleeps while nothing compiles."""

    def __init__(self, progress: Progress, new_line: Callable[[], Line | None]) -> None:
        self.progress = progress
        self._new_line = new_line
        self._line: Line | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def begins(self, name: str) -> None:
        """On the compile thread."""
        self.progress.begins(name)
        if self._thread is None and not self._stopped:
            self._thread = threading.Thread(target=self._draw_on, name="neuron_lab-progress", daemon=True)
            self._thread.start()
        self._wake.set()

    def ends(self, name: str, made: bool) -> None:
        """On the compile thread."""
        self.progress.ends(name, made)

    def cell_starts(self, *_: object) -> None:
        """`pre_run_cell`."""
        self.progress.cell_starts()

    def cell_ended(self, *_: object) -> None:
        """`post_run_cell`."""
        with self._lock:
            step, line = self.progress.cell_ended(), self._line
            if step is not None and line is not None:
                line.show(step)
            if step is not None:
                self._line = None

    def draw(self) -> None:
        """One step of the thread."""
        with self._lock:
            step = self.progress.step()
            if step is None:
                return
            self._line = self._line or self._new_line()
            if self._line is not None:
                self._line.show(step)

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _draw_on(self) -> None:
        while not self._stopped:
            self._wake.wait()
            self._wake.clear()
            while self.progress.busy and not self._stopped:
                time.sleep(_PERIOD_S)
                self.draw()


class NotebookLine:
    """An output of the cell that is replaced in place."""

    def __init__(self, publisher: DisplayPublisher) -> None:
        self._publisher = publisher
        self._id = f"neuron_lab-progress-{id(self):x}-{time.time_ns():x}"
        self._shown = False

    def show(self, step: Step) -> None:
        bar = "" if step.last else _bar(step)
        html = (
            '<div style="display:flex;gap:8px;align-items:center;font-size:12px;font-variant-numeric:tabular-nums">'
            f'{bar}<span style="opacity:.7">{escape(step.text)}</span></div>'
        )
        self._publisher.publish(
            {"text/plain": step.text, "text/html": html}, {}, transient={"display_id": self._id}, update=self._shown
        )
        self._shown = True


def _bar(step: Step) -> str:
    """A slim bar in colours that show on light and dark. Without an estimate a piece goes to and fro, once in three seconds."""
    if step.share is None:
        told, width = "", 25.0
        left = (100 - width) * abs(1 - step.spent_s * 2 / 3 % 2)
    else:
        width, left = 100 * step.share, 0.0
        told = f' aria-valuenow="{width:.0f}"'
    return (
        f'<span role="progressbar" aria-label="compiling" aria-valuemin="0" aria-valuemax="100"{told} '
        'style="flex:none;width:120px;height:4px;border-radius:2px;overflow:hidden;background:#8b929b55">'
        f'<span style="display:block;height:100%;width:{width:.1f}%;margin-left:{left:.1f}%;background:#3d7fd9"></span></span>'
    )


class TerminalLine:
    """The terminal's current line, written over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, step: Step) -> None:
        width = max(20, shutil.get_terminal_size().columns - 1)
        self._stream.write(f"\r\x1b[K{step.text[:width]}" + "\n" * step.last)
        self._stream.flush()


def line_of(shell: InteractiveShell) -> Callable[[], Line | None] | None:
    """How lines are made in this shell's front end; None without one: a script, a pipe, an embedded shell.

    A cell whose output is captured gets none, and neither does its capture.
    """
    publisher: DisplayPublisher = shell.display_pub
    if getattr(shell, "kernel", None) is not None:
        return lambda: NotebookLine(publisher) if shell.display_pub is publisher else None
    stream = sys.stderr
    if type(shell).__name__ == "TerminalInteractiveShell" and stream is not None and stream.isatty():
        return lambda: TerminalLine(stream) if sys.stderr is stream else None
    return None
