"""Making live views and showing them. The widget libraries are imported when the first one is made."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from neuron_lab import render
from neuron_lab.recording import Meter
from neuron_lab.report import Difference, Report, SessionRow, View
from neuron_lab.widgets._holdings import Held, holdings_meta
from neuron_lab.widgets._payload import payload
from neuron_lab.widgets._session import session_meta

if TYPE_CHECKING:
    from neuron_lab.widgets._live import Live
    from neuron_lab.widgets._top import Seen

# Recordings that stay reachable only because a cell was profiled once.
_KEPT = 8
_shown: deque[Live] = deque()


def explorer(report: Report, view: View) -> Live:
    """The explorer of one report."""
    from neuron_lab.widgets._live import Content, Live

    def make() -> Content:
        found = payload(report, view)
        return Content(found.meta, (found.columns,))

    return Live(f"explorer of {report.recording.label or 'a profile'}", "mount", make)


def pair(difference: Difference) -> Live:
    """The explorers of two reports side by side, below what changed; they move together."""
    from neuron_lab.widgets._live import Content, Live

    def make() -> Content:
        sides = [payload(report, View()) for report in (difference.before, difference.after)]
        meta = {"head": render.difference_html(difference), "sides": [side.meta for side in sides]}
        return Content(meta, tuple(side.columns for side in sides))

    return Live(f"explorer of {' → '.join(difference.names)}", "mountPair", make)


def holdings_view(look: Callable[[bool], Held], freed: int | None) -> Live:
    """Who holds HBM, as bars, with a button that frees; `look(free)` tells who does, after having freed when that is asked. `freed`: bytes that were before."""
    from neuron_lab.widgets._live import Content, Live

    def make() -> Content:
        return Content(holdings_meta(look(False), freed))

    def act(_: str) -> None:
        nonlocal freed
        freed = look(True).freed

    return Live("memory by name", "mountHoldings", make, act)


def session_view(rows: Sequence[SessionRow], forgotten: int) -> Live:
    """Every profile of a session as a table that sorts."""
    from neuron_lab.widgets._live import Content, Live

    return Live(
        f"session of {len(rows)} profile{'s' * (len(rows) != 1)}",
        "mountSession",
        lambda: Content(session_meta(rows, forgotten)),
    )


def top_view(look: Callable[[Meter], Seen], meter: Meter) -> Live:
    """The cores as bars that follow what they do."""
    from neuron_lab.widgets._top import TopView

    return TopView(look, meter)


def show_unasked(found: Live) -> None:
    """Display it below the report that it takes the place of.

    What an earlier run of the cell showed is closed, the oldest of more than a few released.
    """
    from IPython.display import display

    found.replaces = True
    found.place = _place()
    for earlier in [other for other in _shown if _was_before(other.place, found.place)]:
        _shown.remove(earlier)
        earlier.release()
        earlier.close()
    _shown.append(found)
    if len(_shown) > _KEPT:
        _shown.popleft().release()
    display(found)  # type: ignore[no-untyped-call]


def _place() -> tuple[str, str] | None:
    """The cell that runs and this run of it, where the front end tells."""
    from IPython.core.getipython import get_ipython

    # ipykernel has it; other kernels of Python may not.
    get_parent = getattr(getattr(get_ipython(), "kernel", None), "get_parent", None)
    if get_parent is None:
        return None
    request = get_parent()
    cell = request.get("metadata", {}).get("cellId")
    return None if cell is None else (cell, request["header"]["msg_id"])


def _was_before(place: tuple[str, str] | None, now: tuple[str, str] | None) -> bool:
    """Whether `place` is an earlier run of the same cell."""
    return place is not None and now is not None and place[0] == now[0] and place != now
