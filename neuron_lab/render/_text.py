"""A report as plain text: at most 100 columns, and 40 lines with the default view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from neuron_lab.render import _words
from neuron_lab.render._format import DASH, count, duration, plural, share, shorten, size, wrapped
from neuron_lab.report import OpRow, Part, Report, View

WIDTH = 100
_OP_WIDTH = 24
_LABEL_WIDTH = 30
_REASONS = 3
_GLYPHS = {"compile": "█", "device": "▓", "fallback": "▒", "copies": "░", "rest": "·"}
_SHORT_LABELS = {**_words.PART_LABELS, "fallback": "fallback", "rest": "Python, rest"}


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the op table. Lower `rank` stays longer when the line gets too long."""

    title: str
    rank: int
    cell: Callable[[OpRow, int], str]


def _fallback_cell(row: OpRow) -> str:
    return f"{count(row.fallback_calls)} · {duration(row.fallback_ns)}" if row.fallback_calls else DASH


_COLUMNS = (
    _Column("calls", 0, lambda row, wall: count(row.calls)),
    _Column("NEFFs", 4, lambda row, wall: count(row.neffs) if row.neffs else DASH),
    _Column("compile", 1, lambda row, wall: duration(row.compile.total_ns) if row.compile.total_ns else DASH),
    _Column("device", 1, lambda row, wall: duration(row.device_ns) if row.device_ns else DASH),
    _Column(
        "warm median", 6, lambda row, wall: DASH if row.device_median_ns is None else duration(row.device_median_ns)
    ),
    _Column("fallback", 2, lambda row, wall: _fallback_cell(row)),
    _Column("bytes", 5, lambda row, wall: size(row.bytes) if row.bytes else DASH),
    _Column("share", 3, lambda row, wall: share(row.total_ns, wall)),
)


def report_text(report: Report, view: View) -> str:
    """The whole report."""
    shown, hidden = view.select(report.op_rows)
    blocks = [[*_head(report), *_split(report)], _table(shown, hidden, report.recording.wall_ns), _reasons(report)]
    return "\n".join([*_joined(blocks), *wrapped(_words.footer(report), " · ", WIDTH)])


def report_line(report: Report) -> str:
    """The report in one line, for a repr."""
    found = report.summary
    parts = [found.label or "profile", _words.partial(report.recording), duration(report.recording.wall_ns)]
    return " · ".join([*filter(None, parts), *_words.headline(report)])


def _head(report: Report) -> list[str]:
    label, wall = shorten(report.summary.label, _LABEL_WIDTH), duration(report.recording.wall_ns)
    left = f"{label}  " if label else ""
    room = WIDTH - len(left) - len(wall)
    lines = [f"{left}{shorten(' · '.join(_words.headline(report)), room - 2):<{room}}{wall}"]
    if report.recording.partial:
        lines.append(shorten(_words.partial(report.recording) + "; what ran until then:", WIDTH))
    return lines


def _split(report: Report) -> list[str]:
    parts = report.split.parts
    if not report.split.wall_ns:
        return []
    legend = [f"{_GLYPHS[part.name]} {_SHORT_LABELS[part.name]} {duration(part.ns)}" for part in parts if part.ns]
    cold, warm = _words.temperature(report)
    notes = [f"cold: {cold}" if cold else "", f"warm: {warm}" if warm else "", _words.copied(report)]
    return [bar(parts), *wrapped(legend, "  ", WIDTH), *wrapped(list(filter(None, notes)), "   ", WIDTH)]


def bar(parts: tuple[Part, ...], width: int = WIDTH) -> str:
    """Glyphs in proportion, `width` in all; a part that is there gets at least one."""
    total = sum(part.ns for part in parts)
    cells = {part.name: max(1, part.ns * width // total) for part in parts if part.ns}
    largest = max(parts, key=lambda part: part.ns).name
    cells[largest] += width - sum(cells.values())
    return "".join(_GLYPHS[part.name] * cells.get(part.name, 0) for part in parts)


def _table(shown: list[OpRow], hidden: list[OpRow], wall_ns: int) -> list[str]:
    if not shown and not hidden:
        return ["no op ran on the device"]
    columns = [column for column in _COLUMNS if any(column.cell(row, wall_ns) != DASH for row in shown)]
    while True:
        cells = [
            [column.title for column in columns],
            *([column.cell(row, wall_ns) for column in columns] for row in shown),
        ]
        widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
        room = WIDTH - sum(width + 2 for width in widths)
        if room >= _OP_WIDTH or len(columns) <= 1:
            break
        columns.remove(max(columns, key=lambda column: column.rank))
    names = ["op", *(row.op for row in shown)]
    name_width = min(room, max(map(len, names)))
    lines = [
        f"{shorten(name, name_width):<{name_width}}"
        + "".join(f"  {cell:>{width}}" for cell, width in zip(line, widths, strict=True))
        for name, line in zip(names, cells, strict=True)
    ]
    return [*lines, *filter(None, [_words.left_out(hidden)])]


def _reasons(report: Report) -> list[str]:
    found = _words.fallback_reasons(report)
    lines = [
        shorten(f"{row.op} ran on the CPU {count(row.fallback_calls)}×: {reason}", WIDTH)
        for row, reason in found[:_REASONS]
    ]
    if len(found) > _REASONS:
        lines.append(f"… {plural(len(found) - _REASONS, 'more op')} fell back, see .fallbacks")
    return lines


def _joined(blocks: list[list[str]]) -> list[str]:
    lines: list[str] = []
    for block in blocks:
        if block:
            lines += [*block, ""]
    return lines
