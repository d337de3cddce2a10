"""Pure functions from data to text and HTML."""

from __future__ import annotations

from neuron_lab.render._html import report_html
from neuron_lab.render._status import status_html, status_text
from neuron_lab.render._text import report_line, report_text

__all__ = ["report_html", "report_line", "report_text", "status_html", "status_text"]
