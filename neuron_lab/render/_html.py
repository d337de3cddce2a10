"""A report as one self-contained HTML fragment: inline style, no script, nothing fetched."""

from __future__ import annotations

from html import escape

from neuron_lab.render import _words
from neuron_lab.render._columns import rows_of
from neuron_lab.render._curve import memory_section
from neuron_lab.render._findings import findings_html
from neuron_lab.render._format import count, duration, plural, printable, share, shorten
from neuron_lab.render._html_tables import NAME_LENGTH, gutter_html, table
from neuron_lab.render._style import PART_COLORS, STYLE
from neuron_lab.report import Report, View, gutter

_REASONS = 5
_REASON_LENGTH = 200
_GUTTER = 24


def report_html(report: Report, view: View) -> str:
    """The whole report. It stays readable where styles or their sheet are stripped, as on GitHub."""
    body = [_head(report), _split(report)]
    if view.by != "line":
        title = "NEFF" if view.by == "neff" else view.by
        body.append(table(title, *rows_of(report, view), report.recording.wall_ns, view.sort))
    body += [_lines(report, view), memory_section(report), findings_html(report), _reasons(report)]
    return printable(f'<div class="nrn" data-nrn-report="">{STYLE}{"".join(body)}{_foot(report)}</div>')


def report_frame(report: Report) -> tuple[str, str]:
    """What stands above and below the tables, for a page that draws those itself: headline and split, and the footer."""
    return f'<div class="nrn">{STYLE}{_head(report)}{_split(report)}</div>', f'<div class="nrn">{_foot(report)}</div>'


def _foot(report: Report) -> str:
    return f'<div class="nrn-foot">{_pieces(_words.footer(report))}</div>'


def _pieces(parts: list[str]) -> str:
    """Phrases with dots between them; a narrow page breaks between two phrases."""
    return " · ".join(f'<span class="nrn-bit">{escape(shorten(part, _REASON_LENGTH))}</span>' for part in parts)


def _head(report: Report) -> str:
    label = f"<b>{escape(shorten(report.summary.label, NAME_LENGTH))}</b> " if report.summary.label else ""
    wall = escape(duration(report.recording.wall_ns))
    line = _pieces(_words.headline(report))
    head = f'<div class="nrn-head"><div>{label}{line}</div><div class="nrn-wall">{wall}</div></div>'
    if report.file:
        head += f'<div class="nrn-soft">{escape(shorten(_words.loaded(report), _REASON_LENGTH))}</div>'
    stopped = _words.partial(report)
    return head + (
        f'<div class="nrn-partial" role="alert">{escape(shorten(stopped, _REASON_LENGTH))}; what ran until then:</div>'
        if stopped
        else ""
    )


def _split(report: Report) -> str:
    wall = report.split.wall_ns
    parts = [part for part in report.split.parts if part.ns]
    if not wall:
        return ""
    texts = {
        part.name: f"{_words.PART_LABELS[part.name]} {duration(part.ns)}, {share(part.ns, wall)}" for part in parts
    }
    segments = "".join(
        f'<span style="width:{100 * part.ns / wall:.3f}%;background:{PART_COLORS[part.name]}" title="{escape(texts[part.name])}"></span>'
        for part in parts
    )
    legend = " ".join(
        f'<span class="nrn-bit"><span class="nrn-key" style="background:{PART_COLORS[part.name]}"></span>'
        f"{escape(_words.PART_LABELS[part.name])} <b>{escape(duration(part.ns))}</b> "
        f'<span class="nrn-soft">{escape(share(part.ns, wall))}</span></span>'
        for part in parts
    )
    label = escape("; ".join(texts.values()))
    return f'<div class="nrn-bar" role="img" aria-label="{label}">{segments}</div><div class="nrn-legend">{legend}</div>{_notes(report)}'


def _notes(report: Report) -> str:
    cold, warm = _words.temperature(report)
    notes = [
        f"cold: {cold}" if cold else "",
        f"warm: {warm}" if warm else "",
        _words.copied(report),
        _words.phases(report),
    ]
    text = " \N{EN SPACE} ".join(f'<span class="nrn-bit">{escape(note)}</span>' for note in notes if note)
    return f'<div class="nrn-soft">{text}</div>' if text else ""


def _lines(report: Report, view: View) -> str:
    rows = report.line_rows
    if view.by != "line":
        return gutter_html(*gutter(report.recording, rows, _GUTTER))
    chosen, hidden = view.select(rows)
    if not chosen and not hidden:
        return '<div class="nrn-scroll nrn-soft">no op ran on the device</div>'
    shown, no_room = gutter(report.recording, sorted(chosen, key=rows.index), max(_GUTTER, view.lines))
    return gutter_html(shown, [*no_room, *hidden])


def _reasons(report: Report) -> str:
    found = _words.fallback_reasons(report)
    lines = [
        f'<div><span class="nrn-code">{escape(shorten(row.op, NAME_LENGTH))}</span> ran on the CPU {count(row.fallback_calls)}×, '
        f"{escape(duration(row.fallback_ns))}: {escape(shorten(reason, _REASON_LENGTH))}</div>"
        for row, reason in found[:_REASONS]
    ]
    if len(found) > _REASONS:
        lines.append(
            f'<div class="nrn-soft">… {plural(len(found) - _REASONS, "more op")} fell back, see <span class="nrn-code">.fallbacks</span></div>'
        )
    return "".join(lines)
