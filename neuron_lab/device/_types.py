"""What records a device, and the log it hands back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class RawLog(Protocol):
    """What one recording session saw. Every `*_ns` is on the clock of `neuron_lab.device.now_ns`."""

    @property
    def ops(self) -> Sequence[tuple[Any, ...]]:
        """(op, kind, neff, core, thread, start_ns, end_ns, device_ns, bytes, cold[, where]); a ring, newest kept."""

    @property
    def totals(self) -> Sequence[tuple[Any, ...]]:
        """(op, kind, neff, core, calls, cold_calls, total_ns, device_ns, bytes[, where[, module, phase]]); exact.

        `where`, here and below: (file, first line of the function, function, line) or None.
        """

    @property
    def compiles(self) -> Sequence[tuple[Any, ...]]:
        """(op, neff, source, start_ns, trace_ns, lower_ns, compile_ns, signature); exact."""

    @property
    def fallbacks(self) -> Sequence[tuple[Any, ...]]:
        """(op, reason, calls, total_ns); exact."""

    @property
    def copies(self) -> Sequence[tuple[Any, ...]]:
        """(direction, core, start_ns, end_ns, bytes[, where]); a ring, newest kept."""

    @property
    def copy_totals(self) -> Sequence[tuple[Any, ...]]:
        """(direction, calls, total_ns, bytes[, where[, module, phase]]); exact."""

    @property
    def startups(self) -> Sequence[tuple[int, int]]:
        """(start_ns, end_ns) of starting the compiler itself, which happens once in a process."""

    @property
    def wide(self) -> Sequence[tuple[Any, ...]]:
        """(op, integers, floats, calls, beyond, where): compiled calls with 64-bit values, `beyond` those with one that does not fit 32."""

    @property
    def memory(self) -> Sequence[tuple[Any, ...]]:
        """(core, at_ns, change, used, where): HBM taken or given back, `where` the line that took it; a ring, newest kept."""

    @property
    def peaks(self) -> Sequence[tuple[Any, ...]]:
        """(core, at_ns, used, [(where, bytes, blocks), ...]): the highest use and what of it the session saw taken; exact."""

    @property
    def line_peaks(self) -> Sequence[tuple[Any, ...]]:
        """(core, used, where): the highest use after this line took something; exact."""

    @property
    def ooms(self) -> Sequence[tuple[Any, ...]]:
        """(core, at_ns, asked, used, limit, where, [(where, bytes, blocks), ...]): the first that did not fit."""

    @property
    def syncs(self) -> int:
        """Synchronisations the program asked for."""

    @property
    def dropped(self) -> int:
        """Events that no longer fitted `ops` and `copies`; the totals stay exact."""

    @property
    def dropped_changes(self) -> int:
        """Those that no longer fitted `memory`."""

    @property
    def overhead_ns(self) -> int:
        """What recording itself cost."""

    @property
    def synchronised(self) -> bool:
        """Whether every op was waited for, one at a time; what is not known of an op is then 0, "" or None."""


class Hook(Protocol):
    """One recording session; several may be open at once and each sees its own span."""

    def start(self) -> None:
        """Begin to record."""

    def stop(self) -> RawLog:
        """End the session and hand back what it saw."""
