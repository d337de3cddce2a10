"""Who serves `neuron` here, behind one typed face."""

from __future__ import annotations

from neuron_lab.device._cache import CacheLocation, LoadedNeff, cache_location, forget_neffs, loaded_neffs
from neuron_lab.device._describe import CacheState, CoreMemory, Description, describe
from neuron_lab.device._fresh import fresh_caches
from neuron_lab.device._graphs import dynamo, graph_compiles
from neuron_lab.device._process import (
    LateVariable,
    busy_ns,
    compile_history,
    core_memory,
    late_variables,
    now_ns,
    watch_compiles,
)
from neuron_lab.device._resolve import DeviceInfo, hook, resolve
from neuron_lab.device._types import Hook, RawLog
from neuron_lab.device._variables import IgnoredVariable, ignored_variables

__all__ = [
    "CacheLocation",
    "CacheState",
    "CoreMemory",
    "Description",
    "DeviceInfo",
    "Hook",
    "IgnoredVariable",
    "LateVariable",
    "LoadedNeff",
    "RawLog",
    "busy_ns",
    "cache_location",
    "compile_history",
    "core_memory",
    "describe",
    "dynamo",
    "forget_neffs",
    "fresh_caches",
    "graph_compiles",
    "hook",
    "ignored_variables",
    "late_variables",
    "loaded_neffs",
    "now_ns",
    "resolve",
    "watch_compiles",
]
