"""The NEFF cache, and what a clean-up did, as text and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import wrap

from neuron_lab.render._format import DASH, WIDTH, count, duration, plural, printable, shorten, size, wrapped
from neuron_lab.render._grid import aligned
from neuron_lab.render._style import STYLE
from neuron_lab.report import CacheChange, NeffEntry, named_signature

_KEY = 8
_NAME = 56
_NAME_HTML = 100
# What a notebook that is saved may weigh bounds both, however many rows are asked for.
_ROWS = 500
_ROWS_HTML = 100
_TITLES = ("size", "compile", "hits", "used")
_DAY_S = 86_400


def cache_text(directory: str, rows: Sequence[NeffEntry], top: int, now: float) -> str:
    """The directory, its sums, then the first `top` rows."""
    top = min(top, _ROWS)
    lines = [*wrap(f"NEFF cache {directory}", WIDTH), *wrapped(_sums(rows), " · ", WIDTH)]
    if rows:
        cells = [(f"{row.key[:_KEY]}  {shorten(_name(row), _NAME)}", *_cells(row, now)) for row in rows[:top]]
        lines += ["", *aligned([("key       NEFF", *_TITLES), *cells])]
    return printable("\n".join([*lines, *_rest(rows, top)]))


def cache_html(directory: str, rows: Sequence[NeffEntry], top: int, now: float) -> str:
    """The same as a table."""
    top = min(top, _ROWS_HTML)
    head = (
        f'<div><b>NEFF cache</b> {escape(directory)}</div><div class="nrn-soft">{escape(" · ".join(_sums(rows)))}</div>'
    )
    body = "".join(_row_html(row, now) for row in rows[:top])
    titles = "".join(f'<th scope="col">{title}</th>' for title in _TITLES)
    table = (
        '<table class="nrn-t"><thead><tr><th class="nrn-name" scope="col">key</th><th class="nrn-left" scope="col">NEFF</th>'
        f"{titles}</tr></thead><tbody>{body}</tbody></table>"
    )
    rest = "".join(f'<div class="nrn-soft">{escape(line)}</div>' for line in _rest(rows, top))
    return printable(f'<div class="nrn">{STYLE}{head}<div class="nrn-scroll">{table if rows else ""}{rest}</div></div>')


def _row_html(row: NeffEntry, now: float) -> str:
    mark = ' class="nrn-cpu"' if row.problem else ""
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in _cells(row, now))
    return (
        f'<tr{mark}><th class="nrn-name" scope="row" title="{escape(row.key)}">{escape(row.key[:_KEY])}</th>'
        f'<td class="nrn-left nrn-code">{escape(shorten(_name(row), _NAME_HTML))}</td>{cells}</tr>'
    )


def change_text(change: CacheChange) -> str:
    """A sentence or two."""
    return printable("\n".join(line for text in _sentences(change) for line in wrap(text, WIDTH)))


def change_html(change: CacheChange) -> str:
    """The same as HTML."""
    first, *more = _sentences(change)
    soft = "".join(f'<div class="nrn-soft">{escape(text)}</div>' for text in more)
    return f'<div class="nrn">{STYLE}<div>{escape(first)}</div>{soft}</div>'


def _sentences(change: CacheChange) -> list[str]:
    verb = "would remove" if change.dry_run else "removed"
    found = [
        f"{verb} {plural(len(change.removed), 'NEFF')}, {size(change.freed)}; "
        f"{plural(change.left, 'NEFF')}, {size(change.left_bytes)} left in {change.directory}"
    ]
    if change.forgotten:
        forgotten = "would be forgotten" if change.dry_run else "were forgotten"
        found.append(
            f"{plural(change.forgotten, 'NEFF')} in this process's memory {forgotten}: the next call of each op compiles. Compiled models keep theirs"
        )
    if change.skipped:
        found.append(f"{plural(change.skipped, 'NEFF')} left alone: used meanwhile, or not yours to delete")
    if change.others:
        found.append(f"{plural(change.others, 'NEFF')} of another kind of device not looked at")
    return found


def _sums(rows: Sequence[NeffEntry]) -> list[str]:
    files = [row for row in rows if row.bytes is not None]
    loaded = [row for row in rows if row.hits is not None]
    parts = [f"{plural(len(files), 'NEFF')}, {size(sum(row.bytes or 0 for row in files))} on disk"]
    if loaded:
        alone = len(rows) - len(files)
        parts.append(
            f"{count(len(loaded))} in this process's memory" + (f", {count(alone)} only there" if alone else "")
        )
    emulated = sum(row.emulated for row in files)
    real = sum(not row.emulated and not row.problem for row in files)
    if real and emulated:
        parts.append(f"{count(real)} real, {count(emulated)} emulated")
    damaged = sum(bool(row.problem) for row in rows)
    if damaged:
        parts.append(f"{count(damaged)} that cannot be read")
    return parts


def _rest(rows: Sequence[NeffEntry], top: int) -> list[str]:
    rest = rows[top:]
    return (
        [f"… {count(len(rest))} more ({size(sum(row.bytes or 0 for row in rest))}), see --top or .frame"]
        if rest
        else []
    )


def _name(row: NeffEntry) -> str:
    if row.problem:
        return f"cannot be read: {row.problem}"
    name = named_signature(row.op, row.signature) or row.op
    return name.replace("(", f" · {row.place} (", 1) if row.place else name


def _cells(row: NeffEntry, now: float) -> tuple[str, ...]:
    return (
        DASH if row.bytes is None else size(row.bytes),
        DASH if row.compile_s is None else duration(row.compile_s * 1e9),
        DASH if row.hits is None else count(row.hits),
        DASH if row.used is None else _ago(now - row.used),
    )


def _ago(seconds: float) -> str:
    """ "now", "5 min ago", "3 h ago", "12 d ago"."""
    if seconds < 60:
        return "now"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min ago"
    if seconds < _DAY_S:
        return f"{seconds / 3600:.0f} h ago"
    return f"{count(int(seconds / _DAY_S))} d ago"
