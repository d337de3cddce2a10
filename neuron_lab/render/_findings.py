"""Findings, their explanations, and why NEFFs were made, as text and HTML."""

from __future__ import annotations

from html import escape
from textwrap import wrap

from neuron_lab.render._format import duration, plural, shorten
from neuron_lab.render._style import STYLE
from neuron_lab.report import Explanation, Finding, Recompile, Report, changed, fix_for

_WIDTH = 100
_SHOWN = 3
_LINES = 10
_SHOWN_HTML = 8
_ROWS = 30
_PLACE = 120
_SENTENCE = 500
_INDENT = " " * 8


def findings_text(report: Report) -> list[str]:
    """Up to three, as many as there is room for: what happened, then cost and fix, in two lines each at most."""
    lines: list[str] = []
    shown = 0
    for item in report.findings[:_SHOWN]:
        place = f"{item.where}: " if item.where else ""
        block = [*_wrapped(f"{item.code}  {place}{item.message}", ""), *_wrapped(_remedy(item, report), _INDENT)]
        if len(lines) + len(block) > _LINES:
            break
        lines += block
        shown += 1
    if shown < len(report.findings):
        lines.append(f"… {plural(len(report.findings) - shown, 'more finding')}, see .findings")
    return lines


def _wrapped(text: str, indent: str) -> list[str]:
    return wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=_INDENT,
        max_lines=2,
        placeholder=" …",
        break_on_hyphens=False,
    )


def findings_html(report: Report) -> str:
    """Code, place and sentence on one line, cost and fix below."""
    blocks = [
        f'<div class="nrn-finding"><b>{item.code}</b> '
        + (f'<span class="nrn-code">{escape(shorten(item.where, _PLACE))}</span>: ' if item.where else "")
        + f"{escape(shorten(item.message, _SENTENCE))}<br>"
        f'<span class="nrn-soft">{escape(shorten(_remedy(item, report), _SENTENCE))}</span></div>'
        for item in report.findings[:_SHOWN_HTML]
    ]
    if len(report.findings) > _SHOWN_HTML:
        more = plural(len(report.findings) - _SHOWN_HTML, "more finding")
        blocks.append(f'<div class="nrn-soft">… {more}, see <code>.findings</code></div>')
    return "".join(blocks)


def _remedy(item: Finding, report: Report) -> str:
    emulated = " (emulated)" if report.recording.environment.emulated else ""
    return f"cost {duration(item.cost_ns)}{emulated} · {item.fix}" if item.cost_ns else item.fix


def explanation_text(item: Explanation) -> str:
    """The whole explanation, 100 columns."""
    fixes = [line for fix in item.fixes for line in wrap(f"- {fix}", _WIDTH, subsequent_indent="  ")]
    return "\n".join(
        [
            f"{item.code}  {item.title}",
            "",
            *wrap(item.meaning, _WIDTH),
            "",
            "Example",
            f"    {item.example}",
            "",
            "Fixes",
            *fixes,
        ]
    )


def explanation_html(item: Explanation) -> str:
    """The same as HTML."""
    fixes = "".join(f"<li>{escape(fix)}</li>" for fix in item.fixes)
    return (
        f'<div class="nrn">{STYLE}<div class="nrn-head"><b>{item.code} {escape(item.title)}</b></div>'
        f'<div>{escape(item.meaning)}</div><pre class="nrn-code">{escape(item.example)}</pre><ul>{fixes}</ul></div>'
    )


def recompiles_text(report: Report) -> str:
    """For each NEFF that was not the first of its op: what differs from the nearest, where, cost and fix."""
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
    return "\n".join(lines)


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
    return f'<div class="nrn">{STYLE}<div>{escape(_recompiles_head(report, again, first))}</div>{table}{more}</div>'


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
