"""Why a NEFF was made: the nearest signature the op had before, and what differs."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from neuron_lab.recording import Compile, Recording, Where
from neuron_lab.report._lines import compile_lines
from neuron_lab.report._signature import Number, Signature, Static, Tensor, parse

Kind: TypeAlias = Literal["first", "dimension", "rank", "dtype", "layout", "static", "arguments", "default dtype"]


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs: size 64 became 37 in dimension 0 of `arguments`; `touched` are all arguments in which it did."""

    kind: Kind
    old: str
    new: str
    arguments: tuple[str, ...]
    dimension: int | None = None
    touched: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = " and ".join(self.arguments)
        if self.kind == "dimension":
            return f"dim {self.dimension} of {names}: {self.old} → {self.new}"
        if self.kind == "static":
            return f"{names}: {self.old} → {self.new}"
        return f"{self.kind} of {names}: {self.old} → {self.new}" if names else f"{self.kind}: {self.old} → {self.new}"


@dataclass(frozen=True, slots=True)
class Recompile:
    """A NEFF that was made or loaded, and how its signature differs from the nearest one before; `changes` is empty for an op's first.

    `nearest` is that signature, `same_span` tells that it was met in this profile.
    """

    compile: Compile
    where: Where | None
    nearest: Compile | None
    changes: tuple[Change, ...]
    same_span: bool

    @property
    def change(self) -> Change | None:
        """The one thing that differs; None for a first compile, and when several things do."""
        return self.changes[0] if len(self.changes) == 1 else None


@functools.lru_cache(maxsize=4096)
def read(text: str) -> Signature:
    """`parse`, remembered."""
    return parse(text)


def recompiles(recording: Recording) -> tuple[Recompile, ...]:
    """One record a compile or load from disk, in time order."""
    lines = compile_lines(recording)
    before: defaultdict[str, list[Compile]] = defaultdict(list)
    for item in recording.earlier:
        before[item.op].append(item)
    earlier = set(recording.earlier)
    found = []
    for item in sorted(recording.compiles, key=lambda item: item.start_ns):
        nearest, changes = _nearest(item, before[item.op])
        found.append(Recompile(item, lines.get(item.neff), nearest, changes, nearest not in earlier))
        before[item.op].append(item)
    return tuple(found)


def _nearest(item: Compile, others: list[Compile]) -> tuple[Compile | None, tuple[Change, ...]]:
    """Fewest changes; the newest of several."""
    best: tuple[Compile | None, tuple[Change, ...]] = (None, ())
    for other in reversed(others):
        if other.signature == item.signature:
            continue  # the same NEFF, loaded again
        changes = compare(read(other.signature), read(item.signature))
        if best[0] is None or len(changes) < len(best[1]):
            best = other, changes
    return best


def compare(old: Signature, new: Signature) -> tuple[Change, ...]:
    """Everything that differs; one size that changed alike in several arguments is one change."""
    if [name for name, _ in old.arguments] != [name for name, _ in new.arguments]:
        return (Change("arguments", _listed(old), _listed(new), ()),)
    found: dict[tuple[Kind, str, str, int | None], list[str]] = {}
    for (name, before), (_, after) in zip(old.arguments, new.arguments, strict=True):
        for kind, was, now, dimension in _differences(before, after):
            found.setdefault((kind, was, now, dimension), []).append(name)
    changes = [
        Change(kind, was, now, tuple(names), dim, tuple(names)) for (kind, was, now, dim), names in found.items()
    ]
    if old.default != new.default:
        changes.append(Change("default dtype", old.default, new.default, ()))
    return tuple(_merged(changes))


def _merged(changes: list[Change]) -> list[Change]:
    """A size that changed alike in several dimensions is one change, named by the first."""
    merged: dict[tuple[object, ...], Change] = {}
    for change in changes:
        sized = change.kind == "dimension"
        key = (change.kind, change.old, change.new, () if sized else change.arguments)
        first = merged.get(key)
        merged[key] = change if first is None else replace(first, touched=(*first.touched, *change.touched))
    return list(merged.values())


def _differences(
    old: Tensor | Number | Static, new: Tensor | Number | Static
) -> list[tuple[Kind, str, str, int | None]]:
    if old == new:
        return []
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        found: list[tuple[Kind, str, str, int | None]] = []
        if old.dtype != new.dtype:
            found.append(("dtype", old.dtype, new.dtype, None))
        if len(old.sizes) != len(new.sizes):
            found.append(("rank", str(list(old.sizes)), str(list(new.sizes)), None))
        else:
            sizes = enumerate(zip(old.sizes, new.sizes, strict=True))
            found += [("dimension", str(was), str(now), dim) for dim, (was, now) in sizes if was != now]
        if old.layout != new.layout:
            found.append(("layout", old.layout or "contiguous", new.layout or "contiguous", None))
        return found
    if isinstance(old, Number) and isinstance(new, Number):
        return [("dtype", old.dtype, new.dtype, None)]
    return [("static", _text(old), _text(new), None)]


def _text(item: Tensor | Number | Static) -> str:
    if isinstance(item, Static):
        return item.text
    return item.dtype if isinstance(item, Number) else f"{item.dtype}{list(item.sizes)}{item.layout}"


def _listed(signature: Signature) -> str:
    return f"{len(signature.arguments)} arguments"


def fix_for(changes: Sequence[Change]) -> str:
    """What to do about it, "" when nothing is known to help."""
    if len(changes) != 1:
        return ""
    change = changes[0]
    if change.kind == "dimension":
        old, new = int(change.old), int(change.new)
        if new == old + 1:
            return "it grows step by step: allocate the longest once and mask (a static cache)"
        if new < old and change.dimension == 0:
            return "a smaller batch: pad it, or drop_last=True if it is a loader's last"
        return "pad to one size, or to a few (buckets)"
    return {
        "dtype": "convert once, outside of the loop",
        "layout": "call .contiguous() once, before the loop",
        "static": "pass it as a tensor, or keep to a few values",
        "rank": "give it one shape, for example with unsqueeze",
        "default dtype": "set the default dtype once",
    }.get(change.kind, "")


def changed(row: Recompile) -> str:
    """What differs from the nearest signature."""
    if row.nearest is None:
        return "first compile of this op"
    return "; ".join(map(str, row.changes))
