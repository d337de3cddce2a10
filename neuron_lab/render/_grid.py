"""Small tables: the first column to the left, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from neuron_lab.render._format import columns, padded, shorten

_CELL = 120


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of text, the columns two blanks apart."""
    widths = [max(columns(row[index]) for row in rows) for index in range(len(rows[0]))]
    return [
        "  ".join(
            padded(cell, width) if index == 0 else f"{cell:>{width}}"
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def grid_html(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as HTML."""
    first, *others = titles
    head = f'<th class="nrn-name" scope="col">{escape(first)}</th>' + "".join(
        f'<th scope="col">{escape(title)}</th>' for title in others
    )
    body = "".join(
        f'<tr><th class="nrn-name" scope="row">{escape(shorten(row[0], _CELL))}</th>'
        + "".join(f"<td>{escape(shorten(cell, _CELL))}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f'<div class="nrn-scroll"><table class="nrn-t"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
