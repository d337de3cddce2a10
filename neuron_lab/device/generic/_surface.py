"""What TorchNeuron tells about itself: counters, sets of ops, the compilation cache.

Its April 2026 snapshot has them in metrics.py and NeuronBindings.cpp. Releases differ, so every name is asked for. Without the
counters and the sets nothing can be told of an op; the others may be missing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from neuron_lab.errors import DeviceProblem

_HITS, _LOADED, _COMPILED = (f"CompilationCache.{n}" for n in ("InMemoryHits", "PersistentHits", "TotalCompilations"))
_TIME = "CompilationCache.CompilationTime"
_NEEDED = ("is_enabled", "set_enabled", "get_counter_value", "get_metric_data")


class Counts(NamedTuple):
    """NEFFs found in memory, read from disk and made, since the process started or somebody cleared the counters."""

    hits: int = 0
    loaded: int = 0
    compiled: int = 0

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))

    def plus(self, other: Counts) -> Counts:
        """The sums."""
        return Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Entry(NamedTuple):
    """One NEFF in memory: its key, what it is the NEFF of as far as the device tells, and how often it was used."""

    neff: str
    signature: str
    op: str
    uses: int


Entries: TypeAlias = dict[tuple[str, str], Entry]


class Graph(NamedTuple):
    """One graph that torch.compile made: `neff` as in `Entry`, times in nanoseconds, `unix_ns` when it was begun."""

    neff: str
    name: str
    unix_ns: int
    trace_ns: int
    lower_ns: int
    compile_ns: int


class Surface:
    """The surface of the device in this process."""

    def __init__(self) -> None:
        import torch

        self._package = importlib.import_module("torch_neuronx")
        self.neuron: Any = torch.get_device_module("neuron")
        self._metrics: Any = getattr(self._package, "metrics", None)
        asked = [(self._package, ("get_fallback_ops", "get_executed_ops")), (self._metrics, _NEEDED)]
        missing = [name for owner, names in asked for name in names if not hasattr(owner, name)]
        if missing:
            version = getattr(self._package, "__version__", "of an unknown version")
            raise DeviceProblem(
                f"this torch_neuronx ({version}) cannot be profiled: it has no {', '.join(missing)}, which tell what became of an op"
            )

    def enable(self) -> Callable[[], None]:
        """Let the counters count; what is returned puts back how it was."""
        if self._metrics.is_enabled():
            return _nothing
        self._metrics.set_enabled(True)
        return lambda: self._metrics.set_enabled(False)

    def counts(self) -> Counts:
        """The counters now."""
        value = self._metrics.get_counter_value
        return Counts(value(_HITS) or 0, value(_LOADED) or 0, value(_COMPILED) or 0)

    def newest_compile_ns(self) -> int:
        """How long the newest compile took, 0 when that is not told."""
        told = self._metrics.get_metric_data(_TIME)
        samples = told["samples"] if told else ()
        return int(samples[-1]["value"]) if samples else 0

    def fallback_ops(self) -> frozenset[str]:
        """Names of the ops that have run on the CPU."""
        return frozenset(self._package.get_fallback_ops())

    def executed_ops(self) -> frozenset[str]:
        """Names of the ops that have run."""
        return frozenset(self._package.get_executed_ops())

    def entries(self) -> Entries:
        """The NEFFs in memory, by key and op."""
        found: Entries = {}
        for told in self._ask(self.extension, "_get_compilation_cache_entries"):
            signature, op = str(told["cache_key"]), str(told.get("op", ""))
            neff = str(told.get("neff", signature))
            uses = int(told["access_count"]) + (found[neff, op].uses if (neff, op) in found else 0)
            found[neff, op] = Entry(neff, signature, op, uses)
        return found

    def graphs(self) -> list[Graph]:
        """What torch.compile made, oldest first."""
        return [
            Graph(
                neff=str(told.graph_id),
                name=str(told.graph_name),
                unix_ns=int(told.timestamp * 1e9),
                trace_ns=int(told.torch_neuronx_fx_passes_us * 1e3),
                lower_ns=int(told.torch_neuronx_lower_us * 1e3),
                compile_ns=int(told.torch_neuronx_compile_us * 1e3),
            )
            for told in self._ask(self.neuron, "get_dynamo_metrics")
        ]

    @property
    def extension(self) -> Any:
        """Its C++ part, or None."""
        return getattr(self._package, "_C", None)

    def _ask(self, owner: Any, name: str) -> Any:
        function = getattr(owner, name, None)
        return () if function is None else function()


def used(before: Entries, after: Entries) -> Entry | None:
    """The one NEFF whose use shows between two looks; None when that is none or not one."""
    moved = [entry for key, entry in after.items() if key not in before or entry.uses != before[key].uses]
    return moved[0] if len(moved) == 1 else None


def _nothing() -> None:
    pass
