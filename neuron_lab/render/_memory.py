"""Device memory by name, as text and HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from neuron_lab.device import CoreMemory
from neuron_lab.recording import Holding
from neuron_lab.render._format import columns, cut, padded, shorten
from neuron_lab.render._style import STYLE
from neuron_lab.report import binary_size

_WIDTH = 100
_ROWS = 20
_NAME = 44
_NO_NAME = "(no name: a temporary, or kept by PyTorch)"


def memory_text(cores: Sequence[CoreMemory], holdings: Sequence[Holding], freed: int | None) -> str:
    """Cores, kinds, then the largest blocks with their names."""
    lines = [*memory_summary(cores, holdings, freed), ""]
    shown = holdings[:_ROWS]
    cells = [(shorten(_name(item), _NAME), *_cells(item)) for item in shown]
    widths = [max((columns(row[index]) for row in cells), default=0) for index in range(4)]
    lines += [
        cut(f"{padded(name, widths[0])}  {size:>{widths[1]}}  {kind:<{widths[2]}}  {shape}", _WIDTH)
        for name, size, kind, shape in cells
    ]
    rest = holdings[_ROWS:]
    if rest:
        lines.append(f"… {len(rest)} more ({binary_size(sum(item.bytes for item in rest))}), see .frame")
    return "\n".join(lines).rstrip()


def memory_html(cores: Sequence[CoreMemory], holdings: Sequence[Holding], freed: int | None) -> str:
    """The same as a table; the other names of a block stand in its tooltip."""
    head = "".join(f"<div>{escape(line)}</div>" for line in memory_summary(cores, holdings, freed))
    rows = []
    for item in holdings[: 2 * _ROWS]:
        size, kind, shape = _cells(item)
        hint = escape(shorten(", ".join(item.names), 200))
        name = escape(shorten(_name(item), 120))
        rows.append(
            f'<tr><th class="nrn-name nrn-long" scope="row" title="{hint}">{name}</th><td>{size}</td>'
            f'<td class="nrn-left">{kind}</td><td class="nrn-left">{escape(shape)}</td></tr>'
        )
    titles = '<th class="nrn-name" scope="col">held by</th><th scope="col">HBM</th><th class="nrn-left" scope="col">kind</th>'
    table = f'<table class="nrn-t"><thead><tr>{titles}<th class="nrn-left" scope="col">tensor</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'
    rest = holdings[2 * _ROWS :]
    more = (
        f'<div class="nrn-soft">… {len(rest)} more ({binary_size(sum(item.bytes for item in rest))})</div>'
        if rest
        else ""
    )
    return f'<div class="nrn">{STYLE}{head}<div class="nrn-scroll">{table if rows else ""}{more}</div></div>'


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
        lines.append(" · ".join(parts))
    if freed is not None:
        lines.append(f"freed {binary_size(freed)} that Out, _ and the last traceback had kept")
    return lines


def _name(item: Holding) -> str:
    if not item.names:
        return _NO_NAME
    others = len(item.names) - 1
    return item.names[0] + (f" (+{others})" if others else "")


def _cells(item: Holding) -> tuple[str, str, str]:
    return binary_size(item.bytes), item.kind, f"{item.dtype}{list(item.shape)}"
