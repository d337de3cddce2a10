"""A PyTorch device named `neuron` on host memory, which goes down TorchNeuron's road op by op.

Nothing above this package may import its inside: it is reached through `torch.neuron`, `torch_neuronx` and the names here.
"""

from __future__ import annotations

from typing import Any

from ._attach import attach, is_attached, shim, stands_aside
from ._scopes import is_user_file
from .build import BuildProblem

__all__ = [
    "BuildProblem",
    "attach",
    "describe",
    "hbm_limit",
    "is_attached",
    "is_user_file",
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


def describe() -> dict[str, Any]:
    """What `%neuron status` shows of the emulator."""
    from ._describe import describe

    return describe()
