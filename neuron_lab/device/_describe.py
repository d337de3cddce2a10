"""What `%neuron status` shows of the device: cores, HBM, the NEFF cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from neuron_lab.device._resolve import DeviceInfo, resolve


@dataclass(frozen=True, slots=True)
class CoreMemory:
    """HBM of one core, in bytes."""

    used: int
    limit: int
    peak: int


@dataclass(frozen=True, slots=True)
class CacheState:
    """The NEFF cache: entries and bytes on disk, hits and misses of this process."""

    directory: str
    entries: int
    bytes: int
    hits_memory: int
    hits_disk: int
    misses: int


@dataclass(frozen=True, slots=True)
class Description:
    """One look at the device. `variables_read` is None where the device does not tell what it reads."""

    info: DeviceInfo
    cores: tuple[CoreMemory, ...]
    cache: CacheState | None
    variables_read: frozenset[str] | None


def describe() -> Description:
    """Ask the device now; nothing is cached."""
    info = resolve()
    if info.kind == "emulator":
        from neuron_lab import emulator

        return from_mapping(info, emulator.describe())
    if info.kind == "trainium":
        from neuron_lab.device._process import core_memory

        return Description(info, core_memory(), None, None)
    return Description(info, (), None, None)


def from_mapping(info: DeviceInfo, told: Mapping[str, Any]) -> Description:
    """Type what `neuron_lab.emulator.describe()` tells."""
    cores = tuple(CoreMemory(int(core["used"]), int(core["limit"]), int(core["peak"])) for core in told["cores"])
    cache = told["cache"]
    state = CacheState(
        directory=str(cache["dir"]),
        entries=int(cache["entries"]),
        bytes=int(cache["bytes"]),
        hits_memory=int(cache["hits_memory"]),
        hits_disk=int(cache["hits_disk"]),
        misses=int(cache["misses"]),
    )
    return Description(info, cores, state, frozenset(told["variables_read"]))
