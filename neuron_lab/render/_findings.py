"""Findings and their explanations, as text and HTML."""

from __future__ import annotations

from html import escape
from textwrap import wrap

from neuron_lab.render._format import WIDTH, duration, plural, shorten
from neuron_lab.render._style import STYLE
from neuron_lab.report import Explanation, Finding, Report

_SHOWN = 3
_LINES = 10
_SHOWN_HTML = 8
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
        WIDTH,
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
    fixes = [line for fix in item.fixes for line in wrap(f"- {fix}", WIDTH, subsequent_indent="  ")]
    return "\n".join(
        [
            f"{item.code}  {item.title}",
            "",
            *wrap(item.meaning, WIDTH),
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
