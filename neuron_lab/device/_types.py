"""The event hook a device may offer, and the log it hands back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class RawLog(Protocol):
    """What one recording session saw. Every `*_ns` is on the `time.perf_counter_ns` clock."""

    @property
    def ops(self) -> Sequence[tuple[Any, ...]]:
        """(op, kind, neff, core, thread, start_ns, end_ns, device_ns, bytes, cold[, where]); a ring, newest kept."""

    @property
    def totals(self) -> Sequence[tuple[Any, ...]]:
        """(op, kind, neff, core, calls, cold_calls, total_ns, device_ns, bytes[, where]); exact. `where`: (file, first line, function, line) or None."""

    @property
    def compiles(self) -> Sequence[tuple[Any, ...]]:
        """(op, neff, source, start_ns, trace_ns, lower_ns, compile_ns, signature); exact."""

    @property
    def fallbacks(self) -> Sequence[tuple[Any, ...]]:
        """(op, reason, calls, total_ns); exact."""

    @property
    def copies(self) -> Sequence[tuple[Any, ...]]:
        """(direction, core, start_ns, end_ns, bytes); a ring, newest kept."""

    @property
    def copy_totals(self) -> Sequence[tuple[Any, ...]]:
        """(direction, calls, total_ns, bytes); exact."""

    @property
    def startups(self) -> Sequence[tuple[int, int]]:
        """(start_ns, end_ns) of starting the compiler itself, which happens once in a process."""

    @property
    def syncs(self) -> int:
        """Synchronisations the program asked for."""

    @property
    def dropped(self) -> int:
        """Events that no longer fitted `ops` and `copies`; the totals stay exact."""

    @property
    def overhead_ns(self) -> int:
        """What recording itself cost."""


class FastHook(Protocol):
    """One recording session; several may be open at once and each sees its own span."""

    def start(self) -> None:
        """Begin to record."""

    def stop(self) -> RawLog:
        """End the session and hand back what it saw."""
