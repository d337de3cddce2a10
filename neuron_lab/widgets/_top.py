"""The live view of the cores. It asks while the kernel is idle; while a cell runs, a thread tells."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from neuron_lab import device, render
from neuron_lab.device import DeviceInfo
from neuron_lab.recording import CoreLoad, Meter, core_loads, is_measuring
from neuron_lab.widgets._holdings import KIND_COLORS
from neuron_lab.widgets._live import Content, Live

_PERIOD_S = 0.5
_ANY = "in use"  # of no known category, while a cell runs
# Without a sign of the browser for so long between two cells, nobody looks.
_SILENCE_S = 5.0


class Seen(Protocol):
    """One look at the cores."""

    @property
    def device(self) -> DeviceInfo: ...

    @property
    def span_ns(self) -> int | None: ...

    @property
    def cores(self) -> Sequence[CoreLoad]: ...


class TopView(Live):
    """The cores as bars. `look` takes a full look with a meter, categories of HBM included, which walks over the user's objects.

    That is done on the kernel's own thread only, and again only after a cell has run. The thread reads totals.
    """

    def __init__(
        self, look: Callable[[Meter], Seen], meter: Meter, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__("cores", "mountTop", self._content, self._asked)
        self._look = look
        self._meter = meter
        self._clock = clock
        self._heard = clock()
        self._events: Any = None
        self._kinds: list[tuple[tuple[str, int], ...]] | None = None
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def release(self) -> None:
        self._unhook()
        super().release()

    def _content(self) -> Content:
        self._hook()
        self._kinds = None
        return Content(self._news())

    def _asked(self, _: str) -> dict[str, Any]:
        """The browser asks when the last answer has come; the kernel reads that when no cell runs."""
        self._hook()
        return {**self._news(), "answer": True}

    def _news(self) -> dict[str, Any]:
        if self._kinds is None:
            seen = self._look(self._meter)
            self._kinds = [core.kinds for core in seen.cores]
            return _figures(seen.device, seen.span_ns, seen.cores)
        return self._figures(self._kinds)

    def _figures(self, kinds: Sequence[tuple[tuple[str, int], ...]] | None) -> dict[str, Any]:
        read = self._meter.read()
        span_ns, busy = read if read is not None else (None, None)
        cores = core_loads(device.core_memory(), busy, ())
        if kinds is None:
            kinds = [((_ANY, core.memory.used),) for core in cores]
        told = [CoreLoad(core.core, core.busy, core.memory, kind) for core, kind in zip(cores, kinds, strict=True)]
        return _figures(device.resolve(), span_ns, told)

    def _hook(self) -> None:
        self._heard = self._clock()
        if self._events is None and (shell := _shell()) is not None:
            self._events = shell.events
            self._events.register("pre_run_cell", self._cell_starts)
            self._events.register("post_run_cell", self._cell_ended)
            self._kinds = None  # cells may have run unseen

    def _unhook(self) -> None:
        self._stop()
        if self._events is not None:
            self._events.unregister("pre_run_cell", self._cell_starts)
            self._events.unregister("post_run_cell", self._cell_ended)
            self._events = None

    def _cell_starts(self, *_: object) -> None:
        if self._clock() - self._heard > _SILENCE_S:
            self._unhook()
        elif self._thread is None and device.busy_ns() is not None:
            self._done.clear()
            self._thread = threading.Thread(target=self._follow, name="neuron_lab-top", daemon=True)
            self._thread.start()

    def _cell_ended(self, *_: object) -> None:
        self._stop()
        self._kinds = None
        self._heard = self._clock()

    def _stop(self) -> None:
        if self._thread is not None:
            self._done.set()
            self._thread.join()
            self._thread = None

    def _follow(self) -> None:
        while not self._done.wait(_PERIOD_S):
            self.tell()

    def tell(self) -> None:
        """One step of the thread: nothing while something is measured."""
        if not is_measuring():
            self.send({"news": self._figures(None)})


def _figures(info: DeviceInfo, span_ns: int | None, cores: Sequence[CoreLoad]) -> dict[str, Any]:
    return {
        "head": render.top_headline(info, span_ns, cores),
        "unused": render.top_unused(cores),
        "colors": {**KIND_COLORS, _ANY: KIND_COLORS["other"]},
        "cores": [
            {
                "core": core.core,
                "busy": core.busy,
                "used": core.memory.used,
                "limit": core.memory.limit,
                "peak": core.memory.peak,
                "kinds": core.kinds,
            }
            for core in cores
            if core.memory.peak or core.busy
        ],
    }


def _shell() -> Any:
    from IPython.core.getipython import get_ipython

    return get_ipython()
