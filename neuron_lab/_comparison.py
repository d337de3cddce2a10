"""Two profiles side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neuron_lab import render, widgets
from neuron_lab.recording import Compile
from neuron_lab.report import Difference, NeffRow

if TYPE_CHECKING:
    import pandas as pd

    from neuron_lab.widgets._live import Live


class Comparison:
    """What changed from one profile to another. In a notebook it displays as tables; `.ops` and `.parts` are DataFrames."""

    def __init__(self, difference: Difference) -> None:
        self._difference = difference

    @property
    def caveats(self) -> tuple[str, ...]:
        """What stands in the way of comparing, one sentence each: another device, cold against warm, a span cut short."""
        return self._difference.caveats

    @property
    def times_compared(self) -> bool:
        """False when a caveat forbids to subtract the times; only counts are compared then, and medians of one device's warm calls."""
        return self._difference.times

    @property
    def ops(self) -> pd.DataFrame:
        """One row an op, with `_before`, `_after` and `_delta`; a delta is NaN where times are not compared."""
        return self._difference.frame

    @property
    def parts(self) -> pd.DataFrame:
        """One row a part of the wall time, in seconds, "wall" first."""
        return self._difference.parts_frame

    @property
    def new_neffs(self) -> tuple[Compile, ...]:
        """Compiled or loaded in the later profile and not used in the earlier one, the dearest first."""
        return self._difference.new_neffs

    @property
    def gone_neffs(self) -> tuple[NeffRow, ...]:
        """Used in the earlier profile and not in the later one."""
        return self._difference.gone_neffs

    def explore(self) -> Live:
        """Both profiles as explorers side by side that move together, as a Jupyter widget."""
        return widgets.pair(self._difference)

    def to_text(self) -> str:
        """The comparison as text, 100 columns at most."""
        return render.difference_text(self._difference)

    def to_html(self) -> str:
        """The comparison as one self-contained HTML fragment."""
        return render.difference_html(self._difference)

    def __repr__(self) -> str:
        return f"<neuron comparison: {' → '.join(self._difference.names)}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.to_text(), "text/html": self.to_html()}
