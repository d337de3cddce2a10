"""Who serves `neuron` here, behind one typed face."""

from __future__ import annotations

from neuron_lab.device._describe import CacheState, CoreMemory, Description, describe
from neuron_lab.device._fresh import fresh_caches
from neuron_lab.device._process import LateVariable, compile_history, core_memory, late_variables, now_ns
from neuron_lab.device._resolve import DeviceInfo, hook, resolve
from neuron_lab.device._types import Hook, RawLog
from neuron_lab.device._variables import IgnoredVariable, ignored_variables

__all__ = [
    "CacheState",
    "CoreMemory",
    "Description",
    "DeviceInfo",
    "Hook",
    "IgnoredVariable",
    "LateVariable",
    "RawLog",
    "compile_history",
    "core_memory",
    "describe",
    "fresh_caches",
    "hook",
    "ignored_variables",
    "late_variables",
    "now_ns",
    "resolve",
]
