"""The report: a Recording seen as tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from neuron_lab.recording import Recording, Where
from neuron_lab.report import _frames
from neuron_lab.report._findings import Findings, findings
from neuron_lab.report._lines import LineRow, compile_lines, line_rows
from neuron_lab.report._memory import Curve, curves
from neuron_lab.report._modules import ModuleRow, module_rows
from neuron_lab.report._recompiles import Recompile, recompiles
from neuron_lab.report._split import Split, split
from neuron_lab.report._summary import Summary, summary
from neuron_lab.report._tables import NeffRow, OpRow, neff_rows, op_rows

if TYPE_CHECKING:
    import pandas as pd


class Report:
    """Views of one Recording, each made when first asked for. Renderers read the rows; people read the DataFrames.

    `file` names the file the recording was loaded from, "" when it was made in this process.
    """

    def __init__(self, recording: Recording, file: str = "") -> None:
        self.recording = recording
        self.file = file

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

    @cached_property
    def line_rows(self) -> tuple[LineRow, ...]:
        """One record a line of the user's source that did something."""
        return line_rows(self.recording)

    @cached_property
    def curves(self) -> tuple[Curve, ...]:
        """HBM over time, one record a core that took or gave back some."""
        return curves(self.recording)

    @cached_property
    def module_rows(self) -> tuple[ModuleRow, ...]:
        """One record a module and phase, the one that took longest first."""
        return module_rows(self.recording)

    @cached_property
    def recompile_rows(self) -> tuple[Recompile, ...]:
        """One record a compile or load, with the nearest signature before it and what differs."""
        return recompiles(self.recording)

    @cached_property
    def findings(self) -> Findings:
        """What a person should know: records with a stable code, where, cost and fix."""
        return findings(self)

    @cached_property
    def _compile_lines(self) -> dict[str, Where]:
        return compile_lines(self.recording)

    @cached_property
    def _names(self) -> dict[str, str]:
        return {source.file: source.name for source in self.recording.sources}

    def place_of_compile(self, neff: str) -> str:
        """ "In[12] line 4": the line that waited for a NEFF to be made or read; "" when it is not known."""
        return self.place(self._compile_lines.get(neff))

    def place(self, where: Where | None) -> str:
        """A line as people name it, "" for None."""
        if where is None:
            return ""
        return f"{self._names.get(where.file, where.file)} line {where.line}"

    @property
    def ops(self) -> pd.DataFrame:
        """One row an op: calls, NEFFs, compile seconds by stage, cache hits, device ms, fallbacks, bytes, share of the wall."""
        return _frames.ops(self.op_rows, self.recording.wall_ns)

    @property
    def neffs(self) -> pd.DataFrame:
        """One row a NEFF: where it came from, what it cost, how often it ran."""
        return _frames.neffs(self.neff_rows)

    @property
    def lines(self) -> pd.DataFrame:
        """One row a line of source: what it compiled and loaded, device ms, fallbacks, copies, bytes, peak HBM."""
        return _frames.lines(self.line_rows)

    @property
    def modules(self) -> pd.DataFrame:
        """One row a module and phase: what ran in the module itself, without those inside it."""
        return _frames.modules(self.module_rows)

    @property
    def compiles(self) -> pd.DataFrame:
        """One row a compile or a load from disk, in time order."""
        return _frames.compiles(self.recording)

    @property
    def recompiles(self) -> pd.DataFrame:
        """One row a compile or load: the nearest signature before it, the one thing that differs, the cost and the fix."""
        return _frames.recompiles(self.recompile_rows, self.place)

    @property
    def graphs(self) -> pd.DataFrame:
        """One row a function that torch.compile traced, in time order: who called, the guard that failed, the fix."""
        return _frames.graphs(self.recording.graphs, self.place)

    @property
    def fallbacks(self) -> pd.DataFrame:
        """One row an op and reason that ran on the CPU."""
        return _frames.fallbacks(self.recording)

    @property
    def copies(self) -> pd.DataFrame:
        """One row a direction: h2d, d2h, d2d."""
        return _frames.copies(self.recording.copy_totals)

    @property
    def memory(self) -> pd.DataFrame:
        """One row a change of HBM, in time order; `used` is the core's use from then on."""
        return _frames.memory(self.recording, self.place)
