"""Sizes and durations as people write them."""

from __future__ import annotations

import math
import re

from neuron_lab.errors import UsageProblem

_QUANTITY = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Zµ]*)\s*")
_BYTES = {"b": 1} | {
    f"{prefix}{suffix}": base**power
    for power, prefix in enumerate("kmgt", 1)
    for suffix, base in (("", 1000), ("b", 1000), ("i", 1024), ("ib", 1024))
}
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def bytes_of(text: str) -> int:
    """ "2GB", "512 MiB", "1.5T": decimal units, binary with an i. Raises UsageProblem."""
    return int(_value(text, _BYTES, "a size", "2GB, 512MiB"))


def seconds_of(text: str) -> float:
    """ "7d", "12h", "90min", "30s", "2w". Raises UsageProblem."""
    return _value(text, _SECONDS, "a duration", "7d, 12h, 90min")


def _value(text: str, units: dict[str, int], kind: str, examples: str) -> float:
    found = _QUANTITY.fullmatch(text)
    unit = units.get(found[2].lower()) if found else None
    if found is None or unit is None:
        why = "it has no unit" if found and not found[2] else f"units are {', '.join(units)}"
        raise UsageProblem(f"{text!r} is not {kind} like {examples}: {why}")
    value = float(found[1]) * unit
    if not math.isfinite(value) or value >= 1 << 63:
        raise UsageProblem(f"{text!r} is not {kind} that anything has: it is too large")
    return value
