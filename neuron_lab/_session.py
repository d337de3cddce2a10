"""Every profile of this process in one table. Rows of numbers are kept, no recordings."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, overload

from neuron_lab import _files, render, widgets
from neuron_lab._version import __version__
from neuron_lab.errors import UsageProblem
from neuron_lab.report import Report, SessionRow, session_frame, session_row, session_total

if TYPE_CHECKING:
    import pandas as pd

    from neuron_lab.widgets._live import Live

_KEPT = 1000


class _Log:
    """The newest rows, and how many there have been."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: deque[SessionRow] = deque(maxlen=_KEPT)
        self._count = 0

    def add(self, row: SessionRow) -> None:
        with self._lock:
            self._rows.append(row)
            self._count += 1

    def read(self) -> tuple[tuple[SessionRow, ...], int]:
        """The rows kept, oldest first, and the number of those that are not."""
        with self._lock:
            return tuple(self._rows), self._count - len(self._rows)


_log = _Log()


def keep(report: Report) -> None:
    """Note a profile that has ended."""
    _log.add(session_row(report))


@dataclass(frozen=True, slots=True)
class SessionReport:
    """Every profile of the session, oldest first. In a notebook it displays as a table; `.frame` is a DataFrame.

    `forgotten` profiles came before the 1000 newest, which are kept.
    """

    rows: tuple[SessionRow, ...]
    forgotten: int = 0

    @property
    def total(self) -> SessionRow:
        """The sums of all rows."""
        return session_total(self.rows)

    @property
    def frame(self) -> pd.DataFrame:
        """One row a profile, times in seconds."""
        return session_frame(self.rows)

    def explore(self) -> Live:
        """The table as a Jupyter widget that sorts, each profile with where its time went."""
        return widgets.session_view(self.rows, self.forgotten)

    def to_text(self) -> str:
        """The table as text, 100 columns at most."""
        return render.session_text(self.rows, self.forgotten)

    @overload
    def to_html(self) -> str: ...

    @overload
    def to_html(self, path: str | os.PathLike[str]) -> None: ...

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """The table as one self-contained HTML fragment; with a `path`, write it as a page of its own. Raises FileProblem."""
        fragment = render.session_html(self.rows, self.forgotten)
        if path is None:
            return fragment
        _files.write(path, render.document("session", fragment))
        return None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as JSON: `cells` and `total`, times in nanoseconds. Raises FileProblem."""
        data = {
            "format": "neuron_lab session",
            "version": [1, 0],
            "written_by": f"neuron_lab {__version__}",
            "cells": [asdict(row) for row in self.rows],
            "total": asdict(self.total),
            "forgotten": self.forgotten,
        }
        _files.write(path, json.dumps(data, indent=1).encode("ascii") + b"\n")

    def __repr__(self) -> str:
        return f"<neuron session: {len(self.rows)} profiles>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.to_text(), "text/html": self.to_html()}


def session() -> SessionReport:
    """Every profile of this process in one table: wall, compile, device, fallbacks, NEFFs, findings, and the total.

    Raises UsageProblem when nothing was profiled yet.
    """
    rows, forgotten = _log.read()
    if not rows:
        raise UsageProblem(
            "nothing was profiled yet; put `%%neuron profile` at the top of a cell, or use neuron_lab.profile()"
        )
    return SessionReport(rows, forgotten)
