"""The tables of a report as HTML: by op, by NEFF, by module, and the user's source line by line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from neuron_lab.render import _words
from neuron_lab.render._columns import Row, name_of, narrowed, phase, warm_median
from neuron_lab.render._format import DASH, count, duration, ending, plural, share, shorten, size
from neuron_lab.report import GutterLine, LineRow, ModuleRow, NeffRow, OpRow, binary_size

NAME_LENGTH = 120
_PATH_LENGTH = 28  # what the column has room for
_CODE_LENGTH = 200


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a table; columns with the same group stand under one heading. `sort` is the order it shows."""

    group: str
    title: str
    cell: Callable[[Row, int], str]
    sort: str = ""
    hint: str = ""


def _seconds(ns: int) -> str:
    return DASH if not ns else f"{ns / 1e9:,.3f}" if ns >= 5e5 else "<.001"


def _milliseconds(ns: float | None) -> str:
    return DASH if not ns else f"{ns / 1e6:,.2f}" if ns >= 5e3 else "<.01"


def _number(value: int) -> str:
    return count(value) if value else DASH


def _of_op(measure: Callable[[OpRow], int], shown: Callable[[int], str] = _number) -> Callable[[Row, int], str]:
    return lambda row, wall: shown(measure(row)) if isinstance(row, OpRow) else DASH


def _of_group(
    measure: Callable[[OpRow | ModuleRow], int], shown: Callable[[int], str] = _number
) -> Callable[[Row, int], str]:
    return lambda row, wall: DASH if isinstance(row, NeffRow) else shown(measure(row))


def _origin(row: Row, wall: int) -> str:
    return row.source if isinstance(row, NeffRow) else DASH


_COLUMNS = (
    _Column("", "phase", lambda row, wall: phase(row)),
    _Column("", "calls", lambda row, wall: count(row.calls), "calls"),
    _Column("", "NEFFs", _of_group(lambda row: row.neffs)),
    _Column("", "from", _origin),
    _Column("compile s", "all", lambda row, wall: _seconds(row.compile.made_ns), "compile", "trace, lower and XLA"),
    _Column("compile s", "trace", lambda row, wall: _seconds(row.compile.trace_ns)),
    _Column("compile s", "lower", lambda row, wall: _seconds(row.compile.lower_ns)),
    _Column("compile s", "XLA", lambda row, wall: _seconds(row.compile.xla_ns)),
    _Column("", "load s", lambda row, wall: _seconds(row.compile.load_ns), "", "reading NEFFs from disk"),
    _Column("cache hits", "memory", _of_op(lambda row: row.memory_hits)),
    _Column("cache hits", "disk", _of_op(lambda row: row.disk_hits)),
    _Column("device ms", "all", lambda row, wall: _milliseconds(row.device_ns), "device"),
    _Column("device ms", "median", lambda row, wall: _milliseconds(warm_median(row)), "", "over warm calls"),
    _Column("CPU fallback", "calls", _of_group(lambda row: row.fallback_calls)),
    _Column("CPU fallback", "ms", _of_group(lambda row: row.fallback_ns, _milliseconds), "fallback"),
    _Column(
        "",
        "64→32",
        lambda row, wall: narrowed(row),
        "",
        "calls with 64-bit values, which TorchNeuron computes in 32 bits; ! when one does not fit",
    ),
    _Column("", "bytes", lambda row, wall: size(row.bytes) if row.bytes else DASH, "bytes"),
    _Column("", "total ms", lambda row, wall: _milliseconds(row.total_ns), "time", "everything its calls took"),
    _Column("", "share", lambda row, wall: share(row.total_ns, wall)),
)


def table(title: str, shown: list[Row], hidden: list[Row], wall_ns: int, sort: str) -> str:
    """Columns that say nothing about these rows are left out."""
    if not shown and not hidden:
        return '<div class="nrn-scroll nrn-soft">no op ran on the device</div>'
    columns = [
        column for column in _COLUMNS if column.sort == sort or any(column.cell(row, wall_ns) != DASH for row in shown)
    ]
    rows = "".join(_row(row, columns, wall_ns) for row in shown)
    more = _words.left_out(hidden)
    note = f'<div class="nrn-soft">{escape(more)}</div>' if more else ""
    head = _headings(title, columns, sort)
    return (
        f'<div class="nrn-scroll"><table class="nrn-t"><thead>{head}</thead><tbody>{rows}</tbody></table>{note}</div>'
    )


def _headings(title: str, columns: list[_Column], sort: str) -> str:
    """Two rows: groups above their columns, ungrouped columns over both."""
    upper, lower = [f'<th class="nrn-name" rowspan="2" scope="col">{title}</th>'], []
    for index, column in enumerate(columns):
        mark = ' aria-sort="descending"' if column.sort == sort else ""
        hint = f' title="{column.hint}"' if column.hint else ""
        text = column.title + " ▾" * (column.sort == sort)
        if not column.group:
            upper.append(f'<th rowspan="2" scope="col"{hint}{mark}>{text}</th>')
            continue
        lower.append(f'<th scope="col"{hint}{mark}>{text}</th>')
        if index == 0 or columns[index - 1].group != column.group:
            span = sum(other.group == column.group for other in columns)
            upper.append(f'<th class="nrn-group" colspan="{span}" scope="colgroup"><span>{column.group}</span></th>')
    return f"<tr>{''.join(upper)}</tr><tr>{''.join(lower)}</tr>"


def _row(row: Row, columns: list[_Column], wall_ns: int) -> str:
    cells = "".join(f"<td>{escape(column.cell(row, wall_ns))}</td>" for column in columns)
    name = escape(shorten(name_of(row), NAME_LENGTH))
    shown = escape(ending(name_of(row), _PATH_LENGTH)) if isinstance(row, ModuleRow) else name
    fell = not isinstance(row, NeffRow) and row.fallback_calls
    mark, tag = (' class="nrn-cpu"', '<span class="nrn-tag">CPU</span>') if fell else ("", "")
    return f'<tr{mark}><th class="nrn-name" scope="row" title="{name}">{shown}{tag}</th>{cells}</tr>'


_LINE_CELLS: tuple[tuple[str, Callable[[LineRow], str]], ...] = (
    ("NEFFs made", lambda row: _number(row.neffs_compiled)),
    ("compile s", lambda row: _seconds(row.compile_ns)),
    ("loaded", lambda row: _number(row.neffs_loaded)),
    ("load s", lambda row: _seconds(row.load_ns)),
    ("device ms", lambda row: _milliseconds(row.device_ns)),
    ("CPU calls", lambda row: _number(row.fallback_calls)),
    ("CPU ms", lambda row: _milliseconds(row.fallback_ns)),
    ("copies", lambda row: _number(row.copies)),
    ("bytes", lambda row: size(row.bytes + row.copy_bytes) if row.bytes + row.copy_bytes else DASH),
    ("peak HBM", lambda row: binary_size(row.peak_bytes) if row.peak_bytes else DASH),
    ("total ms", lambda row: _milliseconds(row.total_ns)),
)


def gutter_html(lines: list[GutterLine], left_out: list[LineRow]) -> str:
    """Number, source and numbers; the name of a cell or file above its lines."""
    if not lines:
        return ""
    rows = [line.row for line in lines if line.row]
    used = [(title, cell) for title, cell in _LINE_CELLS if any(cell(row) != DASH for row in rows)]
    head = "".join(f'<th scope="col">{title}</th>' for title, _ in used)
    body = []
    for line in lines:
        if line.opens:
            body.append(
                f'<tr><th class="nrn-file" scope="rowgroup" colspan="{len(used) + 2}">{escape(shorten(line.opens, NAME_LENGTH))}</th></tr>'
            )
        cells = "".join(f"<td>{escape(cell(line.row)) if line.row else ''}</td>" for _, cell in used)
        classes = " ".join(
            filter(None, ["nrn-cpu" if line.row and line.row.fallback_calls else "", "" if line.row else "nrn-soft"])
        )
        mark = f' class="{classes}"' if classes else ""
        number = f'<th class="nrn-no" scope="row">{line.number}</th>'
        body.append(
            f'<tr{mark}>{number}<td class="nrn-src"><code>{escape(line.text[:_CODE_LENGTH])}</code></td>{cells}</tr>'
        )
    more = ""
    if left_out:
        spent = duration(sum(row.total_ns for row in left_out))
        more = f'<div class="nrn-soft">… {plural(len(left_out), "more line")} ({escape(spent)}), see <code>.lines</code></div>'
    return (
        f'<div class="nrn-scroll"><table class="nrn-t"><thead><tr><th class="nrn-no" scope="col"></th>'
        f'<th class="nrn-src" scope="col">line</th>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>{more}</div>'
    )
