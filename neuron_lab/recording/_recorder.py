"""Start, stop, keep."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from contextlib import ExitStack

from neuron_lab.device import CoreMemory, Hook, RawLog
from neuron_lab.errors import UsageProblem
from neuron_lab.recording._environment import Environment
from neuron_lab.recording._events import GraphCompile, Where
from neuron_lab.recording._holdings import WORTH_TELLING, Kept
from neuron_lab.recording._measured import measured
from neuron_lab.recording._recording import CorePeak, Recording, earlier_compiles, from_raw, placed
from neuron_lab.recording._sources import sources_of
from neuron_lab.recording._surroundings import Surroundings


class Recorder:
    """Record one span with `hook`. `clock` gives nanoseconds; tests pass their own.

    `stop` only ends the session; the events become a Recording in `finish`, so that nothing is built while a program waits.
    """

    def __init__(
        self,
        hook: Hook,
        environment: Environment,
        *,
        label: str = "",
        surroundings: Surroundings | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._hook = hook
        self._environment = environment
        self._label = label
        self._surroundings = surroundings or Surroundings()
        self._clock = clock
        self._start_ns: int | None = None
        self._unix_ns = 0
        self._unix_end_ns = 0
        self._end_ns: int | None = None
        self._raw: RawLog | None = None
        self._overhead_ns = 0
        self._before: tuple[CoreMemory, ...] = ()
        self._after: tuple[CoreMemory, ...] = ()
        self._measured = ExitStack()

    def start(self) -> None:
        """Open the session; the span begins when everything is in place."""
        begun = self._clock()
        self._before = self._surroundings.memory()
        self._hook.start()
        self._measured.enter_context(measured())
        self._unix_ns = time.time_ns()
        self._start_ns = self._clock()
        self._overhead_ns += self._start_ns - begun

    def stop(self) -> None:
        """End the span now. Calling it again changes nothing."""
        if self._start_ns is None:
            raise UsageProblem("this recorder was never started; call start() first")
        if self._raw is not None:
            return
        self._end_ns = self._clock()
        self._unix_end_ns = time.time_ns()
        self._raw = self._hook.stop()
        self._measured.close()
        self._after = self._surroundings.memory()
        self._overhead_ns += self._clock() - self._end_ns

    def finish(
        self,
        error: str | None = None,
        kept: Callable[[], tuple[Kept, ...]] | None = None,
        stopped_at: Where | None = None,
    ) -> Recording:
        """Stop if that is still to do, and hand back the Recording.

        `error` names the exception that cut the span short, `stopped_at` the user's line that it came out of. `kept` finds what only
        the notebook's history keeps alive; it takes a while and is asked only when that may matter.
        """
        self.stop()
        assert self._raw is not None and self._start_ns is not None and self._end_ns is not None
        recording = from_raw(
            self._raw,
            label=self._label,
            start_ns=self._start_ns,
            end_ns=self._end_ns,
            error=error,
            environment=self._environment,
            overhead_ns=self._overhead_ns,
        )
        if kept is not None and (recording.memory_log.ooms or self._grew()):
            recording = dataclasses.replace(recording, kept=kept())
        return self._with_surroundings(dataclasses.replace(recording, stopped_at=stopped_at))

    def _grew(self) -> bool:
        """Whether more HBM is held than before, enough to matter."""
        pairs = zip(self._before, self._after, strict=True)
        return any(after.used - before.used >= WORTH_TELLING * after.limit for before, after in pairs)

    def _with_surroundings(self, recording: Recording) -> Recording:
        around = self._surroundings
        rows, lost = around.graphs(self._unix_ns, self._unix_end_ns)
        graphs = tuple(placed(GraphCompile, rows))
        places = [
            *(graph.place for graph in graphs),
            *(total.where for total in recording.op_totals),
            *(total.where for total in recording.copy_totals),
            *(peak.where for peak in recording.memory_log.line_peaks),
            *(oom.where for oom in recording.memory_log.ooms),
            recording.stopped_at,
        ]
        return dataclasses.replace(
            recording,
            earlier=earlier_compiles(around.history(), recording),
            sources=sources_of(dict.fromkeys(places), around.cell_name),
            memory=tuple(
                CorePeak(core, before.peak, after.used, after.peak, after.limit)
                for core, (before, after) in enumerate(zip(self._before, self._after, strict=True))
            ),
            late_variables=around.late_variables(),
            reads_clock=around.reads_clock,
            unix_ns=self._unix_ns,
            graphs=graphs,
            graphs_lost=lost,
        )
