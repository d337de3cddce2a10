"""How fast the machine is at this moment: others on it slow a program down by half for seconds, and no clock tells."""

from __future__ import annotations

from collections.abc import Callable

_TRIES = 3
_FULL = 1.1
_WORK = 3000  # of the interpreter, about 0.2 ms: its speed and an op's change alike


class Pace:
    """Times a fixed piece of work. `clock` gives nanoseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._best_ns: int | None = None

    def look(self) -> int:
        """Nanoseconds it takes now, the best of three tries."""
        found = min(self._once() for _ in range(_TRIES))
        self._best_ns = found if self._best_ns is None else min(found, self._best_ns)
        return found

    def is_full(self, look_ns: int) -> bool:
        """Whether it was within a tenth of the fastest look so far."""
        return self._best_ns is not None and look_ns <= self._best_ns * _FULL

    def _once(self) -> int:
        begun = self._clock()
        total = 0
        for number in range(_WORK):
            total += number * number
        return self._clock() - begun
