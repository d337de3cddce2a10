"""The private names of TorchNeuron's extension that its users probe for."""

from __future__ import annotations

from neuron_lab.emulator.api.tracking import (
    _clear_compilation_cache,
    _clear_compilation_memory_cache,
    _get_all_cache_keys,
    _get_compilation_cache_entries,
    _get_compilation_cache_stats,
    get_neff_cache,
    get_neff_info,
)

__all__ = [
    "_clear_compilation_cache",
    "_clear_compilation_memory_cache",
    "_get_all_cache_keys",
    "_get_compilation_cache_entries",
    "_get_compilation_cache_stats",
    "get_neff_cache",
    "get_neff_info",
]
