"""Two reports side by side, as text and HTML."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from textwrap import wrap

from neuron_lab.render import _words
from neuron_lab.render._format import DASH, WIDTH, count, duration, plural, printable, shorten
from neuron_lab.render._grid import aligned, grid_html
from neuron_lab.render._style import STYLE
from neuron_lab.report import Difference, OpChange, binary_size, named_signature

_OPS = 10
_OPS_HTML = 40
_NAMED = 3
_LABEL = 24
_SENTENCE = 300
_LEAST_NAME = 20
_TITLES = ("calls", "compiled", "CPU", "before", "after", "change", "warm median")


def difference_text(found: Difference) -> str:
    """What may not be compared, the split, the ops that changed most, new and lost NEFFs and fallbacks."""
    rows, hidden = _shown(found, _OPS)
    blocks = [
        [
            f"{_title(found)}  {shorten(_devices(found), WIDTH - len(_title(found)) - 2)}",
            *(line for text in _caveats(found) for line in wrap(text, WIDTH, subsequent_indent="  ")[:2]),
        ],
        aligned([("", "before", "after", "change"), *_parts(found)]),
        _ops(found, rows, hidden),
        [line for text in _news(found) for line in wrap(text, WIDTH, subsequent_indent="  ")[:2]],
    ]
    return printable("\n\n".join("\n".join(block) for block in blocks if block))


def difference_html(found: Difference) -> str:
    """The same as tables."""
    rows, hidden = _shown(found, _OPS_HTML)
    head = f'<div class="nrn-head"><b>{escape(_title(found))}</b><span>{escape(shorten(_devices(found), _SENTENCE))}</span></div>'
    caveats = "".join(f'<div class="nrn-partial">{escape(shorten(text, _SENTENCE))}</div>' for text in _caveats(found))
    parts = grid_html(("", "before", "after", "change"), _parts(found))
    cells = _in_use([("op", *_TITLES), *(_op_cells(found, row) for row in rows)])
    ops = grid_html(cells[0], cells[1:]) if rows else ""
    more = f'<div class="nrn-soft">{escape(hidden)}</div>' if hidden else ""
    news = "".join(f"<div>{escape(shorten(text, _SENTENCE))}</div>" for text in _news(found))
    return printable(f'<div class="nrn">{STYLE}{head}{caveats}{parts}{ops}{more}{news}</div>')


def _title(found: Difference) -> str:
    return " → ".join(shorten(name, _LABEL) for name in found.names)


def _devices(found: Difference) -> str:
    names = [report.recording.environment.device for report in (found.before, found.after)]
    files = [report.file for report in (found.before, found.after) if report.file]
    return " → ".join(dict.fromkeys(names)) + "".join(f" · loaded from {file}" for file in files)


def _caveats(found: Difference) -> list[str]:
    if found.times or not found.caveats:
        return [f"note: {text}" for text in found.caveats]
    return ["times are not compared: " + found.caveats[0], *(f"also: {text}" for text in found.caveats[1:])]


def _shown(found: Difference, most: int) -> tuple[list[OpChange], str]:
    """Ops in which something changed, and a sentence for the others."""
    rows = [row for row in found.ops if found.times or _differs(row)]
    rest = len(found.ops) - len(rows[:most])
    return rows[:most], f"… {plural(rest, 'more op')}, see .ops" if rest else ""


def _differs(row: OpChange) -> bool:
    return any(pair[0] != pair[1] for pair in (row.calls, (row.made_before, row.made_after), row.fallbacks)) or (
        None not in row.median_ns
    )


def _parts(found: Difference) -> list[tuple[str, ...]]:
    labels = {**_words.PART_LABELS, "wall": "wall"}
    rows: list[tuple[str, ...]] = [
        (
            labels[part.name],
            duration(part.before_ns),
            duration(part.after_ns),
            _change(part.before_ns, part.after_ns) if found.times else DASH,
        )
        for part in found.parts
    ]
    if any(found.peaks):
        rows.append(("peak HBM", *map(binary_size, found.peaks), _change(*found.peaks, binary_size)))
    return rows


def _op_cells(found: Difference, row: OpChange) -> tuple[str, ...]:
    before, after = row.total_ns
    return (
        row.op,
        _pair(*row.calls),
        _pair(row.made_before, row.made_after),
        _pair(*row.fallbacks),
        duration(before) if before else DASH,
        duration(after) if after else DASH,
        _change(before, after) if found.times else DASH,
        _medians(row) if found.medians else DASH,
    )


def _medians(row: OpChange) -> str:
    before, after = row.median_ns
    if before is None or after is None:
        return DASH
    return f"{duration(before)} → {duration(after)}"


def _pair(before: int, after: int) -> str:
    if before == after:
        return count(after) if after else DASH
    return f"{count(before)} → {count(after)}"


def _change(before: int, after: int, words: Callable[[int], str] = duration) -> str:
    if before == after:
        return "0"
    sign = "+" if after > before else "−"
    relative = f" ({sign}{100 * abs(after - before) / before:.0f} %)" if before else ""
    return f"{sign}{words(abs(after - before))}{relative}"


def _news(found: Difference) -> list[str]:
    """NEFFs and fallbacks that came or went."""
    lines = []
    for item in found.new_neffs[:_NAMED]:
        place = found.after.place_of_compile(item.neff)
        name = named_signature(item.op, item.signature)
        cost = f"{'loaded in ' * (item.source == 'disk')}{duration(item.total_ns)}"
        lines.append(f"new NEFF{f' at {place}' if place else ''}, {cost}: {name}")
    if len(found.new_neffs) > _NAMED:
        lines.append(f"… {plural(len(found.new_neffs) - _NAMED, 'more new NEFF')}, see .new_neffs")
    if found.gone_neffs:
        lines.append(f"{plural(len(found.gone_neffs), 'NEFF')} no longer used")
    fell = [row for row in found.ops if row.fallbacks[1] and not row.fallbacks[0]]
    back = [row for row in found.ops if row.fallbacks[0] and not row.fallbacks[1]]
    if fell:
        lines.append("new on the CPU: " + _named([f"{row.op} {count(row.fallbacks[1])}×" for row in fell]))
    if back:
        lines.append("no longer on the CPU: " + _named([f"{row.op} {count(row.fallbacks[0])}×" for row in back]))
    return lines


def _named(names: list[str]) -> str:
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest


def _ops(found: Difference, rows: list[OpChange], hidden: str) -> list[str]:
    if not rows:
        return [hidden] if hidden else []
    cells = _in_use([("op", *_TITLES), *(_op_cells(found, row) for row in rows)])
    kept = list(range(len(cells[0])))
    while True:
        widths = [max(len(row[index]) for row in cells) for index in kept[1:]]
        room = WIDTH - sum(width + 2 for width in widths)
        if room >= _LEAST_NAME or len(kept) == 1:
            break
        kept.pop()
    return [
        *aligned([(shorten(row[0], room), *(row[index] for index in kept[1:])) for row in cells]),
        *filter(None, [hidden]),
    ]


def _in_use(cells: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Without the columns that say nothing in any row below the titles."""
    kept = [index for index in range(len(cells[0])) if index == 0 or any(row[index] != DASH for row in cells[1:])]
    return [tuple(row[index] for index in kept) for row in cells]
