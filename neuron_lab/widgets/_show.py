"""Making explorers and showing them. The widget libraries are imported when the first one is made."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from neuron_lab.report import Report, View

if TYPE_CHECKING:
    from neuron_lab.widgets._explorer import Explorer

# Recordings that stay reachable only because a cell was profiled once.
_KEPT = 8
_shown: deque[Explorer] = deque()


def explorer(report: Report, view: View) -> Explorer:
    """The explorer of one report as a Jupyter widget."""
    from neuron_lab.widgets._explorer import Explorer

    return Explorer(report, view)


def show_unasked(found: Explorer) -> None:
    """Display it below the report that it takes the place of. The oldest of more than a few is released."""
    from IPython.display import display

    _shown.append(found)
    if len(_shown) > _KEPT:
        _shown.popleft().release()
    display(found)  # type: ignore[no-untyped-call]
