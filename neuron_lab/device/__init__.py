"""Who serves `neuron` here, behind one typed face."""

from __future__ import annotations

from neuron_lab.device._describe import CacheState, CoreMemory, Description, describe
from neuron_lab.device._process import LateVariable, compile_history, core_memory, is_user_file, late_variables, now_ns
from neuron_lab.device._resolve import DeviceInfo, fast_hook, resolve
from neuron_lab.device._types import FastHook, RawLog
from neuron_lab.device._variables import IgnoredVariable, ignored_variables

__all__ = [
    "CacheState",
    "CoreMemory",
    "Description",
    "DeviceInfo",
    "FastHook",
    "IgnoredVariable",
    "LateVariable",
    "RawLog",
    "compile_history",
    "core_memory",
    "describe",
    "fast_hook",
    "ignored_variables",
    "is_user_file",
    "late_variables",
    "now_ns",
    "resolve",
]
