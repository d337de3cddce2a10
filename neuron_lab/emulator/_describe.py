"""The emulator's account of itself."""

from __future__ import annotations

from typing import Any

from neuron_lab._version import __version__
from neuron_lab.emulator import _attach, events
from neuron_lab.emulator.driver import chip

# The variables of TorchNeuron and the Neuron runtime that the emulator acts on.
VARIABLES_READ = (
    "LOCAL_WORLD_SIZE",
    "NEURON_CC_FLAGS",
    "NEURON_COMPILER_OPT_LEVEL",
    "NEURON_FALLBACK_ENABLED",
    "NEURON_RT_NUM_CORES",
    "NEURON_RT_VISIBLE_CORES",
    "TORCH_NEURONX_DEBUG_DIR",
    "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION",
    "TORCH_NEURONX_DISABLE_NEFF_CACHE",
    "TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY",
    "TORCH_NEURONX_ENABLED_METRIC_TABLES",
    "TORCH_NEURONX_ENABLE_STACK_TRACE",
    "TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS",
    "TORCH_NEURONX_LOG_FILE",
    "TORCH_NEURONX_LOG_LEVEL",
    "TORCH_NEURONX_METRICS_DIR",
    "TORCH_NEURONX_METRICS_ENABLED",
    "TORCH_NEURONX_NEFF_CACHE_DIR",
    "TORCH_NEURONX_NEFF_DISABLE_CACHE",
    "TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS",
)


def describe() -> dict[str, Any]:
    """Name, reason, cores with their HBM in bytes, versions and the NEFF cache."""
    from neuron_lab.emulator import cache, dispatch

    _attach.attach()
    shim = _attach.shim()
    disk = dispatch.store()
    files = disk.entries()
    limit = shim.hbm_limit()
    memories = [shim.memory(core) for core in range(shim.core_count())]
    aside = _attach.stands_aside()
    return {
        "name": f"emulated {chip().instance}",
        "why": aside or "no torch_neuronx is installed, so the emulator serves the device",
        "core_count": len(memories),
        "versions": {
            "emulator": __version__,
            **{name: version for name, version in cache.versions().items() if name != "torch"},
        },
        "cores": [{"used": memory["current"], "limit": limit, "peak": memory["peak"]} for memory in memories],
        "cache": {
            "dir": str(disk.root) if disk.root is not None else f"switched off by {cache.location()[1]}=1",
            "entries": len(files),
            "bytes": sum(file.size for file in files),
            "hits_memory": sum(plan[3] for plan in shim.plans() if plan[1] == "compiled"),
            "hits_disk": events.counters.from_disk,
            "misses": events.counters.compiled,
        },
        "variables_read": VARIABLES_READ,
    }
