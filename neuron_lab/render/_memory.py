"""Device memory by name, as text and HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from neuron_lab.device import CoreMemory
from neuron_lab.recording import Holding
from neuron_lab.render._format import WIDTH, columns, cut, padded, printable, shorten, wrapped
from neuron_lab.render._style import STYLE
from neuron_lab.report import HeldRow, binary_size, held_rows

_ROWS = 20
_NAME = 48


def memory_text(cores: Sequence[CoreMemory], holdings: Sequence[Holding], freed: int | None) -> str:
    """Cores, kinds, then what holds the most by its name."""
    lines = [*memory_summary(cores, holdings, freed), ""]
    held = held_rows(holdings)
    cells = [_cells(row, _NAME) for row in held[:_ROWS]]
    widths = [max((columns(row[index]) for row in cells), default=0) for index in range(4)]
    lines += [
        cut(f"{padded(name, widths[0])}  {size:>{widths[1]}}  {kind:<{widths[2]}}  {shape}", WIDTH)
        for name, size, kind, shape in cells
    ]
    if len(held) > _ROWS:
        lines.append(_left_out(held[_ROWS:]))
    return printable("\n".join(lines).rstrip())


def memory_html(cores: Sequence[CoreMemory], holdings: Sequence[Holding], freed: int | None) -> str:
    """The same as a table; the other names of a block stand in its tooltip."""
    head = "".join(f"<div>{escape(line)}</div>" for line in memory_summary(cores, holdings, freed))
    held = held_rows(holdings)
    rows = []
    for row in held[: 2 * _ROWS]:
        name, size, kind, shape = _cells(row, 120)
        hint = escape(shorten(", ".join(row.names), 200))
        rows.append(
            f'<tr><th class="nrn-name nrn-long" scope="row" title="{hint}">{escape(name)}</th><td>{size}</td>'
            f'<td class="nrn-left">{kind}</td><td class="nrn-left">{escape(shape)}</td></tr>'
        )
    titles = '<th class="nrn-name" scope="col">held by</th><th scope="col">HBM</th><th class="nrn-left" scope="col">kind</th>'
    table = f'<table class="nrn-t"><thead><tr>{titles}<th class="nrn-left" scope="col">tensor</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'
    rest = held[2 * _ROWS :]
    more = f'<div class="nrn-soft">{escape(_left_out(rest))}</div>' if rest else ""
    return printable(f'<div class="nrn">{STYLE}{head}<div class="nrn-scroll">{table if rows else ""}{more}</div></div>')


def _left_out(rows: Sequence[HeldRow]) -> str:
    held = binary_size(sum(row.bytes for row in rows))
    return f"… {sum(len(row.items) for row in rows)} more ({held}), see neuron_lab.memory().frame"


def memory_summary(cores: Sequence[CoreMemory], holdings: Sequence[Holding], freed: int | None) -> list[str]:
    """Use, limit and peak of each core that was used, the kinds of what is held, and what was freed."""
    lines = [
        f"neuron:{index}  {binary_size(core.used)} of {binary_size(core.limit)} HBM in use, peak {binary_size(core.peak)}"
        for index, core in enumerate(cores)
        if core.peak
    ] or ["no HBM in use"]
    kinds: Counter[str] = Counter()
    for item in holdings:
        kinds[item.kind] += item.bytes
    parts = [f"{kind} {binary_size(size)}" for kind, size in kinds.most_common()]
    unseen = sum(core.used for core in cores) - kinds.total()
    if unseen > 0:
        parts.append(f"kept by PyTorch for backward {binary_size(unseen)}")
    if parts:
        lines += wrapped(parts, " · ", WIDTH)
    if freed is not None:
        lines.append(f"freed {binary_size(freed)} that Out, _ and the last traceback had kept")
    return lines


def _cells(row: HeldRow, width: int) -> tuple[str, str, str, str]:
    name = shorten(row.name, width - len(row.count)) + row.count
    return name, binary_size(row.bytes), row.items[0].kind, row.tensor
