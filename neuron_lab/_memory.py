"""Who holds the device's memory, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuron_lab import _notebook, device, render, widgets
from neuron_lab.device import CoreMemory
from neuron_lab.recording import Holding, holdings

if TYPE_CHECKING:
    import pandas as pd

    from neuron_lab.widgets._live import Live


@dataclass(frozen=True, slots=True)
class Memory:
    """HBM in use. In a notebook it displays as a table; `.frame` is a DataFrame. `freed`: bytes that `free=True` gave back, else None."""

    cores: tuple[CoreMemory, ...]
    holdings: tuple[Holding, ...]
    freed: int | None = None

    @property
    def frame(self) -> pd.DataFrame:
        """One row a block of HBM, the largest first: names, kind, core, bytes, shape and dtype of the largest tensor in it."""
        import pandas as pd

        columns = ["name", "kind", "core", "bytes", "shape", "dtype", "names"]
        rows = [
            [item.names[0] if item.names else "", item.kind, item.core, item.bytes, item.shape, item.dtype, item.names]
            for item in self.holdings
        ]
        return pd.DataFrame(rows, columns=columns)

    def explore(self) -> Live:
        """The same as bars in a Jupyter widget, as it is when somebody looks, with a button that does what `free=True` does."""
        return widgets.holdings_view(lambda free: memory(free=free), self.freed)

    def to_text(self) -> str:
        """The table as text, 100 columns at most."""
        return render.memory_text(self.cores, self.holdings, self.freed)

    def to_html(self) -> str:
        """The table as one self-contained HTML fragment."""
        return render.memory_html(self.cores, self.holdings, self.freed)

    def __repr__(self) -> str:
        return f"<neuron memory: {len(self.holdings)} blocks, {sum(item.bytes for item in self.holdings)} bytes>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.to_text(), "text/html": self.to_html()}


def memory(*, free: bool = False) -> Memory:
    """Live device tensors by the name that holds them: variable, module path, optimizer state, `Out[n]`, last traceback.

    free: first let go of what the notebook itself keeps alive (Out, `_`, `_5`, the last traceback), never of your own variables.
    """
    freed = None
    if free:
        before = sum(core.used for core in device.core_memory())
        _notebook.free()
        freed = max(0, before - sum(core.used for core in device.core_memory()))
    return Memory(device.core_memory(), holdings(_notebook.roots()), freed)
