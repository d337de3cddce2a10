"""`torch_neuronx` served by neuron_lab's emulator. This folder stands last on sys.path: an installed torch_neuronx wins."""

from __future__ import annotations

import sys as _sys

from neuron_lab._version import __version__ as _version
from neuron_lab.emulator import attach

attach()

from neuron_lab.emulator.api import absent as _absent  # noqa: E402  # only once the device is there
from neuron_lab.emulator.api import memory, metrics  # noqa: E402
from neuron_lab.emulator.api import native as _C  # noqa: E402
from neuron_lab.emulator.api.neuron import *  # noqa: E402,F403
from neuron_lab.emulator.api.neuron import __all__ as _names  # noqa: E402
from neuron_lab.emulator.api.tracking import (  # noqa: E402
    clear_op_tracking,
    get_executed_ops,
    get_fallback_ops,
    is_neuron_runtime_initialized,
)

_sys.modules.update(
    {f"{__name__}.{name}": part for name, part in (("_C", _C), ("memory", memory), ("metrics", metrics))}
)

__version__ = f"{_version}+emulated"
__all__ = [
    *_names,
    "_C",
    "clear_op_tracking",
    "get_executed_ops",
    "get_fallback_ops",
    "is_neuron_runtime_initialized",
    "metrics",
]


def __getattr__(name: str) -> object:
    raise _absent.attribute_error(name)
