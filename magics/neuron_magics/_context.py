"""Where a command runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from IPython.core.interactiveshell import InteractiveShell


@dataclass(frozen=True, slots=True)
class Context:
    """The shell, the body below a `%%neuron` line, and the locals of the function a line magic stands in."""

    shell: InteractiveShell
    cell: str | None = None
    local_ns: dict[str, Any] | None = None
