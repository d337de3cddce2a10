"""Decide who serves `neuron` in this process. By capability, never by version number."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Literal

from neuron_lab.device._types import Hook
from neuron_lab.errors import DeviceProblem

Kind = Literal["emulator", "trainium", "none"]


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """The device that answers to `neuron`.

    `name` is what reports print ("emulated trn2.3xlarge"), `why` one sentence on how it was chosen,
    `core_count` the number of `neuron:N` devices, `versions` the packages a result depends on.
    """

    kind: Kind
    name: str
    why: str
    core_count: int
    versions: dict[str, str] = field(default_factory=dict)


def resolve() -> DeviceInfo:
    """Look at the process as it is; imports torch, which lets a Trainium backend register itself."""
    import torch

    versions = {"torch": str(torch.__version__)}
    real = _trainium_module()
    if real is not None:
        version = str(getattr(sys.modules.get("torch_neuronx"), "__version__", "unknown"))
        count = int(real.device_count())
        why = "torch_neuronx registered the device"
        return DeviceInfo("trainium", _trainium_name(real), why, count, versions | {"torch_neuronx": version})
    from neuron_lab import emulator

    if not emulator.attach():
        why = f"{emulator.stands_aside()}, and registered no device"
        return DeviceInfo("none", "no neuron device", why, 0, versions)
    return _emulator_info()


def hook() -> Hook:
    """A fresh recording session: the emulator's fast hook; on Trainium, which has none, one that waits for every op.

    Raises DeviceProblem when nothing serves `neuron`.
    """
    info = resolve()
    if info.kind == "none":
        raise DeviceProblem(f"no device serves `neuron` here ({info.why}); `%neuron status` tells what was found")
    if info.kind == "trainium":
        from neuron_lab.device import generic

        return generic.hook()
    from neuron_lab.emulator import events

    return events.hook()


@functools.cache
def _emulator_info() -> DeviceInfo:
    # Fixed for the life of the process, and describe() also counts the cache directory: too slow to ask for every profile.
    import torch

    from neuron_lab import emulator

    told = emulator.describe()
    versions = {"torch": str(torch.__version__), **told["versions"]}
    return DeviceInfo("emulator", str(told["name"]), str(told["why"]), int(told["core_count"]), versions)


def _trainium_module() -> ModuleType | None:
    """`torch.neuron` as TorchNeuron registers it. The emulator's has the same name and another home: inside neuron_lab."""
    import torch

    module = getattr(torch, "neuron", None)
    if not isinstance(module, ModuleType) or not hasattr(module, "device_count"):
        return None
    own = Path(__file__).resolve().parents[1]
    return None if own in Path(module.__file__ or "").resolve().parents else module


def _trainium_name(module: ModuleType) -> str:
    if int(module.device_count()) == 0:
        return "Trainium"
    return f"Trainium {module.get_device_properties(0).name}"
