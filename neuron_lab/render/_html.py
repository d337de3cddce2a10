"""A report as one self-contained HTML fragment: inline style, no script, nothing fetched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from neuron_lab.render import _words
from neuron_lab.render._format import DASH, count, duration, plural, share, shorten, size
from neuron_lab.render._style import PART_COLORS, STYLE
from neuron_lab.report import OpRow, Report, View

_NAME_LENGTH = 120
_REASONS = 5
_REASON_LENGTH = 200


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the op table; columns with the same group stand under one heading."""

    group: str
    title: str
    cell: Callable[[OpRow, int], str]


def _seconds(ns: int) -> str:
    return DASH if not ns else f"{ns / 1e9:,.3f}" if ns >= 5e5 else "<.001"


def _milliseconds(ns: float | None) -> str:
    return DASH if not ns else f"{ns / 1e6:,.2f}" if ns >= 5e3 else "<.01"


def _number(value: int) -> str:
    return count(value) if value else DASH


_COLUMNS = (
    _Column("", "share", lambda row, wall: share(row.total_ns, wall)),
    _Column("", "calls", lambda row, wall: count(row.calls)),
    _Column("", "NEFFs", lambda row, wall: _number(row.neffs)),
    _Column("compile s", "all", lambda row, wall: _seconds(row.compile.total_ns)),
    _Column("compile s", "trace", lambda row, wall: _seconds(row.compile.trace_ns)),
    _Column("compile s", "lower", lambda row, wall: _seconds(row.compile.lower_ns)),
    _Column("compile s", "compile", lambda row, wall: _seconds(row.compile.xla_ns)),
    _Column("compile s", "load", lambda row, wall: _seconds(row.compile.load_ns)),
    _Column("cache hits", "memory", lambda row, wall: _number(row.memory_hits)),
    _Column("cache hits", "disk", lambda row, wall: _number(row.disk_hits)),
    _Column("device ms", "all", lambda row, wall: _milliseconds(row.device_ns)),
    _Column("device ms", "median", lambda row, wall: _milliseconds(row.device_median_ns)),
    _Column("CPU fallback", "calls", lambda row, wall: _number(row.fallback_calls)),
    _Column("CPU fallback", "ms", lambda row, wall: _milliseconds(row.fallback_ns)),
    _Column("", "bytes", lambda row, wall: size(row.bytes) if row.bytes else DASH),
)


def report_html(report: Report, view: View) -> str:
    """The whole report. It stays readable where styles or their sheet are stripped, as on GitHub."""
    shown, hidden = view.select(report.op_rows)
    body = [_head(report), _split(report), _table(shown, hidden, report.recording.wall_ns), _reasons(report)]
    versions = escape(" · ".join(_words.footer(report)))
    footer = f'<div class="nrn-foot">{versions}</div>'
    return f'<div class="nrn">{STYLE}{"".join(body)}{footer}</div>'


def _head(report: Report) -> str:
    label = f"<b>{escape(report.summary.label)}</b>" if report.summary.label else ""
    line = escape(" · ".join(_words.headline(report)))
    wall = escape(duration(report.recording.wall_ns))
    head = f'<div class="nrn-head">{label} <span>{line}</span> <span class="nrn-wall">{wall}</span></div>'
    stopped = _words.partial(report.recording)
    return head + (
        f'<div class="nrn-partial" role="alert">{escape(stopped)}; what ran until then:</div>' if stopped else ""
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
        f'<span><span class="nrn-key" style="background:{PART_COLORS[part.name]}"></span>{escape(_words.PART_LABELS[part.name])} '
        f'<b>{escape(duration(part.ns))}</b> <span class="nrn-soft">{escape(share(part.ns, wall))}</span></span>'
        for part in parts
    )
    label = escape("; ".join(texts.values()))
    return f'<div class="nrn-bar" role="img" aria-label="{label}">{segments}</div><div class="nrn-legend">{legend}</div>{_notes(report)}'


def _notes(report: Report) -> str:
    cold, warm = _words.temperature(report)
    notes = [f"cold: {cold}" if cold else "", f"warm: {warm}" if warm else "", _words.copied(report)]
    text = " \N{EN SPACE} ".join(escape(note) for note in notes if note)
    return f'<div class="nrn-soft">{text}</div>' if text else ""


def _table(shown: list[OpRow], hidden: list[OpRow], wall_ns: int) -> str:
    if not shown and not hidden:
        return '<div class="nrn-scroll nrn-soft">no op ran on the device</div>'
    columns = [column for column in _COLUMNS if any(column.cell(row, wall_ns) != DASH for row in shown)]
    rows = "".join(_row(row, columns, wall_ns) for row in shown)
    more = _words.left_out(hidden)
    note = f'<div class="nrn-soft">{escape(more)}</div>' if more else ""
    return f'<div class="nrn-scroll"><table class="nrn-t"><thead>{_headings(columns)}</thead><tbody>{rows}</tbody></table>{note}</div>'


def _headings(columns: list[_Column]) -> str:
    """Two rows: groups above their columns, ungrouped columns over both."""
    upper, lower = ['<th class="nrn-name" rowspan="2" scope="col">op</th>'], []
    for index, column in enumerate(columns):
        if not column.group:
            upper.append(f'<th rowspan="2" scope="col">{column.title}</th>')
            continue
        hint = ' title="over warm calls"' if column.title == "median" else ""
        lower.append(f'<th scope="col"{hint}>{column.title}</th>')
        if index == 0 or columns[index - 1].group != column.group:
            span = sum(other.group == column.group for other in columns)
            upper.append(f'<th class="nrn-group" colspan="{span}" scope="colgroup"><span>{column.group}</span></th>')
    return f"<tr>{''.join(upper)}</tr><tr>{''.join(lower)}</tr>"


def _row(row: OpRow, columns: list[_Column], wall_ns: int) -> str:
    cells = "".join(f"<td>{escape(column.cell(row, wall_ns))}</td>" for column in columns)
    name = escape(shorten(row.op, _NAME_LENGTH))
    if not row.fallback_calls:
        return f'<tr><th class="nrn-name" scope="row" title="{name}">{name}</th>{cells}</tr>'
    return f'<tr class="nrn-cpu"><th class="nrn-name" scope="row" title="{name}">{name}<span class="nrn-tag">CPU</span></th>{cells}</tr>'


def _reasons(report: Report) -> str:
    found = _words.fallback_reasons(report)
    lines = [
        f'<div><span class="nrn-code">{escape(shorten(row.op, _NAME_LENGTH))}</span> ran on the CPU {count(row.fallback_calls)}×, '
        f"{escape(duration(row.fallback_ns))}: {escape(shorten(reason, _REASON_LENGTH))}</div>"
        for row, reason in found[:_REASONS]
    ]
    if len(found) > _REASONS:
        lines.append(
            f'<div class="nrn-soft">… {plural(len(found) - _REASONS, "more op")} fell back, see <span class="nrn-code">.fallbacks</span></div>'
        )
    return "".join(lines)
