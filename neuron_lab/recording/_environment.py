"""What a result depends on."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field

from neuron_lab import device


@dataclass(frozen=True, slots=True)
class Environment:
    """The device and the versions a recording was made with.

    `emulated` is True when nothing ran on Trainium. `versions` holds "python", "torch", "neuron_lab" and what the device adds.
    """

    device: str
    emulated: bool
    why: str = ""
    core_count: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)


def environment() -> Environment:
    """Describe this process; imports torch."""
    from neuron_lab._version import __version__

    info = device.resolve()
    versions = {"python": platform.python_version(), "neuron_lab": __version__, **info.versions}
    return Environment(info.name, info.kind == "emulator", info.why, info.core_count, versions)
