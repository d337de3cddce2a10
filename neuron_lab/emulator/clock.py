"""The clock of every event: the process's own, or one that moves by a fixed step whenever it is read.

A test steps it, so that two runs tell the same times.
"""

from __future__ import annotations

import time

__all__ = ["now_ns", "pass_time", "step"]

_stepping = False


def now_ns() -> int:
    """Nanoseconds, on the clock of `time.perf_counter_ns` unless it is stepped."""
    if not _stepping:
        return time.perf_counter_ns()
    from neuron_lab.emulator import shim

    return int(shim().now_ns())


def step(ns: int) -> None:
    """From now on each reading, also the C++ part's own, is `ns` nanoseconds after the one before; 0 gives the real clock back."""
    global _stepping
    from neuron_lab.emulator import shim

    shim().step_clock(ns)
    _stepping = ns > 0


def pass_time(ns: int) -> None:
    """Let `ns` nanoseconds go by on a stepped clock."""
    from neuron_lab.emulator import shim

    shim().pass_time(ns)
