"""Who serves `neuron`, and in what state it is."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from neuron_lab import device, render
from neuron_lab._version import __version__
from neuron_lab.device import Description, IgnoredVariable


@dataclass(frozen=True, slots=True)
class Status:
    """One look at the device. In a notebook it displays as a table.

    `ignored` are environment variables that are set and change nothing; None where the device does not tell what it reads.
    """

    device: Description
    versions: Mapping[str, str]
    ignored: tuple[IgnoredVariable, ...] | None

    def to_text(self) -> str:
        """The status as text, 100 columns at most."""
        return render.status_text(self.device, self.versions, self.ignored)

    def to_html(self) -> str:
        """The status as one self-contained HTML fragment."""
        return render.status_html(self.device, self.versions, self.ignored)

    def __repr__(self) -> str:
        return f"<neuron status: {self.device.info.name}, {len(self.device.cores)} cores>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.to_text(), "text/html": self.to_html()}


def status() -> Status:
    """Look now: device and why it was chosen, HBM of each core, versions, NEFF cache, variables that are set but not read."""
    found = device.describe()
    versions = {"python": platform.python_version(), "neuron_lab": __version__, **found.info.versions}
    read = found.variables_read
    ignored = None if read is None else tuple(device.ignored_variables(os.environ, read))
    return Status(found, versions, ignored)
