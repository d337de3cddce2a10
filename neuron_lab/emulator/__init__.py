"""A PyTorch device named `neuron` on host memory, which goes down TorchNeuron's road op by op.

Nothing above this package may import its inside: it is reached through `torch.neuron`, `torch_neuronx` and the names here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ._attach import attach, is_attached, shim, stands_aside
from .build import BuildProblem

__all__ = [
    "BuildProblem",
    "attach",
    "busy_ns",
    "compiled_set_aside",
    "describe",
    "hbm_limit",
    "is_attached",
    "set_hbm_limit",
    "shim",
    "stands_aside",
]


def hbm_limit() -> int:
    """Bytes of HBM that each emulated core may hold."""
    return int(shim().hbm_limit())


def set_hbm_limit(nbytes: int) -> None:
    """Give every emulated core another HBM limit, in bytes: to see on a laptop what does not fit."""
    shim().set_hbm_limit(int(nbytes))


def busy_ns() -> tuple[int, ...]:
    """Of each core, the nanoseconds in which executables ran on it since this was first asked."""
    found = shim()
    found.count_busy(True)
    return tuple(int(found.busy_ns(core)) for core in range(found.core_count()))


def describe() -> dict[str, Any]:
    """What `%neuron status` shows of the emulator."""
    from ._describe import describe

    return describe()


def compiled_set_aside() -> AbstractContextManager[None]:
    """What this process has compiled, set aside for a while: every op call is a first call."""
    from ._aside import compiled_set_aside

    return compiled_set_aside()
