"""From a Recording to tables, the split and the summary. Pure: nothing here calls torch."""

from __future__ import annotations

from neuron_lab.report._budget import Budget
from neuron_lab.report._codes import EXPLANATIONS, Explanation, explanation
from neuron_lab.report._difference import Difference, OpChange, PartChange
from neuron_lab.report._findings import Findings
from neuron_lab.report._lines import GutterLine, LineRow, gutter
from neuron_lab.report._recompiles import Change, Recompile, changed, fix_for
from neuron_lab.report._report import Report
from neuron_lab.report._rules import Finding
from neuron_lab.report._session import SessionRow, session_frame, session_row, session_total
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
from neuron_lab.report._view import GROUPS, SORTS, View

__all__ = [
    "EXPLANATIONS",
    "GROUPS",
    "SORTS",
    "Budget",
    "Change",
    "Difference",
    "Explanation",
    "Finding",
    "Findings",
    "GraphBreak",
    "GutterLine",
    "LineRow",
    "NeffRow",
    "OpChange",
    "OpRow",
    "OutputDifference",
    "Part",
    "PartChange",
    "Recompile",
    "Report",
    "SessionRow",
    "Split",
    "Summary",
    "Trial",
    "TrialSide",
    "View",
    "changed",
    "explanation",
    "fix_for",
    "gutter",
    "session_frame",
    "session_row",
    "session_total",
    "trial_breaks_frame",
    "trial_frame",
    "trial_outputs_frame",
]
