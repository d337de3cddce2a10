"""What the device has done in this process so far."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from neuron_lab.device._describe import CoreMemory
from neuron_lab.device._resolve import resolve


@dataclass(frozen=True, slots=True)
class LateVariable:
    """A variable that was set after the device had read it; `effect` says what holds instead."""

    name: str
    value: str
    effect: str


def now_ns() -> int:
    """Nanoseconds on the clock of the device's events."""
    if resolve().kind != "emulator":
        return time.perf_counter_ns()
    from neuron_lab.emulator import clock

    return clock.now_ns()


def compile_history() -> Sequence[tuple[Any, ...]]:
    """The newest NEFFs made or read by this process, oldest first, as in `RawLog.compiles`; empty on Trainium, which keeps none."""
    if resolve().kind != "emulator":
        return ()
    from neuron_lab.emulator import events

    return events.history()


def watch_compiles(begins: Callable[[str], None], ends: Callable[[str, bool], None]) -> Callable[[], None]:
    """Have the two called, on the thread that compiles, with the op or graph before and after each compile; gives what ends that.

    `ends` is also told whether a NEFF was made. Starts no device and imports no torch. On Trainium nothing calls them.
    """
    from neuron_lab.emulator import events

    watcher = begins, ends
    events.watchers.append(watcher)
    return lambda: events.watchers.remove(watcher)


def core_memory() -> tuple[CoreMemory, ...]:
    """HBM of each core now."""
    import torch

    count = resolve().core_count
    if not count:
        return ()
    neuron = torch.get_device_module("neuron")
    # Trainium frees device memory asynchronously: without a synchronisation the numbers are stale.
    neuron.synchronize()
    return tuple(
        CoreMemory(
            used=int(neuron.memory_allocated(index)),
            limit=int(neuron.get_device_properties(index).total_memory),
            peak=int(neuron.max_memory_allocated(index)),
        )
        for index in range(count)
    )


def busy_ns() -> tuple[int, ...] | None:
    """Of each core, the nanoseconds in which it ran something, counted from the first time this is asked; None on Trainium.

    What PyTorch keeps on the CPU, and copies, are no part of it.
    """
    if resolve().kind != "emulator":
        return None
    from neuron_lab import emulator

    return emulator.busy_ns()


def late_variables() -> tuple[LateVariable, ...]:
    """Variables whose value asks for another number of cores than the device has started with."""
    info = resolve()
    if info.kind != "emulator":
        return ()
    from neuron_lab.emulator.driver import chip, visible_cores
    from neuron_lab.errors import UsageProblem

    found = []
    for name in ("NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"):
        value = os.environ.get(name)
        if not value:
            continue
        try:
            asked = visible_cores(chip(), {name: value})
        except UsageProblem:
            continue  # the runtime refuses it at the next start, in its own words
        if asked != info.core_count:
            cores = f"{info.core_count} core{'' if info.core_count == 1 else 's'}"
            found.append(LateVariable(name, value, f"the device had started with {cores}"))
        break  # the first of the two wins
    return tuple(found)
