"""The explorer in a page of its own: it opens from disk, fetches nothing, and without script shows the report."""

from __future__ import annotations

import base64
import json

from neuron_lab import render
from neuron_lab.report import Report, View
from neuron_lab.widgets import _code
from neuron_lab.widgets._payload import payload


def explorer_document(report: Report, view: View) -> str:
    """The report, and the explorer that takes its place where script runs."""
    found = payload(report, view)
    # Nothing in a name can end the element: "<" is written as its escape.
    meta = json.dumps(found.meta, separators=(",", ":")).replace("<", "\\u003c")
    body = (
        f'<div id="report">{render.report_html(report, view)}</div><div id="explorer"></div>'
        f'<script type="application/json" id="meta">{meta}</script>'
        f'<script type="text/plain" id="columns">{base64.b64encode(found.columns).decode("ascii")}</script>'
    )
    return render.document(report.recording.label or "profile", body, _code.page())
