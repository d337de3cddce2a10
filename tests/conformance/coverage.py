"""The coverage table that the package ships: how every ATen overload is served, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import neuron_lab

TABLE = Path(neuron_lab.__file__).parent / "emulator" / "coverage.tsv"
_HEADER = "overload\tclass\treason"
RANK = {"compiled": 3, "host": 3, "partly": 2, "fallback": 1}
"""A class may be replaced by one of the same or a higher rank without a loss."""


class Call(NamedTuple):
    """How one call was served."""

    op: str
    kind: str
    reason: str


class Row(NamedTuple):
    """One line of the table."""

    group: str
    """compiled; host: the size of its result is found on the host; partly: some calls compiled; fallback: none."""
    reason: str


def classify(calls: Mapping[Call, int]) -> dict[str, Row]:
    """The table's rows, by overload. Calls without elements compute nothing and do not count."""
    kinds: dict[str, set[str]] = {}
    reasons: dict[str, set[str]] = {}
    for call in calls:
        if call.kind != "empty":
            kinds.setdefault(call.op, set()).add(call.kind)
            if call.reason:
                reasons.setdefault(call.op, set()).add(_plain(call.reason, call.op))
    return {op: Row(_group(found), "; ".join(sorted(reasons.get(op, ()))[:3])) for op, found in kinds.items()}


def _group(kinds: set[str]) -> str:
    if "fallback" not in kinds:
        return "host" if "host" in kinds else "compiled"
    return "partly" if kinds & {"compiled", "host"} else "fallback"


def _plain(reason: str, op: str) -> str:
    """One line, without what every line would repeat."""
    name = op.removesuffix(".default")
    return re.sub(r"\s+", " ", reason).removeprefix(f"{op}: ").removeprefix(f"{name}: ").strip()


def write_table(table: Mapping[str, Row]) -> None:
    """Record ``table``, sorted by overload."""
    lines = [f"{op}\t{row.group}\t{row.reason}" for op, row in sorted(table.items())]
    TABLE.write_text("\n".join([_HEADER, *lines]) + "\n")


def read_table() -> dict[str, Row]:
    """The recorded table; empty when there is none."""
    if not TABLE.exists():
        return {}
    rows = [line.split("\t") for line in TABLE.read_text().splitlines()[1:]]
    return {op: Row(group, reason) for op, group, reason in rows}
