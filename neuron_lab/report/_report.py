"""The report: a Recording seen as tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from neuron_lab.recording import Recording
from neuron_lab.report import _frames
from neuron_lab.report._split import Split, split
from neuron_lab.report._summary import Summary, summary
from neuron_lab.report._tables import NeffRow, OpRow, neff_rows, op_rows

if TYPE_CHECKING:
    import pandas as pd


class Report:
    """Views of one Recording, each made when first asked for. Renderers read the rows; people read the DataFrames."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    @cached_property
    def split(self) -> Split:
        """Where the wall time went."""
        return split(self.recording)

    @cached_property
    def summary(self) -> Summary:
        """Totals in one record."""
        return summary(self.recording, self.split)

    @cached_property
    def op_rows(self) -> tuple[OpRow, ...]:
        """One record an op, the one that took longest first."""
        return op_rows(self.recording)

    @cached_property
    def neff_rows(self) -> tuple[NeffRow, ...]:
        """One record a NEFF, the dearest first."""
        return neff_rows(self.recording)

    @property
    def ops(self) -> pd.DataFrame:
        """One row an op: calls, NEFFs, compile seconds by stage, cache hits, device ms, fallbacks, bytes, share of the wall."""
        return _frames.ops(self.op_rows, self.recording.wall_ns)

    @property
    def neffs(self) -> pd.DataFrame:
        """One row a NEFF: where it came from, what it cost, how often it ran."""
        return _frames.neffs(self.neff_rows)

    @property
    def compiles(self) -> pd.DataFrame:
        """One row a compile or a load from disk, in time order."""
        return _frames.compiles(self.recording)

    @property
    def fallbacks(self) -> pd.DataFrame:
        """One row an op and reason that ran on the CPU."""
        return _frames.fallbacks(self.recording)

    @property
    def copies(self) -> pd.DataFrame:
        """One row a direction: h2d, d2h, d2d."""
        return _frames.copies(self.recording.copy_totals)
