"""A report as plain text: at most 100 columns, and 40 lines with the default view."""

from __future__ import annotations

from neuron_lab.render import _words
from neuron_lab.render._columns import COLUMNS, in_use, name_of, rows_of
from neuron_lab.render._curve import memory_lines
from neuron_lab.render._findings import findings_text
from neuron_lab.render._format import WIDTH, count, duration, ending, padded, plural, printable, shorten, wrapped
from neuron_lab.render._format import columns as width_of
from neuron_lab.render._gutter import gutter_text
from neuron_lab.report import Part, Report, View, gutter

LINES = 40
_NAME_WIDTH = {"op": 24, "neff": 48, "module": 28}
_LABEL_WIDTH = 30
_REASONS = 3
_GUTTER = 14
_GUTTER_LEAST = 3
_GLYPHS = {"compile": "█", "load": "▄", "startup": "▀", "device": "▓", "fallback": "▒", "copies": "░", "rest": "·"}
_SHORT_LABELS = {**_words.PART_LABELS, "fallback": "fallback", "rest": "Python, rest"}


def report_text(report: Report, view: View) -> str:
    """The whole report."""
    above = [[*_head(report), *_split(report)]]
    if view.by != "line":
        above.append(_table(report, view))
    below = [memory_lines(report), findings_text(report), _reasons(report)]
    footer = wrapped(_words.footer(report), " · ", WIDTH)
    taken = len(_joined([*above, *below])) + len(footer)
    lines = [*_joined([*above, _lines(report, view, LINES - taken - 1), *below]), *footer]
    return printable("\n".join(lines))


def report_line(report: Report) -> str:
    """The report in one line, for a repr."""
    found = report.summary
    parts = [
        shorten(found.label or "profile", _LABEL_WIDTH),
        _words.partial(report),
        duration(report.recording.wall_ns),
    ]
    return printable(" · ".join([*filter(None, parts), *_words.headline(report)]))


def _head(report: Report) -> list[str]:
    label, wall = shorten(report.summary.label, _LABEL_WIDTH), duration(report.recording.wall_ns)
    left = f"{label}  " if label else ""
    room = WIDTH - width_of(left) - len(wall)
    parts = _words.headline(report)
    if width_of(" · ".join(parts)) > room - 2:  # how many of the NEFFs were made stands below as well
        parts[-1] = parts[-1].partition(", ")[0]
    lines = [f"{left}{padded(shorten(' · '.join(parts), room - 2), room)}{wall}"]
    if report.file:
        lines.append(shorten(_words.loaded(report), WIDTH))
    if report.recording.partial:
        lines.append(shorten(_words.partial(report) + "; what ran until then:", WIDTH))
    return lines


def _split(report: Report) -> list[str]:
    parts = report.split.parts
    if not report.split.wall_ns:
        return []
    legend = [f"{_GLYPHS[part.name]} {_SHORT_LABELS[part.name]} {duration(part.ns)}" for part in parts if part.ns]
    cold, warm = _words.temperature(report)
    notes = [
        f"cold: {cold}" if cold else "",
        f"warm: {warm}" if warm else "",
        _words.copied(report),
        _words.phases(report),
    ]
    return [bar(parts), *wrapped(legend, "  ", WIDTH), *wrapped(list(filter(None, notes)), "   ", WIDTH)]


def bar(parts: tuple[Part, ...], width: int = WIDTH) -> str:
    """Glyphs in proportion, `width` in all; a part that is there gets at least one."""
    total = sum(part.ns for part in parts)
    cells = {part.name: max(1, part.ns * width // total) for part in parts if part.ns}
    largest = max(parts, key=lambda part: part.ns).name
    cells[largest] += width - sum(cells.values())
    return "".join(_GLYPHS[part.name] * cells.get(part.name, 0) for part in parts)


def _table(report: Report, view: View) -> list[str]:
    wall_ns = report.recording.wall_ns
    shown, hidden = rows_of(report, view)
    if not shown and not hidden:
        return ["no op ran on the device"]
    columns = in_use(COLUMNS, shown, wall_ns, view.sort)
    while True:
        cells = [
            [column.title + " ▾" * (column.sort == view.sort) for column in columns],
            *([column.cell(row, wall_ns) for column in columns] for row in shown),
        ]
        widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
        room = WIDTH - sum(width + 2 for width in widths)
        if room >= _NAME_WIDTH[view.by] or len(columns) <= 1:
            break
        columns.remove(max(columns, key=lambda column: (column.sort != view.sort, column.rank)))
    names = [view.by.upper() if view.by == "neff" else view.by, *map(name_of, shown)]
    name_width = min(room, max(map(width_of, names)))
    fitted = ending if view.by == "module" else shorten
    lines = [
        padded(fitted(name, name_width), name_width)
        + "".join(f"  {cell:>{width}}" for cell, width in zip(line, widths, strict=True))
        for name, line in zip(names, cells, strict=True)
    ]
    return [*lines, *filter(None, [_words.left_out(hidden)])]


def _lines(report: Report, view: View, room: int) -> list[str]:
    rows = report.line_rows
    if view.by == "line":
        chosen, hidden = view.select(rows)
        if not chosen and not hidden:
            return ["no op ran on the device"]
        shown, no_room = gutter(report.recording, sorted(chosen, key=rows.index), max(LINES, view.lines))
        return gutter_text(shown, [*no_room, *hidden])
    count_of_lines = min(room - 1, _GUTTER)
    if count_of_lines < _GUTTER_LEAST or not rows:
        return []
    return gutter_text(*gutter(report.recording, rows, count_of_lines))


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
