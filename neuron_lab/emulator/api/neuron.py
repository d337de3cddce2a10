"""The module `torch.neuron` on the emulator (facts about TorchNeuron: its April 2026 snapshot, torch_neuronx/neuron.py)."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from neuron_lab.emulator import _attach
from neuron_lab.emulator.api import memory
from neuron_lab.emulator.api.compiled import get_dynamo_metrics, reset_dynamo_metrics
from neuron_lab.emulator.api.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from neuron_lab.emulator.api.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from neuron_lab.emulator.api.streams import Event, Stream, current_stream, default_stream, set_stream, stream
from neuron_lab.emulator.driver import chip, visible_cores

__all__ = [
    "Event",
    "NeuronDeviceProperties",
    "Stream",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_device_properties",
    "get_dynamo_metrics",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_dynamo_metrics",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

# `import torch.neuron.memory` and `from torch.neuron import memory` ask for a package.
__path__: list[str] = []


@dataclass(frozen=True, slots=True)
class NeuronDeviceProperties:
    """`name`: the instance family; `total_memory`: HBM of the core in bytes; `emulated`: always True here."""

    name: str
    total_memory: int
    emulated: bool = True


def is_available() -> bool:
    """Whether a `neuron` device can be used: True on the emulator, which is built at first use."""
    return True


def is_initialized() -> bool:
    """Whether the device has been started in this process."""
    return _attach.is_used() and not _attach.is_forked()


def init() -> None:
    """Start the device now instead of at first use. Raises RuntimeError in a forked child."""
    _lazy_init()


def _lazy_init() -> None:
    _attach.use()


def _is_in_bad_fork() -> bool:
    return _attach.is_forked()


def __getattr__(name: str) -> Any:
    # Activation checkpointing replays the device's random state only for a module that says it is initialised.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module 'torch.neuron' has no attribute {name!r}")


def device_count() -> int:
    """How many cores (`neuron:N`) this process sees."""
    return int(_attach.shim().core_count()) if _attach.is_started() else visible_cores(chip())


def current_device() -> int:
    """The core that `device="neuron"` means in this thread."""
    return int(_attach.shim().current_core()) if _attach.is_started() else 0


def set_device(device: Any) -> None:
    """Make a core the current one of this thread. Raises ValueError for a core that does not exist."""
    core = _index(device)
    if core < 0:
        return
    _check(core)
    _lazy_init()  # fake tensors are on the current core only of a device that is in use
    if core != current_device() and (fake := sys.modules.get("torch._subclasses.fake_tensor")) is not None:
        fake.FakeTensorMode.cache_clear()  # it has the core that was current when they were made
    _attach.shim().set_core(core)


def _check(core: int) -> None:
    count = device_count()
    if not 0 <= core < count:
        raise ValueError(f"Invalid device id: {core}. Valid range is 0 to {count - 1}")


def _index(device: Any, optional: bool = True) -> int:
    """The core number of None (the current one), an int, a string or a torch.device."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != _attach.DEVICE:
        raise ValueError(f"Expected a neuron device, but got: {device}")
    return current_device() if device.index is None else int(device.index)


class device:
    """Context manager: another current core inside. A negative index changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = current_device()
        if self.idx >= 0:
            set_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.idx >= 0:
            set_device(self.prev_idx)


class device_of(device):
    """Context manager: the core of a tensor or storage inside; other objects change nothing."""

    def __init__(self, obj: Any) -> None:
        owner = getattr(obj, "device", None)
        super().__init__(owner.index if owner is not None and owner.type == _attach.DEVICE else -1)


def synchronize(device: Any = None) -> None:
    """Wait until a core is idle. Emulated execution is synchronous: every call has finished when it returns."""
    _check(_index(device))


def get_device_name(device: Any = None) -> str:
    """ "neuron:N"."""
    core = _index(device)
    _check(core)
    return f"{_attach.DEVICE}:{core}"


def get_device_properties(device: Any = None) -> NeuronDeviceProperties:
    """Family and HBM of a core."""
    _check(_index(device))
    limit = int(_attach.shim().hbm_limit()) if _attach.is_started() else chip().hbm_bytes
    return NeuronDeviceProperties(chip().family, limit)


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """Supported dtypes, as torch.accelerator asks for them."""
    return {"supported_dtypes": set(get_amp_supported_dtype())}


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes torch.autocast("neuron") accepts."""
    return [torch.float32, torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True."""
    return True


def _sleep(cycles: int) -> None:
    """Nothing, as on TorchNeuron."""
