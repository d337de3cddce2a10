"""Why NEFFs were made, and why torch.compile traced again, as text and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import wrap

from neuron_lab.recording import GraphCompile
from neuron_lab.render._format import count, duration, plural, shorten
from neuron_lab.render._style import STYLE
from neuron_lab.report import Recompile, Report, changed, fix_for, guard_failure

_WIDTH = 100
_ROWS = 30
_GRAPHS = 12
_CELL = 300


def recompiles_text(report: Report) -> str:
    """For each NEFF that was not the first of its op: what differs from the nearest, where, cost and fix. Then the compiled functions."""
    again, first = _divided(report)
    lines = [_recompiles_head(report, again, first)]
    fix = ""
    for row in again[:_ROWS]:
        where = report.place(row.where)
        head = f"{row.compile.op}  {where}  {duration(row.compile.total_ns)}{' load' * (row.compile.source == 'disk')}"
        lines += ["", shorten(head, _WIDTH), f"    {shorten(changed(row), _WIDTH - 4)}"]
        if (new := fix_for(row.changes)) and new != fix:
            lines.append(f"    {new}")
        fix = new or fix
    if len(again) > _ROWS:
        lines += ["", f"… {plural(len(again) - _ROWS, 'more')}, see .recompiles"]
    return "\n".join([*lines, *_graphs_text(report)])


def _graphs_text(report: Report) -> list[str]:
    graphs = report.recording.graphs
    again = [row for row in graphs if row.reasons]
    lines = ["", *_graphs_head(report, graphs, again)] if graphs else []
    told = ""
    for row in again[:_GRAPHS]:
        head = f"{row.function}  {report.place(row.place)}  {duration(row.duration_ns)}"
        failed = guard_failure(row)
        lines += ["", shorten(head, _WIDTH), f"    {shorten(failed.text, _WIDTH - 4)}"]
        if failed.fix and failed.fix != told:
            lines += [f"    {line}" for line in wrap(failed.fix, _WIDTH - 4)[:2]]
        told = failed.fix or told
    if len(again) > _GRAPHS:
        lines += ["", f"… {len(again) - _GRAPHS} more, see .graphs"]
    return lines


def _graphs_head(report: Report, graphs: Sequence[GraphCompile], again: Sequence[GraphCompile]) -> list[str]:
    first = [row for row in graphs if not row.reasons]
    spent = [duration(sum(row.duration_ns for row in rows)) for rows in (again, first)]
    line = (
        f"torch.compile: {count(len(again))} traced again in {spent[0]}, "
        f"{count(len(first))} for the first time in {spent[1]}"
    )
    lost = ["PyTorch keeps only the newest of these: there were more"] if report.recording.graphs_lost else []
    return [line, *lost]


def recompiles_html(report: Report) -> str:
    """The same as a table."""
    again, first = _divided(report)
    rows = "".join(
        f'<tr><th class="nrn-name" scope="row">{escape(row.compile.op)}</th><td class="nrn-src">{escape(report.place(row.where))}</td>'
        f'<td class="nrn-left nrn-wide">{escape(changed(row))}</td><td>{row.compile.total_ns / 1e9:.3f}</td>'
        f'<td class="nrn-left">{"load" if row.compile.source == "disk" else "compile"}</td>'
        f'<td class="nrn-left nrn-wide">{escape(fix_for(row.changes))}</td></tr>'
        for row in again[: 2 * _ROWS]
    )
    columns = (("line", "nrn-left"), ("what changed", "nrn-left"), ("s", ""), ("", "nrn-left"), ("fix", "nrn-left"))
    titles = "".join(f'<th scope="col" class="{kind}">{title}</th>' for title, kind in columns)
    head = f'<thead><tr><th class="nrn-name" scope="col">op</th>{titles}</tr></thead>'
    table = f'<div class="nrn-scroll"><table class="nrn-t">{head}<tbody>{rows}</tbody></table></div>' if rows else ""
    more = (
        f'<div class="nrn-soft">… {len(again) - 2 * _ROWS} more, see <code>.recompiles</code></div>'
        if len(again) > 2 * _ROWS
        else ""
    )
    return f'<div class="nrn">{STYLE}<div>{escape(_recompiles_head(report, again, first))}</div>{table}{more}{_graphs_html(report)}</div>'


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
        f'<tr><th class="nrn-name" scope="row">{escape(shorten(row.function, _CELL))}</th>'
        f'<td class="nrn-src">{escape(shorten(place, _CELL))}</td>'
        f'<td class="nrn-left nrn-wide" title="{escape(shorten("; ".join(row.reasons[:3]), _CELL))}">{escape(shorten(failed.text, _CELL))}</td>'
        f"<td>{row.duration_ns / 1e9:.3f}</td>"
        f'<td class="nrn-left nrn-wide">{escape(shorten(failed.fix, _CELL))}</td></tr>'
    )


def _divided(report: Report) -> tuple[list[Recompile], list[Recompile]]:
    """Made again, and the first of their op."""
    rows = report.recompile_rows
    return [row for row in rows if row.nearest is not None], [row for row in rows if row.nearest is None]


def _recompiles_head(report: Report, again: list[Recompile], first: list[Recompile]) -> str:
    label = f"{report.summary.label}: " if report.summary.label else ""
    if not again and not first:
        return f"{label}nothing was compiled or loaded, all was warm"
    spent = [duration(sum(row.compile.total_ns for row in rows)) for rows in (again, first)]
    return f"{label}{plural(len(again), 'NEFF')} for another signature of an op in {spent[0]}, {len(first)} for an op's first in {spent[1]}"
