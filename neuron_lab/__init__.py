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

    from neuron_lab._cache import CacheCleaning, NeffCache, cache
    from neuron_lab._compare import compare
    from neuron_lab._comparison import Comparison
    from neuron_lab._memory import Memory, memory
    from neuron_lab._neff import OpenedNeff, open_neff
    from neuron_lab._pages import Page, explain, recompiles
    from neuron_lab._panel import Panel, panel
    from neuron_lab._profile import profile
    from neuron_lab._result import Profile, last, load
    from neuron_lab._session import SessionReport, session
    from neuron_lab._status import Status, status
    from neuron_lab._top import Top, top
    from neuron_lab._trial import CompileTrial

_HOMES = {
    "CacheCleaning": "neuron_lab._cache",
    "Comparison": "neuron_lab._comparison",
    "CompileTrial": "neuron_lab._trial",
    "Memory": "neuron_lab._memory",
    "NeffCache": "neuron_lab._cache",
    "OpenedNeff": "neuron_lab._neff",
    "Page": "neuron_lab._pages",
    "Panel": "neuron_lab._panel",
    "Profile": "neuron_lab._result",
    "SessionReport": "neuron_lab._session",
    "Status": "neuron_lab._status",
    "Top": "neuron_lab._top",
    "cache": "neuron_lab._cache",
    "compare": "neuron_lab._compare",
    "explain": "neuron_lab._pages",
    "last": "neuron_lab._result",
    "load": "neuron_lab._result",
    "memory": "neuron_lab._memory",
    "open_neff": "neuron_lab._neff",
    "panel": "neuron_lab._panel",
    "profile": "neuron_lab._profile",
    "recompiles": "neuron_lab._pages",
    "session": "neuron_lab._session",
    "status": "neuron_lab._status",
    "top": "neuron_lab._top",
}

__all__ = [
    "BudgetExceeded",
    "CacheCleaning",
    "Comparison",
    "CompileTrial",
    "DeviceProblem",
    "FileProblem",
    "Memory",
    "NeffCache",
    "NeuronLabError",
    "OpenedNeff",
    "Page",
    "Panel",
    "Profile",
    "SessionReport",
    "Status",
    "Top",
    "UsageProblem",
    "__version__",
    "cache",
    "compare",
    "explain",
    "last",
    "load",
    "load_ipython_extension",
    "memory",
    "open_neff",
    "panel",
    "profile",
    "recompiles",
    "session",
    "status",
    "top",
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
