"""From a Recording to tables, the split and the summary. Pure: nothing here calls torch."""

from __future__ import annotations

from neuron_lab.report._budget import Budget
from neuron_lab.report._codes import EXPLANATIONS, Explanation, explanation
from neuron_lab.report._difference import Difference, OpChange, PartChange
from neuron_lab.report._findings import Findings
from neuron_lab.report._guards import GuardFailure, guard_failure
from neuron_lab.report._held import HeldRow, held_rows
from neuron_lab.report._lines import GutterLine, LineRow, compile_lines, gutter
from neuron_lab.report._memory import Curve, Portion, named
from neuron_lab.report._modules import ModuleRow, phase_times
from neuron_lab.report._neffs import NEFF_SORTS, CacheChange, NeffEntry, dispensable, in_order, neffs_frame
from neuron_lab.report._recompiles import Change, Recompile, Repeated, repeated
from neuron_lab.report._report import Report
from neuron_lab.report._rules import Finding
from neuron_lab.report._session import SessionRow, session_frame, session_row, session_total
from neuron_lab.report._signature import named_signature
from neuron_lab.report._sizes import binary_size, plural, three_digits
from neuron_lab.report._split import Part, Split
from neuron_lab.report._summary import Summary
from neuron_lab.report._tables import NeffRow, OpRow
from neuron_lab.report._trial import (
    GraphBreak,
    OutputDifference,
    Trial,
    TrialSide,
    trial_breaks_frame,
    trial_frame,
    trial_outputs_frame,
)
from neuron_lab.report._view import GROUPS, MOST_ROWS, SORTS, View

__all__ = [
    "EXPLANATIONS",
    "GROUPS",
    "MOST_ROWS",
    "NEFF_SORTS",
    "SORTS",
    "Budget",
    "CacheChange",
    "Change",
    "Curve",
    "Difference",
    "Explanation",
    "Finding",
    "Findings",
    "GraphBreak",
    "GuardFailure",
    "GutterLine",
    "HeldRow",
    "LineRow",
    "ModuleRow",
    "NeffEntry",
    "NeffRow",
    "OpChange",
    "OpRow",
    "OutputDifference",
    "Part",
    "PartChange",
    "Portion",
    "Recompile",
    "Repeated",
    "Report",
    "SessionRow",
    "Split",
    "Summary",
    "Trial",
    "TrialSide",
    "View",
    "binary_size",
    "compile_lines",
    "dispensable",
    "explanation",
    "guard_failure",
    "gutter",
    "held_rows",
    "in_order",
    "named",
    "named_signature",
    "neffs_frame",
    "phase_times",
    "plural",
    "repeated",
    "session_frame",
    "session_row",
    "session_total",
    "three_digits",
    "trial_breaks_frame",
    "trial_frame",
    "trial_outputs_frame",
]
