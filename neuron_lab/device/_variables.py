"""Environment variables that are set but change nothing here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Families the Neuron stack reads: TorchNeuron, its runtime, compiler, profiler and NKI (awsdocs-neuron.readthedocs-hosted.com,
# torch/reference/env-vars and neuron-runtime/guides/configuration-guide, 2026-10).
_PREFIXES = ("TORCH_NEURONX_", "NEURON_", "NKI_")
_OTHERS = frozenset({"COLLECTIVE_BUCKETSIZE_IN_MB", "COLLECTIVE_MIN_BUCKETS"})

# Variables of the older XLA-based library; TorchNeuron does not read them (same source).
_XLA_ERA = frozenset({"NEURON_COMPILE_CACHE_URL", "NEURON_EXTRACT_GRAPHS_ONLY", "NEURON_NUM_RECENT_MODELS_TO_KEEP"})

# What to set instead, where the difference is more than a slip of the pen.
_INSTEAD = {
    "NEURON_COMPILE_CACHE_URL": "TORCH_NEURONX_NEFF_CACHE_DIR",
    "TORCH_NEURONX_DISABLE_NEFF_CACHE": "TORCH_NEURONX_NEFF_DISABLE_CACHE",
}


@dataclass(frozen=True, slots=True)
class IgnoredVariable:
    """A variable that is set and not read, and the hint that goes with it ("" for none)."""

    name: str
    value: str
    hint: str


def ignored_variables(environ: Mapping[str, str], read: Iterable[str]) -> list[IgnoredVariable]:
    """The Neuron variables in `environ` that the device does not act on, by name."""
    known = frozenset(read)
    names = sorted(name for name in environ if _is_neuron(name) and name not in known)
    return [IgnoredVariable(name, environ[name], _hint(name, known)) for name in names]


def _is_neuron(name: str) -> bool:
    return name.startswith(_PREFIXES) or name in _OTHERS


def _hint(name: str, known: frozenset[str]) -> str:
    parts = []
    if name in _XLA_ERA:
        parts.append("only the XLA-era library reads it")
    instead = _INSTEAD.get(name) or next(iter(difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.85)), "")
    if instead in known:
        parts.append(f"here it is {instead}")
    return "; ".join(parts)
