"""Where PyTorch decides by device type how memory leaves the process or the library, and its private device is left out."""

from __future__ import annotations

import functools
from multiprocessing import reduction
from typing import Any

import torch

from neuron_lab.emulator import _attach

__all__ = ["install"]

_ALONE = (
    "neuron memory belongs to one process and cannot be shared with another. Share a CPU tensor, x.cpu(), and move it "
    'with .to("neuron") in the process that uses it.'
)


def install() -> None:
    """Teach torch.Tensor its DLPack device, and storages to refuse to be shared instead of doing it in name only."""
    from torch.multiprocessing import reductions

    _wrap(torch.Tensor, "__dlpack_device__", _dlpack_device)
    _wrap(torch.UntypedStorage, "share_memory_", _refuse_to_share)
    # Every tensor, parameter and typed storage that goes to another process is sent by way of its untyped storage.
    send = functools.partial(_refuse_to_share, reductions.reduce_storage)
    reduction.register(torch.UntypedStorage, send)


def _wrap(owner: type, name: str, ours: Any) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return ours(original, self, *args, **kwargs)

    setattr(owner, name, method)


# PyTorch 2.13 compares the type with "privateuse1", which no renamed device is ever called.
def _dlpack_device(original: Any, self: torch.Tensor) -> Any:
    if type(self) is torch.Tensor and self.device.type == _attach.DEVICE:
        from torch.utils.dlpack import DLDeviceType

        return DLDeviceType.kDLExtDev, self.get_device()
    return original(self)


def _refuse_to_share(original: Any, storage: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
    if storage.device.type == _attach.DEVICE:
        raise RuntimeError(_ALONE)
    return original(storage, *args, **kwargs)
