"""The notebook around the program: its shell, the names of its cells, and what it keeps alive itself.

That is Out, `_`, `_5` and the last traceback: found for `memory()`, let go of for `memory(free=True)`.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterator
from typing import Any

from neuron_lab.recording import Kept, Root, frames_of, kept, traceback_roots

# Names IPython makes; every other name is the user's.
_IPYTHONS = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_oh|_dh|_ih|In|Out|get_ipython|exit|quit|open")
_SHOWN = ("_", "__", "___")
_LAST = ("last_exc", "last_value", "last_traceback", "last_type")


def shell() -> Any:
    """The IPython shell that runs, None without one."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def cell_name(file: str) -> str | None:
    """ "In[12]" for the file that IPython gave a cell's code, None for any other."""
    running = shell()
    if running is None or (named := running.compile.format_code_name(file)) is None:
        return None
    kind, name = named
    return str(name) if kind == "Cell" else None


def roots() -> list[Root]:
    """The user's variables first, then what IPython keeps, then the last traceback."""
    running = shell()
    everything: dict[Any, Any] = vars(sys.modules["__main__"]) if running is None else running.user_ns
    namespace = {name: value for name, value in everything.items() if isinstance(name, str)}
    found = [Root(name, value) for name, value in namespace.items() if _is_users(name, namespace, running)]
    if running is not None:
        outputs = namespace.get("_oh", {})
        found += [Root(f"Out[{number}]", value, history=True) for number, value in list(outputs.items())]
        shown = [(name, namespace.get(name)) for name in _SHOWN]
        numbered = [
            (name, value)
            for name, value in [*namespace.items(), *running.user_ns_hidden.items()]
            if re.fullmatch(r"_\d+", name)
        ]
        found += [Root(name, value, _is_ipythons(name, value, running)) for name, value in [*shown, *numbered]]
    return [*found, *_traceback(running)]


def kept_by_history(error: BaseException | None) -> tuple[Kept, ...]:
    """What only the notebook keeps alive at the end of a cell: Out, `_`, and the traceback of `error`, or of the last one."""
    return kept([*roots(), *frames_of(error)])


def free() -> None:
    """Let go of Out, `_`, `_5` and the last traceback. The user's own variables stay, also one called `_`."""
    running = shell()
    if running is not None:
        hook, namespace = running.displayhook, running.user_ns
        users = {
            name: value
            for name, value in namespace.items()
            if isinstance(name, str)
            and (name in _SHOWN or re.fullmatch(r"_\d+", name))
            and not _is_ipythons(name, value, running)
        }
        if hook.do_full_cache:
            hook.flush()
        # IPython compares these with the user's to see who set them: both have to go.
        running.user_ns_hidden.update({name: "" for name in _SHOWN if name in running.user_ns_hidden})
        namespace.update(users)
        running.InteractiveTB.tb = None
        running.last_execution_result = None
    for name in _LAST:
        if hasattr(sys, name):
            delattr(sys, name)
    gc.collect()


def _is_users(name: str, namespace: dict[str, Any], running: Any) -> bool:
    if running is None:
        return not name.startswith("__")
    hidden = running.user_ns_hidden
    return not _IPYTHONS.fullmatch(name) and not (name in hidden and hidden[name] is namespace[name])


def _is_ipythons(name: str, value: Any, running: Any) -> bool:
    """Whether `_` or `_5` holds what IPython put there."""
    if name in _SHOWN:
        return getattr(running.displayhook, name, None) is value
    return running.user_ns.get("_oh", {}).get(int(name[1:])) is value


def _traceback(running: Any) -> Iterator[Root]:
    yield from frames_of(getattr(sys, "last_value", None))
    if running is not None:
        yield from traceback_roots(getattr(running.InteractiveTB, "tb", None))
