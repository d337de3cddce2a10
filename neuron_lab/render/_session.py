"""Every profile of a session in one table, as text and HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from neuron_lab.render._format import DASH, WIDTH, count, duration, plural, printable, shorten
from neuron_lab.render._grid import aligned, grid_html
from neuron_lab.render._style import STYLE
from neuron_lab.report import SessionRow, session_total

_ROWS = 30
_ROWS_HTML = 150
_LABEL = 28
_CODES = 3
_LEAST_LABEL = 8
_TITLES = ("wall", "compile", "load", "start", "device", "CPU", "copies", "NEFFs", "fallbacks", "findings")
# Which columns go first when the line gets too long.
_RANK = (0, 1, 5, 7, 2, 4, 6, 3, 8, 1)


def session_text(rows: Sequence[SessionRow], forgotten: int) -> str:
    """The newest rows and the sum of all, 100 columns and 40 lines at most."""
    shown = [_cells(row) for row in rows[-_ROWS:]]
    cells = [("", *_TITLES), *shown, _cells(session_total(rows))]
    used = [index for index in range(1, len(cells[0])) if any(row[index] != DASH for row in cells[1:])]
    widths = {index: max(len(row[index]) for row in cells) for index in used}
    names = max(_LEAST_LABEL, *(len(row[0]) for row in cells))
    while names + sum(width + 2 for width in widths.values()) > WIDTH and len(widths) > 1:
        widths.pop(max(widths, key=lambda index: _RANK[index - 1]))
    lines = aligned([(row[0], *(row[index] for index in widths)) for row in cells])
    return printable("\n".join([shorten(_head(rows), WIDTH), *_earlier(rows, forgotten, _ROWS), "", *lines]))


def session_html(rows: Sequence[SessionRow], forgotten: int) -> str:
    """The same as a table."""
    cells = [_cells(row) for row in (*rows[-_ROWS_HTML:], session_total(rows))]
    used = [index for index in range(1, len(cells[0])) if any(row[index] != DASH for row in cells)]
    table = grid_html(
        ("", *(_TITLES[index - 1] for index in used)), [(row[0], *(row[index] for index in used)) for row in cells]
    )
    soft = "".join(f'<div class="nrn-soft">{escape(text)}</div>' for text in _earlier(rows, forgotten, _ROWS_HTML))
    return printable(f'<div class="nrn">{STYLE}<div>{escape(_head(rows))}</div>{soft}{table}</div>')


def _head(rows: Sequence[SessionRow]) -> str:
    total = session_total(rows)
    emulated = " · emulated, not Trainium" if total.emulated else ""
    return f"{plural(len(rows), 'profile')} · {total.device}{emulated}"


def _earlier(rows: Sequence[SessionRow], forgotten: int, most: int) -> list[str]:
    notes = []
    if len(rows) > most:
        notes.append(f"… {count(len(rows) - most)} earlier, see .frame; the total has them")
    if forgotten:
        notes.append(f"{count(forgotten)} before these are not kept, and not in the total")
    return notes


def _cells(row: SessionRow) -> tuple[str, ...]:
    stopped = f" ({row.error})" if row.error else ""
    made = f"{count(row.neffs_compiled)} new" if row.neffs_compiled else ""
    loaded = f"{count(row.neffs_loaded)} loaded" if row.neffs_loaded else ""
    times = (
        *(row.wall_ns, row.compile_ns, row.load_ns, row.startup_ns),
        *(row.device_ns, row.fallback_ns, row.copies_ns),
    )
    return (
        shorten((row.label or "profile") + stopped, _LABEL),
        *(duration(ns) if ns else DASH for ns in times),
        ", ".join(filter(None, [made, loaded])) or DASH,
        count(row.fallback_calls) if row.fallback_calls else DASH,
        _codes(row),
    )


def _codes(row: SessionRow) -> str:
    found = Counter(row.findings).most_common()
    texts = [f"{code}{f' ×{times}' if times > 1 else ''}" for code, times in found[:_CODES]]
    more = [f"+{len(found) - _CODES}"] if len(found) > _CODES else []
    return " ".join([*texts, *more]) or DASH
