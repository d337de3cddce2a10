"""From a Recording to tables, the split and the summary. Pure: nothing here calls torch."""

from __future__ import annotations

from neuron_lab.report._budget import Budget
from neuron_lab.report._report import Report
from neuron_lab.report._split import Part, Split
from neuron_lab.report._summary import Summary
from neuron_lab.report._tables import NeffRow, OpRow
from neuron_lab.report._view import SORTS, View

__all__ = ["SORTS", "Budget", "NeffRow", "OpRow", "Part", "Report", "Split", "Summary", "View"]
