"""Device memory by name, as text and HTML."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from html import escape

from neuron_lab.device import CoreMemory
from neuron_lab.recording import Holding
from neuron_lab.render._format import columns, cut, padded, shorten, wrapped
from neuron_lab.render._style import STYLE
from neuron_lab.report import binary_size

_WIDTH = 100
_ROWS = 20
_NAME = 48
# So many tensors that differ in an index are one row.
_ALIKE = 3
_INDEX = re.compile(r"\[\d+\]")
_NO_NAME = "(no name: a temporary, or kept by PyTorch)"


def memory_text(cores: Sequence[CoreMemory], holdings: Sequence[Holding], freed: int | None) -> str:
    """Cores, kinds, then what holds the most by its name."""
    lines = [*memory_summary(cores, holdings, freed), ""]
    groups = _together(holdings)
    cells = [_cells(group, _NAME) for group in groups[:_ROWS]]
    widths = [max((columns(row[index]) for row in cells), default=0) for index in range(4)]
    lines += [
        cut(f"{padded(name, widths[0])}  {size:>{widths[1]}}  {kind:<{widths[2]}}  {shape}", _WIDTH)
        for name, size, kind, shape in cells
    ]
    if len(groups) > _ROWS:
        lines.append(_left_out(groups[_ROWS:]))
    return "\n".join(lines).rstrip()


def memory_html(cores: Sequence[CoreMemory], holdings: Sequence[Holding], freed: int | None) -> str:
    """The same as a table; the other names of a block stand in its tooltip."""
    head = "".join(f"<div>{escape(line)}</div>" for line in memory_summary(cores, holdings, freed))
    groups = _together(holdings)
    rows = []
    for group in groups[: 2 * _ROWS]:
        name, size, kind, shape = _cells(group, 120)
        hint = escape(shorten(", ".join(name for item in group for name in item.names), 200))
        rows.append(
            f'<tr><th class="nrn-name nrn-long" scope="row" title="{hint}">{escape(name)}</th><td>{size}</td>'
            f'<td class="nrn-left">{kind}</td><td class="nrn-left">{escape(shape)}</td></tr>'
        )
    titles = '<th class="nrn-name" scope="col">held by</th><th scope="col">HBM</th><th class="nrn-left" scope="col">kind</th>'
    table = f'<table class="nrn-t"><thead><tr>{titles}<th class="nrn-left" scope="col">tensor</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'
    rest = groups[2 * _ROWS :]
    more = f'<div class="nrn-soft">{escape(_left_out(rest))}</div>' if rest else ""
    return f'<div class="nrn">{STYLE}{head}<div class="nrn-scroll">{table if rows else ""}{more}</div></div>'


def _together(holdings: Sequence[Holding]) -> list[list[Holding]]:
    """What differs in an index only is one row, the largest first: a list that grows shows with all it holds."""
    groups: defaultdict[tuple[object, ...], list[Holding]] = defaultdict(list)
    for item in holdings:
        groups[_pattern(item), item.kind, item.core].append(item)
    rows: list[list[Holding]] = []
    for group in groups.values():
        rows += [group] if len(group) >= _ALIKE else [[item] for item in group]
    return sorted(rows, key=lambda group: -_bytes(group))


def _pattern(item: Holding) -> str:
    return _INDEX.sub("[…]", item.names[0]) if item.names else _NO_NAME


def _bytes(group: Sequence[Holding]) -> int:
    return sum(item.bytes for item in group)


def _left_out(groups: Sequence[list[Holding]]) -> str:
    held = binary_size(sum(map(_bytes, groups)))
    return f"… {sum(map(len, groups))} more ({held}), see neuron_lab.memory().frame"


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
        lines += wrapped(parts, " · ", _WIDTH)
    if freed is not None:
        lines.append(f"freed {binary_size(freed)} that Out, _ and the last traceback had kept")
    return lines


def _cells(group: Sequence[Holding], width: int) -> tuple[str, str, str, str]:
    first = group[0]
    shapes = list(dict.fromkeys(f"{item.dtype}{list(item.shape)}" for item in group))
    shape = shapes[0] if len(shapes) == 1 else f"{len(shapes)} shapes"
    if len(group) == 1:
        return shorten(_name(first), width), binary_size(first.bytes), first.kind, shape
    times = f", {len(group)}×"
    return shorten(_pattern(first), width - len(times)) + times, binary_size(_bytes(group)), first.kind, shape


def _name(item: Holding) -> str:
    if not item.names:
        return _NO_NAME
    others = len(item.names) - 1
    return item.names[0] + (f" (+{others})" if others else "")
