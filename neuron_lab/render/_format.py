"""Numbers and text as people read them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from neuron_lab.report import plural as plural  # for the renderers, with the others
from neuron_lab.report import three_digits

DASH = "–"
WIDTH = 100  # columns of text reports

# What would move a terminal's cursor or cannot be encoded: it may stand in a file name, in source, or in a file from elsewhere.
_UNPRINTABLE = dict.fromkeys(
    [
        *(code for code in range(32) if chr(code) not in "\t\n"),
        *range(127, 160),
        *range(0xD800, 0xE000),
        *range(0x202A, 0x202F),  # these and the next turn the direction of a whole line
        *range(0x2066, 0x206A),
    ],
    "\N{REPLACEMENT CHARACTER}",
)


def printable(text: str) -> str:
    """Text that any terminal shows as text."""
    return text.translate(_UNPRINTABLE)


def duration(ns: float) -> str:
    """Three digits and a unit: "1.28 s", "58.1 ms", "420 µs", "0"."""
    if ns == 0:
        return "0"
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= factor * 0.9995:
            return f"{three_digits(ns / factor)} {unit}"
    return f"{ns:.0f} ns"


def size(count: int) -> str:
    """Decimal bytes: "12.6 MB"."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{count} B" if unit == "B" else f"{three_digits(value)} {unit}"
        value /= 1000
    return f"{three_digits(value)} TB"


def count(number: int) -> str:
    """Thousands set apart: "12,345"."""
    return f"{number:,}"


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in short: "0,2-5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def share(part: float, whole: float) -> str:
    """Percent without decimals, "<1 %" for what would vanish."""
    if not whole or not part:
        return DASH
    percent = 100 * part / whole
    return "<1 %" if percent < 0.95 else f"{percent:.0f} %"


def columns(text: str) -> int:
    """How wide a terminal shows it: East Asian letters and emoji take two columns, combining marks none."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, width: int) -> str:
    """At most `width` columns."""
    if columns(text) <= width:
        return text
    kept = text[: width - 1]
    while columns(kept) > width - 1:
        kept = kept[:-1]
    return kept + "…"


def ending(text: str, width: int) -> str:
    """The last `width` columns at most: of a path that is what tells it from its neighbours."""
    if columns(text) <= width:
        return text
    kept = text[1 - width :]
    while columns(kept) > width - 1:
        kept = kept[1:]
    return "…" + kept


def shorten(text: str, width: int) -> str:
    """One line of at most `width` columns."""
    return cut(" ".join(text.split()), width)


def padded(text: str, width: int) -> str:
    """Blanks behind it, up to `width` columns."""
    return text + " " * (width - columns(text))


def wrapped(pieces: list[str], separator: str, width: int) -> list[str]:
    """Join pieces into lines of at most `width` columns, breaking only between them."""
    lines: list[str] = []
    for piece in pieces:
        if lines and columns(lines[-1]) + len(separator) + columns(piece) <= width:
            lines[-1] += separator + piece
        else:
            lines.append(piece)
    return lines
