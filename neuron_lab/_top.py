"""What the cores do now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuron_lab import _notebook, device, render, widgets
from neuron_lab.device import DeviceInfo
from neuron_lab.recording import CoreLoad, Meter, core_loads, holdings

if TYPE_CHECKING:
    import pandas as pd

    from neuron_lab.widgets._live import Live


@dataclass(frozen=True, slots=True)
class Top:
    """One look at the cores. In a notebook it displays as a table; `.frame` is a DataFrame.

    `span_ns` is the time since the look before, which `busy` of each core is about; None at the first look of a process, with
    which the counting begins, and where the device does not tell.
    """

    device: DeviceInfo
    span_ns: int | None
    cores: tuple[CoreLoad, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """One row a core: busy from 0 to 1, HBM in bytes, in all and by category."""
        import pandas as pd

        rows = [
            {"core": core.core, "busy": core.busy, "used": core.memory.used, "limit": core.memory.limit}
            | {"peak": core.memory.peak, **dict(core.kinds)}
            for core in self.cores
        ]
        return pd.DataFrame(rows, columns=None if rows else ["core", "busy", "used", "limit", "peak"])

    def explore(self) -> Live:
        """The same as a Jupyter widget that follows the cores: twice a second while a cell runs, never while one is measured."""
        return widgets.top_view(_look, Meter(device.busy_ns, device.now_ns))

    def to_text(self) -> str:
        """The table as text, 100 columns at most."""
        return render.top_text(self.device, self.span_ns, self.cores)

    def to_html(self) -> str:
        """The table as one self-contained HTML fragment."""
        return render.top_html(self.device, self.span_ns, self.cores)

    def __repr__(self) -> str:
        return f"<neuron top: {len(self.cores)} cores>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.to_text(), "text/html": self.to_html()}


_meter = Meter(lambda: device.busy_ns(), lambda: device.now_ns())


def top() -> Top:
    """Each core now: the part of the time since the last call in which it ran something, and HBM by category.

    Busy is the core that runs an executable; what falls back to the CPU, and copies, leave it idle. The first call begins to count.
    """
    return _look(_meter)


def _look(meter: Meter) -> Top:
    read = meter.read()
    span_ns, busy = read if read is not None else (None, None)
    cores = core_loads(device.core_memory(), busy, holdings(_notebook.roots()))
    return Top(device.resolve(), span_ns, cores)
