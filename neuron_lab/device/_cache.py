"""The NEFF cache of the device that serves `neuron`: where it is, and what of it this process holds."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from neuron_lab.device._resolve import resolve

# TorchNeuron's own (its April 2026 snapshot, csrc/core/cache; torch/reference/env-vars).
DIRECTORY = "TORCH_NEURONX_NEFF_CACHE_DIR"
_DISABLED = "TORCH_NEURONX_NEFF_DISABLE_CACHE"
_DEFAULT = Path("/tmp/neff_cache")
_GRAPH = "graph::"


@dataclass(frozen=True, slots=True)
class CacheLocation:
    """`root` is None when nothing is kept on disk; `chosen_by` is the variable that decided, "" for none.

    `emulated` tells whose NEFFs go there.
    """

    root: Path | None
    chosen_by: str
    emulated: bool

    def __str__(self) -> str:
        if self.root is None:
            return f"switched off by {self.chosen_by}=1"
        return f"{self.root} ({self.chosen_by or 'the default'})"


@dataclass(frozen=True, slots=True)
class LoadedNeff:
    """A NEFF in this process's memory, of an op or a graph.

    `hits` are its launches after the first; `made_ns` is what making it took, 0 when it came from disk.
    """

    key: str
    op: str
    signature: str
    hits: int
    made_ns: int


def cache_location() -> CacheLocation:
    """The directory in force now."""
    if resolve().kind == "emulator":
        from neuron_lab.emulator import cache

        return CacheLocation(*cache.location(), emulated=True)
    if os.environ.get(_DISABLED) == "1":
        return CacheLocation(None, _DISABLED, emulated=False)
    chosen = os.environ.get(DIRECTORY)
    return CacheLocation(Path(chosen) if chosen else _DEFAULT, DIRECTORY if chosen else "", emulated=False)


def loaded_neffs() -> tuple[LoadedNeff, ...]:
    """What the emulator holds; empty on Trainium, which does not tell the keys of the files."""
    if resolve().kind != "emulator":
        return ()
    from neuron_lab.emulator import events, shim

    made = {event.neff: event for event in events.history()}
    found = []
    for op, kind, key, hits, _reason in shim().plans():
        if kind == "compiled":
            event = made.get(key)
            spent = event.trace_ns + event.lower_ns + event.compile_ns if event and event.source == "compiled" else 0
            found.append(LoadedNeff(key, op, event.signature if event else "", hits, spent))
    return tuple(found)


def forget_neffs(*, dry_run: bool = False) -> int:
    """Let go of the ops' NEFFs in this process's memory: the next call of each looks on disk again. Gives their number.

    A compiled model keeps the graphs it has. dry_run: count only.
    """
    info = resolve()
    if info.kind == "emulator":
        from neuron_lab.emulator.api import tracking

        count = sum(not item.op.startswith(_GRAPH) for item in loaded_neffs())
        if not dry_run:
            tracking._clear_compilation_memory_cache()
        return count
    native = getattr(sys.modules.get("torch_neuronx"), "_C", None)
    clear = getattr(native, "_clear_compilation_memory_cache", None)
    if clear is None:
        return 0
    entries = getattr(native, "_get_compilation_cache_entries", list)
    count = len(entries())
    if not dry_run:
        clear()
    return count
