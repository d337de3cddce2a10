"""A program compiled for a comparison, apart from what the user has compiled, and what Dynamo says of it."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from neuron_lab.report import GraphBreak


def compiled_anew(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as Dynamo has never seen it."""
    import torch

    def program(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    compiled: Callable[..., Any] = torch.compile(program, backend="neuron", dynamic=False, isolate_recompiles=True)  # type: ignore[call-overload]  # the overloads lag behind
    return compiled


def start_compilers() -> None:
    """Once in a process Dynamo and the device's compiler are imported and set up: no program's first call should pay for it."""
    import torch

    compiled_anew(torch.neg)(torch.ones(1, device="neuron"))


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
            found.setdefault(_place(item), item.reason.strip().partition("\n")[0])
        self.found = tuple(GraphBreak(reason, where) for where, reason in found.items())


def _place(reason: Any) -> str:
    if not reason.user_stack:
        return "an unknown line"
    frame = reason.user_stack[-1]
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    named = None if shell is None else shell.compile.format_code_name(frame.filename)
    return f"{named[1] if named else os.path.basename(frame.filename)} line {frame.lineno}"


@contextmanager
def dynamo_as_before() -> Iterator[None]:
    """Dynamo's lists and counters are the user's; its compiled code is kept apart by `isolate_recompiles`."""
    from torch._dynamo import utils

    count, counters = len(utils.graph_break_reasons), copy.deepcopy(utils.counters)
    try:
        yield
    finally:
        del utils.graph_break_reasons[count:]
        utils.counters.clear()
        utils.counters.update(counters)
