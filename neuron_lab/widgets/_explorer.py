"""The explorer as a Jupyter widget."""

from __future__ import annotations

from typing import Any

import anywidget

from neuron_lab.report import Report, View
from neuron_lab.widgets import _code
from neuron_lab.widgets._payload import payload


class Explorer(anywidget.AnyWidget):
    """One report, live: timeline, tables, source, memory and findings that follow each other.

    Its state is a loader of two kilobytes and nothing else: code and columns are sent when a front end draws it and asks, so that a
    saved notebook stays small, a run that nobody watches pays nothing, and nothing is sent while a cell is measured.
    """

    _esm = _code.loader()

    def __init__(self, report: Report, view: View) -> None:
        super().__init__()
        self._label = report.recording.label or "a profile"
        self._source: tuple[Report, View] | None = (report, view)
        self.on_msg(self._answer)

    def release(self) -> None:
        """Let go of the report, and give the place back to the static one."""
        self._source = None
        self.send({"end": True})

    def _answer(self, _: Any, content: dict[str, Any], __: Any) -> None:
        if "ask" not in content:
            return
        if self._source is None:
            self.send({"end": True})
            return
        found = payload(*self._source)
        # To the view that asked: the widget may be drawn in several places.
        self.send({"to": content["ask"], "code": _code.module(), "meta": found.meta}, [found.columns])

    def __repr__(self) -> str:
        return f"<explorer of {self._label}: live in a notebook with a kernel>"
