"""Start, stop, keep."""

from __future__ import annotations

import time
from collections.abc import Callable

from neuron_lab.device import FastHook, RawLog
from neuron_lab.errors import UsageProblem
from neuron_lab.recording._environment import Environment
from neuron_lab.recording._recording import Recording, from_raw


class Recorder:
    """Record one span with `hook`. `clock` gives nanoseconds; tests pass their own.

    `stop` only ends the session; the events become a Recording in `finish`, so that nothing is built while a program waits.
    """

    def __init__(
        self,
        hook: FastHook,
        environment: Environment,
        *,
        label: str = "",
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._hook = hook
        self._environment = environment
        self._label = label
        self._clock = clock
        self._start_ns: int | None = None
        self._end_ns: int | None = None
        self._raw: RawLog | None = None
        self._overhead_ns = 0

    def start(self) -> None:
        """Open the session; the span begins when everything is in place."""
        begun = self._clock()
        self._hook.start()
        self._start_ns = self._clock()
        self._overhead_ns += self._start_ns - begun

    def stop(self) -> None:
        """End the span now. Calling it again changes nothing."""
        if self._start_ns is None:
            raise UsageProblem("this recorder was never started; call start() first")
        if self._raw is not None:
            return
        self._end_ns = self._clock()
        self._raw = self._hook.stop()
        self._overhead_ns += self._clock() - self._end_ns

    def finish(self, error: str | None = None) -> Recording:
        """Stop if that is still to do, and hand back the Recording. `error` names the exception that cut the span short."""
        self.stop()
        assert self._raw is not None and self._start_ns is not None and self._end_ns is not None
        return from_raw(
            self._raw,
            label=self._label,
            start_ns=self._start_ns,
            end_ns=self._end_ns,
            error=error,
            environment=self._environment,
            overhead_ns=self._overhead_ns,
        )
