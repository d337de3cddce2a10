"""A program compiled for a comparison, apart from what the user has compiled, and what Dynamo says of it."""

from __future__ import annotations

import copy
import inspect
import os
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from neuron_lab import _notebook
from neuron_lab.report import GraphBreak


def compiled_anew(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` compiled as the user would, and as Dynamo has never seen it."""
    import torch

    compiled: Callable[..., Any] = torch.compile(
        _apart(function), backend="neuron", dynamic=False, isolate_recompiles=True
    )  # type: ignore[call-overload]  # the overloads lag behind
    return compiled


def _apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same program with a code object of its own: what Dynamo learns of a function, it keeps there.

    Not a function that calls it: where the graph breaks, Dynamo treats an inner function as another program.
    """
    if inspect.ismethod(function):
        return types.MethodType(_apart(function.__func__), function.__self__)
    if not inspect.isfunction(function):
        return function
    copied = types.FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


def start_compilers() -> None:
    """Once in a process Dynamo and the device's compiler are imported and set up: no program's first call should pay for it."""
    import torch

    compiled_anew(lambda x: -x)(torch.ones(1, device="neuron"))


class Breaks:
    """Collects what Dynamo says while it compiles."""

    def __init__(self) -> None:
        self.found: tuple[GraphBreak, ...] = ()
        self.graphs = 0

    def __enter__(self) -> None:
        from torch._dynamo import utils

        self._count = len(utils.graph_break_reasons)
        self._graphs = utils.counters["stats"]["unique_graphs"]

    def __exit__(self, *_: object) -> None:
        from torch._dynamo import utils

        reasons = utils.graph_break_reasons[self._count :]
        self.graphs = utils.counters["stats"]["unique_graphs"] - self._graphs
        found: dict[str, str] = {}
        for item in reasons:  # for one break Dynamo may tell two, the second in its own terms
            found.setdefault(_place(item), _words(item.reason))
        self.found = tuple(GraphBreak(reason, where) for where, reason in found.items())


def _words(reason: str) -> str:
    first = reason.strip().partition("\n")[0]
    # Dynamo's name for it inside the compiled function itself, in place of the words it has for an inlined one.
    return "Data-dependent branching" if first.startswith("generic_jump ") else first


def _place(reason: Any) -> str:
    if not reason.user_stack:
        return "an unknown line"
    frame = reason.user_stack[-1]
    return f"{_notebook.cell_name(frame.filename) or os.path.basename(frame.filename)} line {frame.lineno}"


@contextmanager
def dynamo_as_before() -> Iterator[None]:
    """Dynamo's lists and counters are the user's; its compiled code is kept apart by `isolate_recompiles`, and let go of, as are the
    names it sets in the program's globals, some ten a compile.

    Code never dies that Dynamo has compiled. Only code that the user had compiled before keeps what was added.
    """
    from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list, reset_code
    from torch._dynamo import utils

    count, counters = len(utils.graph_break_reasons), copy.deepcopy(utils.counters)
    # A function that was only compared before has been met too, but nothing is compiled for it.
    users = {id(code): code for code in _met() if _debug_get_cache_entry_list(code)}
    named = dict(utils.CleanupManager.instance.values)
    try:
        yield
    finally:
        anew = {id(code): code for code in _met() if id(code) not in users}
        for code in anew.values():
            reset_code(code)
        _take_names_back(named, anew.keys())
        del utils.graph_break_reasons[count:]
        utils.counters.clear()
        utils.counters.update(counters)


def _met() -> list[types.CodeType]:
    """The code that Dynamo has looked at, as far as it lives."""
    from torch._dynamo import convert_frame

    return [code for reference in convert_frame.input_codes.seen if (code := reference()) is not None]


def _take_names_back(before: Mapping[int, object], originals: Collection[int]) -> None:
    """Out of the program's globals: what the code that Dynamo made since `before` of code in `originals`, by id, calls there.

    Dynamo does it when its code dies; after a graph break that is when the process ends, and in IPython the namespace is empty by then.
    """
    from torch._dynamo import utils

    hooks = utils.CleanupManager.instance.values
    for number, own in list(hooks.items()):  # by the id of code, which may have been another's before
        if own is not before.get(number) and id(utils.orig_code_map.values.get(number)) in originals:
            for hook in own:
                if hook.name in hook.scope:
                    hook()
            hooks[number] = []
