"""Why NEFFs were made, and why torch.compile traced again, as text and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import wrap

from neuron_lab.recording import GraphCompile
from neuron_lab.render._format import WIDTH, count, duration, plural, printable, shorten
from neuron_lab.render._style import STYLE
from neuron_lab.report import Repeated, Report, guard_failure, repeated

_ROWS = 12
_GRAPHS = 12
_CELL = 300


def recompiles_text(report: Report) -> str:
    """What was made for another signature of an op: what differs, where, cost and fix, the dearest first. Then the compiled functions."""
    groups = repeated(report.recompile_rows)
    lines = [_recompiles_head(report)]
    told = ""
    for group in groups[:_ROWS]:
        head = " · ".join(filter(None, [group.op, report.place(group.where), _cost(group)]))
        lines += ["", shorten(head, WIDTH), *_indented(group.changed)]
        if group.fix and group.fix != told:
            lines.append(f"    {group.fix}")
        told = group.fix or told
    if len(groups) > _ROWS:
        lines += ["", _left_out(groups[_ROWS:])]
    return printable("\n".join([*lines, *_graphs_text(report)]))


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in wrap(text, WIDTH - 4, max_lines=2, placeholder=" …")]


def _cost(group: Repeated) -> str:
    made = f"{plural(len(group.rows), 'NEFF')} · " if len(group.rows) > 1 else ""
    return f"{made}{duration(group.total_ns)}{' load' * group.from_disk}"


def _left_out(groups: Sequence[Repeated]) -> str:
    neffs = plural(sum(len(group.rows) for group in groups), "more NEFF")
    return f"… {neffs} ({duration(sum(group.total_ns for group in groups))}), see .recompiles"


def _graphs_text(report: Report) -> list[str]:
    graphs = report.recording.graphs
    again = [row for row in graphs if row.reasons]
    lines = ["", *_graphs_head(report, graphs, again)] if graphs else []
    told = ""
    for row in again[:_GRAPHS]:
        head = " · ".join(filter(None, [row.title, report.place(row.place), duration(row.duration_ns)]))
        failed = guard_failure(row)
        lines += ["", shorten(head, WIDTH), *_indented(failed.text)]
        if failed.fix and failed.fix != told:
            lines += _indented(failed.fix)
        told = failed.fix or told
    if len(again) > _GRAPHS:
        lines += ["", f"… {len(again) - _GRAPHS} more, see .graphs"]
    return lines


def _graphs_head(report: Report, graphs: Sequence[GraphCompile], again: Sequence[GraphCompile]) -> list[str]:
    first = [row for row in graphs if not row.reasons]
    again = [row for row in again if not guard_failure(row).limit]  # from there on nothing is traced
    spent = [duration(sum(row.duration_ns for row in rows)) for rows in (again, first)]
    line = (
        f"torch.compile: {count(len(again))} traced again in {spent[0]}, "
        f"{count(len(first))} for the first time in {spent[1]}, their NEFFs included"
    )
    lost = ["PyTorch keeps only the newest of these: there were more"] if report.recording.graphs_lost else []
    return [line, *lost]


def recompiles_html(report: Report) -> str:
    """The same as a table."""
    groups = repeated(report.recompile_rows)
    rows = "".join(
        f'<tr><th class="nrn-name" scope="row">{escape(group.op)}</th><td class="nrn-src">{escape(report.place(group.where))}</td>'
        f'<td class="nrn-left nrn-wide">{escape(shorten(group.changed, _CELL))}</td><td>{count(len(group.rows))}</td>'
        f"<td>{group.total_ns / 1e9:.3f}</td>"
        f'<td class="nrn-left">{"load" if group.from_disk else "compile"}</td>'
        f'<td class="nrn-left nrn-wide">{escape(group.fix)}</td></tr>'
        for group in groups[: 2 * _ROWS]
    )
    columns = (
        ("line", "nrn-left"),
        ("what changed", "nrn-left"),
        ("NEFFs", ""),
        ("s", ""),
        ("", "nrn-left"),
        ("fix", "nrn-left"),
    )
    titles = "".join(f'<th scope="col" class="{kind}">{title}</th>' for title, kind in columns)
    head = f'<thead><tr><th class="nrn-name" scope="col">op</th>{titles}</tr></thead>'
    table = f'<div class="nrn-scroll"><table class="nrn-t">{head}<tbody>{rows}</tbody></table></div>' if rows else ""
    rest = groups[2 * _ROWS :]
    more = f'<div class="nrn-soft">{escape(_left_out(rest))}</div>' if rest else ""
    head = f"<div>{escape(_recompiles_head(report))}</div>"
    return printable(f'<div class="nrn">{STYLE}{head}{table}{more}{_graphs_html(report)}</div>')


def _graphs_html(report: Report) -> str:
    graphs = report.recording.graphs
    again = [row for row in graphs if row.reasons]
    head = "".join(f"<div>{escape(line)}</div>" for line in _graphs_head(report, graphs, again)) if graphs else ""
    rows = "".join(_graph_html(row, report.place(row.place)) for row in again[: 2 * _GRAPHS])
    titles = "".join(
        f'<th scope="col" class="{kind}">{title}</th>'
        for title, kind in (("line", "nrn-left"), ("guard that failed", "nrn-left"), ("s", ""), ("fix", "nrn-left"))
    )
    table = (
        '<div class="nrn-scroll"><table class="nrn-t"><thead><tr><th class="nrn-name" scope="col">function</th>'
        f"{titles}</tr></thead><tbody>{rows}</tbody></table></div>"
        if rows
        else ""
    )
    left = len(again) - 2 * _GRAPHS
    return head + table + (f'<div class="nrn-soft">… {left} more, see <code>.graphs</code></div>' if left > 0 else "")


def _graph_html(row: GraphCompile, place: str) -> str:
    failed = guard_failure(row)
    return (
        f'<tr><th class="nrn-name" scope="row">{escape(shorten(row.title, _CELL))}</th>'
        f'<td class="nrn-src">{escape(shorten(place, _CELL))}</td>'
        f'<td class="nrn-left nrn-wide" title="{escape(shorten("; ".join(row.reasons[:3]), _CELL))}">{escape(shorten(failed.text, _CELL))}</td>'
        f"<td>{row.duration_ns / 1e9:.3f}</td>"
        f'<td class="nrn-left nrn-wide">{escape(shorten(failed.fix, _CELL))}</td></tr>'
    )


def _recompiles_head(report: Report) -> str:
    label = f"{report.summary.label}: " if report.summary.label else ""
    rows = report.recompile_rows
    if not rows:
        return f"{label}nothing was compiled or loaded, all was warm"
    again, first = ([row for row in rows if (row.nearest is None) == new] for new in (False, True))
    told = [
        f"{plural(len(part), 'NEFF')} {what} in {duration(sum(row.compile.total_ns for row in part))}"
        for part, what in ((again, "for another signature of an op"), (first, "for an op's first"))
        if part
    ]
    return label + ", ".join(told)
