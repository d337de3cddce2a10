"""Profile, inspect and understand PyTorch programs on the `neuron` device, on Trainium or on the emulator.

Importing this package imports neither torch nor pandas: names load with their first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from neuron_lab._version import __version__
from neuron_lab.errors import BudgetExceeded, DeviceProblem, FileProblem, NeuronLabError, UsageProblem

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from neuron_lab._compare import CompileTrial, compare
    from neuron_lab._comparison import Comparison
    from neuron_lab._memory import Memory, memory
    from neuron_lab._pages import Page, explain, recompiles
    from neuron_lab._panel import Panel, panel
    from neuron_lab._profile import profile
    from neuron_lab._result import Profile, last, load
    from neuron_lab._session import SessionReport, session
    from neuron_lab._status import Status, status

_HOMES = {
    "Comparison": "neuron_lab._comparison",
    "CompileTrial": "neuron_lab._compare",
    "Memory": "neuron_lab._memory",
    "Page": "neuron_lab._pages",
    "Panel": "neuron_lab._panel",
    "Profile": "neuron_lab._result",
    "SessionReport": "neuron_lab._session",
    "Status": "neuron_lab._status",
    "compare": "neuron_lab._compare",
    "explain": "neuron_lab._pages",
    "last": "neuron_lab._result",
    "load": "neuron_lab._result",
    "memory": "neuron_lab._memory",
    "panel": "neuron_lab._panel",
    "profile": "neuron_lab._profile",
    "recompiles": "neuron_lab._pages",
    "session": "neuron_lab._session",
    "status": "neuron_lab._status",
}

__all__ = [
    "BudgetExceeded",
    "Comparison",
    "CompileTrial",
    "DeviceProblem",
    "FileProblem",
    "Memory",
    "NeuronLabError",
    "Page",
    "Panel",
    "Profile",
    "SessionReport",
    "Status",
    "UsageProblem",
    "__version__",
    "compare",
    "explain",
    "last",
    "load",
    "load_ipython_extension",
    "memory",
    "panel",
    "profile",
    "recompiles",
    "session",
    "status",
    "unload_ipython_extension",
]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext neuron_lab` adds the command `%neuron`."""
    import neuron_magics

    neuron_magics.load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """`%unload_ext neuron_lab` takes everything back."""
    import neuron_magics

    neuron_magics.unload(shell)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
