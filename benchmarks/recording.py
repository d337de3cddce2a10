"""What a profile costs: an op while it runs and after it, the report of a large cell, loading the extension."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import TYPE_CHECKING

import psutil
import torch

from benchmarks._timing import row

if TYPE_CHECKING:
    from neuron_lab import Profile

RECORDED_BUDGET_US = 3.0
IDLE_BUDGET_US = 0.2
REPORT_BUDGET_S = 1.0
HELD_BUDGET_MB = 100.0
EXTENSION_BUDGET_MS = 150.0

_ROUNDS, _CALLS = 300, 200
_OPS = 100_000

_EXTENSION = (
    "import time, torch; from IPython.core.interactiveshell import InteractiveShell; shell = InteractiveShell.instance(); "
    "t = time.process_time(); shell.run_line_magic('load_ext', 'neuron_lab'); print(time.process_time() - t)"
)


def run() -> None:
    """Print each figure beside its budget."""
    torch.set_num_threads(1)
    print("recording")
    with torch.no_grad():
        _per_op()
        _large_cell()
    seconds = [float(_output(_EXTENSION)) for _ in range(7)]
    row(
        "load the extension, torch being there", statistics.median(seconds) * 1e3, "ms", EXTENSION_BUDGET_MS, "CPU time"
    )


def _per_op() -> None:
    from neuron_lab import device

    x, y = torch.randn(8, 8).to("neuron"), torch.randn(8, 8).to("neuron")

    def adds() -> None:
        for _ in range(_CALLS):
            x + y  # the op is the point

    before, during, after = [], [], []
    for _ in range(_ROUNDS):  # in turns, so that a drift of the machine hits all
        adds()
        before.append(_us_per_op(adds))
        session = device.hook()
        session.start()
        during.append(_us_per_op(adds))
        session.stop()
        adds()  # the caches are the program's again
        after.append(_us_per_op(adds))
    plain = _undisturbed(before)
    note = f"{plain:.2f} us without one"
    row("a warm op while a profile runs, more", _undisturbed(during) - plain, "us", RECORDED_BUDGET_US, note)
    note = "one load and a branch remain"
    row("a warm op after a profile, more", _undisturbed(after) - plain, "us", IDLE_BUDGET_US, note)


def _undisturbed(samples: list[float]) -> float:
    """The lowest tenth: what others do on the machine only adds, and by more than what is measured here."""
    return statistics.quantiles(samples, n=10)[0]


def _us_per_op(work: Callable[[], None]) -> float:
    started = time.process_time_ns()
    work()
    return (time.process_time_ns() - started) / _CALLS / 1e3


def _large_cell() -> None:
    """A cell of as many calls as a session keeps events of, on several lines, shown as text and HTML with their tables."""

    _profiled(10)  # what is imported once
    profile, data_s = _profiled(_OPS)
    started = time.process_time()
    assert profile.to_text() and profile.to_html()
    shown_s = time.process_time() - started
    assert profile.summary.op_calls >= _OPS
    note = f"CPU time, {data_s:.2f} s of it the end of the cell"
    row(f"the report of {_OPS:,} ops", data_s + shown_s, "s", REPORT_BUDGET_S, note)
    del profile
    _held()


def _held() -> None:
    """Counted apart, for counting takes time: what the profile keeps alive, shown and all, and by how much the process grew."""
    process = psutil.Process()
    gc.collect()
    before = process.memory_info().rss
    tracemalloc.start()
    profile, _ = _profiled(_OPS)
    assert profile.to_text() and profile.to_html()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    grown = process.memory_info().rss - before
    row(
        "memory it holds",
        held / 1e6,
        "MB",
        HELD_BUDGET_MB,
        f"the process grew by {grown / 1e6:.0f} MB, tracing included",
    )


def _profiled(count: int) -> tuple[Profile, float]:
    """A profile of `count` op calls, and the CPU seconds from the end of the span until it can be read."""
    import neuron_lab

    x, y = torch.randn(8, 8).to("neuron"), torch.randn(8, 8).to("neuron")
    with neuron_lab.profile() as profile:
        for _ in range(count // 5):
            x = x + y
            x = x @ y
            x = torch.relu(x)
            x = x * 0.5
            x = x - y
        ended = time.process_time()
    return profile, time.process_time() - ended


def _output(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], env=dict(os.environ), capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
