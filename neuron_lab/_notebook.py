"""What a notebook itself keeps alive: Out, `_`, `_5`, the last traceback. Found for `memory()`, let go of for `memory(free=True)`."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterator
from typing import Any

from neuron_lab.recording import Root, frames_of, traceback_roots

# Names IPython makes; every other name is the user's.
_IPYTHONS = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_oh|_dh|_ih|In|Out|get_ipython|exit|quit|open")
_LAST = ("last_exc", "last_value", "last_traceback", "last_type")


def shell() -> Any:
    """The IPython shell that runs, None without one."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def roots() -> list[Root]:
    """The user's variables first, then what IPython keeps, then the last traceback."""
    running = shell()
    namespace: dict[str, Any] = vars(sys.modules["__main__"]) if running is None else running.user_ns
    found = [Root(name, value) for name, value in list(namespace.items()) if _is_users(name, namespace, running)]
    if running is not None:
        outputs = namespace.get("_oh", {})
        found += [Root(f"Out[{number}]", value) for number, value in list(outputs.items())]
        found += [Root(name, namespace.get(name)) for name in ("_", "__", "___")]
        found += [
            Root(name, value)
            for name, value in [*namespace.items(), *running.user_ns_hidden.items()]
            if re.fullmatch(r"_\d+", name)
        ]
    return [*found, *_traceback(running)]


def free() -> None:
    """Let go of Out, `_`, `_5` and the last traceback. The user's own variables stay, also one called `_`."""
    running = shell()
    if running is not None:
        hook, namespace = running.displayhook, running.user_ns
        outputs = dict(namespace.get("_oh", {}))
        shown = {name: getattr(hook, name, None) for name in ("_", "__", "___")}
        users = {
            name: namespace[name] for name, value in shown.items() if name in namespace and namespace[name] is not value
        }
        users |= {
            name: value
            for name, value in namespace.items()
            if re.fullmatch(r"_\d+", name) and outputs.get(int(name[1:])) is not value
        }
        del outputs, shown
        if hook.do_full_cache:
            hook.flush()
        # IPython compares these with the user's to see who set them: both have to go.
        running.user_ns_hidden.update({name: "" for name in ("_", "__", "___") if name in running.user_ns_hidden})
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


def _traceback(running: Any) -> Iterator[Root]:
    yield from frames_of(getattr(sys, "last_value", None))
    if running is not None:
        yield from traceback_roots(getattr(running.InteractiveTB, "tb", None))
