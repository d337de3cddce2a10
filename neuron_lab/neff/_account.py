"""What a NEFF tells about itself: op, signature, tensors, cost, static memory.

Emulated NEFFs say it in `neff.json`, `info.json` and `hlo_stats.json`. Of real ones the AWS Neuron documentation ("Work with NEFF
files") describes `sg*/def.json`, a table of variables: the static memory is read off that. Whatever is absent or not as described
is left out, and `notes` says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from neuron_lab.neff._errors import NeffFormatError
from neuron_lab.neff._reader import Neff

_T = TypeVar("_T")

_STABLEHLO = "emulator/module.stablehlo.mlir"
_EXECUTABLE = "emulator/executable.bin"
_DEFINITION = re.compile(r"sg\d{1,3}/def\.json")
_LARGEST_JSON = 32 << 20  # Python objects take some ten times the text


@dataclass(frozen=True, slots=True)
class Port:
    """One tensor that goes in or comes out. `direction` is "in" or "out"; dtype and shape are "" and None where the file has none."""

    direction: str
    name: str
    bytes: int
    dtype: str = ""
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that a NEFF needs before it runs, by what they are for; None where the file does not tell."""

    inputs: int | None
    outputs: int | None
    scratch: int | None
    constants: int | None
    code: int | None


@dataclass(frozen=True, slots=True)
class Account:
    """Times in seconds, sizes in bytes, `created` in seconds since the epoch; None or "" where the file does not tell."""

    emulated: bool
    key: str = ""
    op: str = ""
    signature: str = ""
    tier: str = ""
    function: str = ""
    """Of a graph: the user's function it was first made of, and where that is."""
    place: str = ""
    created: float | None = None
    trace_s: float | None = None
    lower_s: float | None = None
    compile_s: float | None = None
    versions: tuple[tuple[str, str], ...] = ()
    ports: tuple[Port, ...] = ()
    flops: float | None = None
    bytes_accessed: float | None = None
    cost_source: str = ""
    memory: Memory | None = None
    stablehlo: str | None = None
    notes: tuple[str, ...] = ()


def describe(description: Mapping[str, Any]) -> Account:
    """Read an emulated NEFF's `neff.json`; an account that is not `emulated` for anything else."""
    if description.get("emulated") is not True:
        return Account(emulated=False)
    versions = _dict(description.get("versions"))
    texts = {
        name: _of(str, description.get(name), "") for name in ("key", "op", "signature", "tier", "function", "place")
    }
    numbers = {name: _number(description.get(name)) for name in ("created", "trace_s", "lower_s", "compile_s")}
    return Account(
        emulated=True,
        key=texts["key"],
        op=texts["op"],
        signature=texts["signature"],
        tier=texts["tier"],
        function=texts["function"],
        place=texts["place"],
        created=numbers["created"],
        trace_s=numbers["trace_s"],
        lower_s=numbers["lower_s"],
        compile_s=numbers["compile_s"],
        versions=tuple((name, version) for name, version in versions.items() if isinstance(version, str)),
    )


def account(content: Neff) -> Account:
    """Read what there is. Never raises for what a member holds."""
    notes: list[str] = []
    found = describe(_dict(_json(content, "neff.json", notes)))
    if not found.emulated:
        ports, memory = _defined(content, notes)
        return Account(emulated=False, op=content.header.name, ports=ports, memory=memory, notes=tuple(notes))
    info, statistics = (_dict(_json(content, name, notes)) for name in ("info.json", "hlo_stats.json"))
    ports = tuple(_port("in", index, row) for index, row in enumerate(_list(info.get("inputs"))))
    ports += tuple(_port("out", index, row) for index, row in enumerate(_list(info.get("outputs"))))
    sizes = {member.name: member.size for member in content.members}
    return replace(
        found,
        ports=ports,
        flops=_number(statistics.get("flops")),
        bytes_accessed=_number(statistics.get("bytes_accessed")),
        cost_source=_of(str, statistics.get("source"), ""),
        memory=Memory(*_sums(ports), _size(statistics.get("temporary_bytes")), None, sizes.get(_EXECUTABLE)),
        stablehlo=_text(content, _STABLEHLO, notes),
        notes=tuple(notes),
    )


def _defined(content: Neff, notes: list[str]) -> tuple[tuple[Port, ...], Memory | None]:
    """Tensors and static memory of a real NEFF, summed over its physical cores: from the variables of each `sg*/def.json`."""
    tables = [
        _variables(content, member.name, notes) for member in content.members if _DEFINITION.fullmatch(member.name)
    ]
    known = [table for table in tables if table is not None]
    if not tables or len(known) < len(tables):
        return (), None
    ports = tuple(
        Port(direction, name, size)
        for direction, kind in (("in", "input"), ("out", "output"))
        for table in known
        for name, variable_kind, size, _ in table
        if variable_kind == kind
    )
    # The scratchpad is one block in which the virtual variables lie at their offsets.
    scratch = sum(
        max((offset + size for _, kind, size, offset in table if kind == "virtual"), default=0) for table in known
    )
    constants = sum(size for table in known for _, kind, size, _ in table if kind == "file")
    return ports, Memory(*_sums(ports), scratch, constants, None)


def _variables(content: Neff, member: str, notes: list[str]) -> list[tuple[str, str, int, int]] | None:
    """(name, type, size, offset) of each variable; None, and a note, when the table is not as documented."""
    table = _dict(_json(content, member, notes)).get("var")
    rows = []
    for name, entry in _dict(table).items():
        kind, size = _dict(entry).get("type"), _size(_dict(entry).get("size"))
        offset = _size(_dict(entry).get("backing_variable_off", 0))
        if kind not in ("input", "output", "virtual", "file"):
            continue
        if size is None or offset is None:
            notes.append(f"{member}: variable {name[:40]!r} has no size as documented, so no static memory is told")
            return None
        rows.append((name, kind, size, offset))
    if not isinstance(table, dict):
        notes.append(f"{member} has no table of variables, so no static memory is told")
        return None
    return rows


def _port(direction: str, index: int, row: Any) -> Port:
    entry = _dict(row)
    sizes = [_size(size) for size in _list(entry.get("shape"))]
    shape = tuple(size for size in sizes if size is not None)
    return Port(
        direction,
        f"{'input' if direction == 'in' else 'output'} {index}",
        _size(entry.get("bytes")) or 0,
        _of(str, entry.get("dtype"), ""),
        shape if len(shape) == len(sizes) else None,
    )


def _sums(ports: Iterable[Port]) -> tuple[int, int]:
    rows = list(ports)
    inputs, outputs = (sum(port.bytes for port in rows if port.direction == way) for way in ("in", "out"))
    return inputs, outputs


def _json(content: Neff, name: str, notes: list[str]) -> Any:
    sizes = {member.name: member.size for member in content.members}
    if name not in sizes:
        return None
    if sizes[name] > _LARGEST_JSON:
        notes.append(f"{name} has {sizes[name]} bytes and is not read")
        return None
    try:
        return content.json(name)
    except NeffFormatError as error:
        notes.append(str(error))
        return None


def _text(content: Neff, name: str, notes: list[str]) -> str | None:
    if all(member.name != name for member in content.members):
        return None
    try:
        return content.text(name)
    except NeffFormatError as error:
        notes.append(str(error))
        return None


def _of(kind: type[_T], value: Any, default: _T) -> _T:
    return value if isinstance(value, kind) else default


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e300 and math.isfinite(value) else None


def _size(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 63 else None
