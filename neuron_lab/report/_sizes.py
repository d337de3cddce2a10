"""Counts and sizes of memory as people read them."""

from __future__ import annotations


def plural(number: int, noun: str) -> str:
    """ "1 NEFF", "1,200 NEFFs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def three_digits(value: float) -> str:
    """ "412", "41.2", "4.12"."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def binary_size(count: int) -> str:
    """Binary bytes, as HBM is sold: "96 GiB", "41.2 MiB"."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1023.5:
            return f"{_trimmed(value)} {unit}"
        value /= 1024
    return f"{_trimmed(value)} TiB"


def _trimmed(value: float) -> str:
    text = three_digits(value)
    return text.rstrip("0").rstrip(".") if "." in text else text
