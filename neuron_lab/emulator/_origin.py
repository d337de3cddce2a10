"""Whose graph it is: the function that Dynamo compiles, with the name and the line that its author knows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from torch import fx, nn

from neuron_lab._scopes import is_user_file

__all__ = ["Origin", "origin_of"]

_FRAME = re.compile(r'  File "(.*)", line (\d+), in (.*)')  # of a node's stack, as Python writes a traceback


@dataclass(frozen=True, slots=True)
class Origin:
    """`function` begins at `first_line` of `file`; the graph begins there too, or after a graph break at `line`.

    `name` is what graphs of it are called: the class of a module for its forward, else the function's name. A function that is not
    written in Python has no `file`. `caller`: file and line of the user's that called it.
    """

    name: str
    file: str
    first_line: int
    function: str
    line: int
    caller: tuple[str, int] | None = None

    @property
    def place(self) -> str:
        """ "net.py line 12", for a library's function where the program calls it.

        A cell has no name that would last, and what a program has generated has no place: "".
        """
        own = self.file, self.line
        file, line = own if self.caller is None or (self.file and is_user_file(self.file)) else self.caller
        path = Path(file)
        if path.is_file():
            return f"{path.name} line {line}"
        return f"a cell, line {line}" if file and is_user_file(file) else ""

    def at_its_line(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """`compiled` called from a frame that stands where the program goes on after a graph break.

        The code that Dynamo makes of the rest of a function calls from the line of the break. Whoever asks for the user's line, in a
        recording or a traceback, then finds the right one.
        """
        if self.line == self.first_line or not is_user_file(self.file):
            return compiled
        head = "\n" * (self.first_line - 1) + "def call(*inputs):"
        source = f"{head}{chr(10) * (self.line - self.first_line)} return compiled(*inputs)"
        names: dict[str, Any] = {"compiled": compiled}
        exec(compile(source, self.file, "exec", dont_inherit=True), names)
        call = names.pop("call")
        call.__code__ = call.__code__.replace(co_name=self.function.rpartition(".")[2], co_qualname=self.function)
        located: Callable[..., Any] = call
        return located


def origin_of(gm: fx.GraphModule, caller: tuple[str, int, str, int] | None = None) -> Origin | None:
    """Of the graph that Dynamo has traced in this thread and hands to a backend; None when nobody traces.

    `caller`: (file, first line, function, line) of the user's that made Dynamo trace.
    """
    from torch._dynamo import external_utils
    from torch._dynamo.resume_execution import ContinueExecutionCache
    from torch._dynamo.symbolic_convert import tls

    tracer: Any = getattr(tls, "current_tx", None)
    if tracer is None:
        return None
    root = tracer.output.root_tx
    code: CodeType = root.f_code
    resumed = ContinueExecutionCache.generated_code_metadata.get(code)
    whole: Any = code if resumed is None else resumed.code
    called = None if caller is None else (caller[0], caller[3])
    owner, program = root.f_locals.get("self"), None
    # Dynamo's frame around a library's function
    if whole.co_filename == external_utils.__file__ and "fn" in root.f_locals:
        owner = program = root.f_locals["fn"]
    if isinstance(owner, nn.Module) and (program is not None or _is_wrapper(whole)):
        program = type(owner).forward
    if program is not None:
        program = inspect.unwrap(program)
        whole = getattr(program, "__code__", None)
        if whole is None:
            name = getattr(program, "__name__", type(program).__name__)
            return Origin(_word(name), "", 0, name, 0, called)
    name = whole.co_name
    if isinstance(owner, nn.Module):
        title = type(owner).__name__
        name = title if name == "forward" else f"{title}_{name}"
    line = whole.co_firstlineno if resumed is None else _first_line(gm, code) or code.co_firstlineno
    return Origin(_word(name), whole.co_filename, whole.co_firstlineno, whole.co_qualname, line, called)


def _is_wrapper(code: CodeType) -> bool:
    """Whether it is a decorator's function."""
    return code.co_qualname.split(".")[-2:-1] == ["<locals>"]


def _word(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")


def _first_line(gm: fx.GraphModule, code: CodeType) -> int | None:
    """The line of `code` that the graph's first op is of."""
    for node in gm.graph.nodes:
        frame = _FRAME.match(node.meta.get("stack_trace") or "")
        if frame is not None and (frame[1], frame[3]) == (code.co_filename, code.co_name):
            return int(frame[2])
    return None
