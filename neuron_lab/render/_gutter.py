"""The user's source with what each line did, as text."""

from __future__ import annotations

from neuron_lab.render._format import WIDTH, columns, count, cut, duration, padded, plural, shorten, size
from neuron_lab.report import GutterLine, LineRow, binary_size

_TAB = 4
_SOURCE = 28  # columns the source keeps, if it is that long


def gutter_text(lines: list[GutterLine], left_out: list[LineRow]) -> list[str]:
    """Number, source, and the cells in use, aligned. A cell's or file's name stands above its lines."""
    cells = [cells_of(line.row) if line.row else [""] * len(TITLES) for line in lines]
    used = [index for index in range(len(TITLES)) if any(row[index] for row in cells)]
    widths = {index: max(len(row[index]) for row in cells) for index in used}
    code = [line.text.expandtabs(_TAB) for line in lines]
    longest = max(map(columns, code), default=0)
    while sum(widths.values()) + 2 * len(widths) + 7 + min(_SOURCE, longest) > WIDTH and len(widths) > 1:
        widths.pop(max(widths, key=lambda index: _RANK[index]))
    room = WIDTH - 7 - sum(width + 2 for width in widths.values())
    source = min(room, longest)
    text = []
    for line, row, shown in zip(lines, cells, code, strict=True):
        if line.opens:
            text.append(shorten(line.opens, WIDTH))
        tail = "".join(f"  {row[index]:>{width}}" for index, width in widths.items())
        text.append(f"{line.number:>5}{'┆' if line.skips else ' '} {padded(cut(shown, source), source)}{tail}".rstrip())
    if left_out:
        spent = duration(sum(row.total_ns for row in left_out))
        text.append(shorten(f"… {plural(len(left_out), 'more line')} ({spent}), see .lines", WIDTH))
    return text


TITLES = ("compile", "load", "device", "CPU", "copies", "bytes", "peak")
_RANK = (0, 3, 1, 2, 4, 6, 5)


def cells_of(row: LineRow) -> list[str]:
    """What a line did, one text for each of `TITLES`, "" for nothing."""
    return [
        f"{plural(row.neffs_compiled, 'NEFF')} · {duration(row.compile_ns)}" if row.neffs_compiled else "",
        f"{count(row.neffs_loaded)} loaded · {duration(row.load_ns)}" if row.neffs_loaded else "",
        f"device {duration(row.device_ns)}" if row.device_ns else "",
        f"CPU {count(row.fallback_calls)}× {duration(row.fallback_ns)}" if row.fallback_calls else "",
        f"{count(row.copies)} {'copy' if row.copies == 1 else 'copies'} {size(row.copy_bytes)}" if row.copies else "",
        size(row.bytes) if row.bytes else "",
        f"peak {binary_size(row.peak_bytes)}" if row.peak_bytes else "",
    ]
