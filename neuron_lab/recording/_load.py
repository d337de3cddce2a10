"""How busy each core is, and what its HBM holds by category."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neuron_lab.device import CoreMemory
from neuron_lab.recording._holdings import Holding


@dataclass(frozen=True, slots=True)
class CoreLoad:
    """One core now. `busy` is the part of the time since the look before in which it ran something, 0 to 1; None when that is not known.

    `kinds` are bytes by category, as a Holding's; they add up to `memory.used`, what no Python tensor uses being "kept by PyTorch for backward".
    """

    core: int
    busy: float | None
    memory: CoreMemory
    kinds: tuple[tuple[str, int], ...]


class Meter:
    """Turns running totals into parts of the time between two looks. `busy_ns` gives the totals, None where nobody counts."""

    def __init__(self, busy_ns: Callable[[], tuple[int, ...] | None], clock: Callable[[], int]) -> None:
        self._busy_ns = busy_ns
        self._clock = clock
        self._before: tuple[int, tuple[int, ...]] | None = None

    def read(self) -> tuple[int, tuple[float, ...]] | None:
        """Nanoseconds since the look before and the part of them in which each core was busy; None at the first look."""
        busy = self._busy_ns()
        if busy is None:
            return None
        before, self._before = self._before, (self._clock(), busy)
        if before is None:
            return None
        span = max(1, self._before[0] - before[0])
        parts = tuple(min(1.0, (now - then) / span) for now, then in zip(busy, before[1], strict=True))
        return span, parts


def core_loads(
    cores: Sequence[CoreMemory], busy: Sequence[float] | None, held: Sequence[Holding]
) -> tuple[CoreLoad, ...]:
    """Of each core, what it does and holds."""
    kinds: list[Counter[str]] = [Counter() for _ in cores]
    for item in held:
        kinds[item.core][item.kind] += item.bytes
    for core, found in zip(cores, kinds, strict=True):
        if core.used > found.total():
            found["kept by PyTorch for backward"] = core.used - found.total()
    return tuple(
        CoreLoad(index, None if busy is None else busy[index], core, tuple(kinds[index].most_common()))
        for index, core in enumerate(cores)
    )
