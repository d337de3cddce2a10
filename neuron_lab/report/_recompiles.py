"""Why a NEFF was made: the nearest signature the op had before, and what differs."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
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

    @property
    def subject(self) -> str:
        """What changed, without the values."""
        names = " and ".join(self.arguments)
        if self.kind == "dimension":
            return f"dim {self.dimension} of {names}"
        if not names:
            return self.kind
        return names if self.kind in ("static", "arguments") else f"{self.kind} of {names}"

    def __str__(self) -> str:
        return f"{self.subject}: {self.old} → {self.new}"


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


@dataclass(frozen=True, slots=True)
class Repeated:
    """The recompiles of one op at one line that differ in the same thing, in time order."""

    rows: tuple[Recompile, ...]

    @property
    def op(self) -> str:
        """Its name with the overload."""
        return self.rows[0].compile.op

    @property
    def where(self) -> Where | None:
        """The line."""
        return self.rows[0].where

    @property
    def from_disk(self) -> bool:
        """Loaded, not compiled."""
        return self.rows[0].compile.source == "disk"

    @property
    def total_ns(self) -> int:
        """What they cost together."""
        return sum(row.compile.total_ns for row in self.rows)

    @property
    def changed(self) -> str:
        """What differs, with every value it had."""
        subjects = [change.subject for change in self.rows[0].changes]
        return "; ".join(
            f"{subject}: {' → '.join(values)}" for subject, values in zip(subjects, self._values, strict=True)
        )

    @property
    def fix(self) -> str:
        """What to do about it, "" when nothing is known to help. Two values that are no sizes are most often two layers."""
        change = self.rows[0].change
        if change is None or (change.kind != "dimension" and len(self._values[0]) <= 2):
            return ""
        return Counter(fix_for(row.changes) for row in self.rows).most_common(1)[0][0]

    @property
    def _values(self) -> list[list[str]]:
        """The values of each thing that differs, in the order they were met."""
        values = [dict.fromkeys([change.old]) for change in self.rows[0].changes]
        for row in self.rows:
            for known, change in zip(values, row.changes, strict=True):
                known[change.new] = None
        return [list(known) for known in values]


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


def repeated(rows: Sequence[Recompile]) -> tuple[Repeated, ...]:
    """What was made again, together what differs in the same thing, the dearest first."""
    groups: defaultdict[tuple[object, ...], list[Recompile]] = defaultdict(list)
    for row in rows:
        if row.nearest is not None:
            subjects = tuple(change.subject for change in row.changes)
            groups[row.compile.op, row.where and (row.where.file, row.where.line), row.compile.source, subjects].append(
                row
            )
    return tuple(sorted((Repeated(tuple(group)) for group in groups.values()), key=lambda group: -group.total_ns))


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
    if _names(old) != _names(new):
        return (Change("arguments", _without(old, new), _without(new, old), ()),)
    found: dict[tuple[Kind, str, str, int | None], list[str]] = {}
    for (_, before), (name, after) in zip(old.arguments, new.arguments, strict=True):
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
    kind: Kind = "static" if isinstance(old, Static) and isinstance(new, Static) else "arguments"
    return [(kind, _text(old), _text(new), None)]


def _text(item: Tensor | Number | Static) -> str:
    if isinstance(item, Static):
        return item.text
    return f"{item.dtype} number" if isinstance(item, Number) else f"{item.dtype}{list(item.sizes)}{item.layout}"


def _names(signature: Signature) -> list[str]:
    """Positions and keywords: a tensor ("input 1") may become a number ("argument 1")."""
    return [name.removeprefix("input ").removeprefix("argument ") for name, _ in signature.arguments]


def _without(signature: Signature, other: Signature) -> str:
    """The arguments that the other has not."""
    taken = set(_names(other))
    names = [full for (full, _), name in zip(signature.arguments, _names(signature), strict=True) if name not in taken]
    return ", ".join(names) or "–"


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
