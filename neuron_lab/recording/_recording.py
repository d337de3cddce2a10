"""A finished recording."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from neuron_lab.device import RawLog
from neuron_lab.recording._environment import Environment
from neuron_lab.recording._events import Compile, Copy, CopyTotal, Fallback, OpCall, OpTotal

_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything one profiled span left behind; immutable.

    `label` says which span ("In[12]"). `start_ns`, `end_ns` bound it on the `time.perf_counter_ns` clock. `error` is the name of the
    exception that cut the span short, None when it ran to its end. `ops` and `copies` are the newest events, `dropped` counts
    those that no longer fitted; every other field is exact. `startups` are (start_ns, end_ns) of starting the compiler itself.
    """

    label: str
    start_ns: int
    end_ns: int
    error: str | None
    environment: Environment
    ops: tuple[OpCall, ...]
    copies: tuple[Copy, ...]
    op_totals: tuple[OpTotal, ...]
    copy_totals: tuple[CopyTotal, ...]
    compiles: tuple[Compile, ...]
    fallbacks: tuple[Fallback, ...]
    startups: tuple[tuple[int, int], ...]
    syncs: int
    dropped: int
    overhead_ns: int

    @property
    def wall_ns(self) -> int:
        """Wall time of the span."""
        return self.end_ns - self.start_ns

    @property
    def partial(self) -> bool:
        """True when an exception cut the span short."""
        return self.error is not None


def from_raw(
    raw: RawLog,
    *,
    label: str,
    start_ns: int,
    end_ns: int,
    error: str | None,
    environment: Environment,
    overhead_ns: int = 0,
) -> Recording:
    """Type what a hook handed back; `overhead_ns` is added to the hook's own."""
    return Recording(
        label=label,
        start_ns=start_ns,
        end_ns=end_ns,
        error=error,
        environment=environment,
        ops=_many(OpCall._make, raw.ops),
        copies=_many(Copy._make, raw.copies),
        op_totals=_records(OpTotal, raw.totals),
        copy_totals=_records(CopyTotal, raw.copy_totals),
        compiles=_records(Compile, raw.compiles),
        fallbacks=_records(Fallback, raw.fallbacks),
        startups=tuple(raw.startups),
        syncs=raw.syncs,
        dropped=raw.dropped,
        overhead_ns=raw.overhead_ns + overhead_ns,
    )


def _records(make: Callable[..., _Record], rows: Iterable[tuple[Any, ...]]) -> tuple[_Record, ...]:
    return tuple(make(*row) for row in rows)


def _many(make: Callable[[tuple[Any, ...]], _Record], rows: Iterable[tuple[Any, ...]]) -> tuple[_Record, ...]:
    """Build records by the hundred thousand. The collector would walk every object of torch again and again meanwhile: 4 times the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return tuple(map(make, rows))
    finally:
        if was_on:
            gc.enable()
