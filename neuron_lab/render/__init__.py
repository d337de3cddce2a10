"""Pure functions from data to text and HTML."""

from __future__ import annotations

from neuron_lab.render._difference import difference_html, difference_text
from neuron_lab.render._findings import explanation_html, explanation_text, recompiles_html, recompiles_text
from neuron_lab.render._html import report_html
from neuron_lab.render._memory import memory_html, memory_text
from neuron_lab.render._status import status_html, status_text
from neuron_lab.render._text import report_line, report_text

__all__ = [
    "difference_html",
    "difference_text",
    "explanation_html",
    "explanation_text",
    "memory_html",
    "memory_text",
    "recompiles_html",
    "recompiles_text",
    "report_html",
    "report_line",
    "report_text",
    "status_html",
    "status_text",
]
