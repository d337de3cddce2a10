"""Pure functions from data to text, HTML and the formats of other tools."""

from __future__ import annotations

from neuron_lab.render._cache import cache_html, cache_text, change_html, change_text
from neuron_lab.render._difference import difference_html, difference_text
from neuron_lab.render._document import csv_tables, document
from neuron_lab.render._figure import report_figure
from neuron_lab.render._findings import explanation_html, explanation_text
from neuron_lab.render._html import report_frame, report_html
from neuron_lab.render._memory import memory_html, memory_summary, memory_text
from neuron_lab.render._neff import neff_html, neff_text
from neuron_lab.render._recompiles import recompiles_html, recompiles_text
from neuron_lab.render._session import session_html, session_text
from neuron_lab.render._speedscope import speedscope
from neuron_lab.render._status import status_html, status_text
from neuron_lab.render._style import PART_COLORS
from neuron_lab.render._text import report_line, report_text
from neuron_lab.render._top import top_headline, top_html, top_text, top_unused
from neuron_lab.render._trace import chrome_trace
from neuron_lab.render._trial import trial_html, trial_text
from neuron_lab.render._words import PART_LABELS

__all__ = [
    "PART_COLORS",
    "PART_LABELS",
    "cache_html",
    "cache_text",
    "change_html",
    "change_text",
    "chrome_trace",
    "csv_tables",
    "difference_html",
    "difference_text",
    "document",
    "explanation_html",
    "explanation_text",
    "memory_html",
    "memory_summary",
    "memory_text",
    "neff_html",
    "neff_text",
    "recompiles_html",
    "recompiles_text",
    "report_figure",
    "report_frame",
    "report_html",
    "report_line",
    "report_text",
    "session_html",
    "session_text",
    "speedscope",
    "status_html",
    "status_text",
    "top_headline",
    "top_html",
    "top_text",
    "top_unused",
    "trial_html",
    "trial_text",
]
