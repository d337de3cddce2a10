"""The result of comparing eager with compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neuron_lab import render
from neuron_lab.report import Trial, trial_breaks_frame, trial_frame, trial_outputs_frame

if TYPE_CHECKING:
    import pandas as pd


class CompileTrial:
    """Eager against compiled. In a notebook it displays as tables; `.sides`, `.outputs` and `.breaks` are DataFrames."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial

    @property
    def sides(self) -> pd.DataFrame:
        """One row for eager, one for compiled: seconds of the median of `cold_n` first calls and of compiling in it, NEFFs, warm
        latency of `n` calls in ms, peak HBM in bytes."""
        return trial_frame(self.trial)

    @property
    def outputs(self) -> pd.DataFrame:
        """One row a tensor of the result: how far it is from the eager one, `max_abs` in its own unit, `max_rel` as a part of the value."""
        return trial_outputs_frame(self.trial)

    @property
    def breaks(self) -> pd.DataFrame:
        """One row a graph break: reason and place."""
        return trial_breaks_frame(self.trial)

    @property
    def break_even(self) -> tuple[int, int, int | None] | None:
        """Calls after which compiling has paid, with the bounds of its 95 % interval; None when it never does."""
        return self.trial.break_even

    def to_text(self) -> str:
        """The comparison as text, 100 columns at most."""
        return render.trial_text(self.trial)

    def to_html(self) -> str:
        """The comparison as one self-contained HTML fragment."""
        return render.trial_html(self.trial)

    def __repr__(self) -> str:
        return f"<neuron eager against compiled: {self.trial.label}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.to_text(), "text/html": self.to_html()}
