"""`torch_neuronx._C`: the names of TorchNeuron's extension that its users probe for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from neuron_lab.emulator import _attach
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
    "execute_compiled_graph",
    "get_neff_cache",
    "get_neff_info",
]


def execute_compiled_graph(graph: Any, inputs: Sequence[Tensor]) -> list[Any]:
    """The results of one launch of a graph that torch.compile made; every launch comes through this name."""
    results: list[Any] = _attach.shim().call_graph(graph, inputs)
    return results
