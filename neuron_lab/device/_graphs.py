"""What torch.compile traced in this process, in Dynamo's own words. Nothing is hooked: Dynamo keeps these records by itself."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from neuron_lab._scopes import is_user_file
from neuron_lab.device._resolve import resolve

# How torch._dynamo.convert_frame writes a frame of the stack that led to a compile (torch 2.13).
_FRAME = re.compile(r"Line: (\d+), Name: (.*), Filename: (.*)")
# How it calls what comes after a graph break (torch._dynamo.resume_execution): the rest of a function has a code of its own.
_REST = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)")
_LONGEST = 4000
_MOST = 64


def dynamo() -> Any:
    """The module `torch._dynamo` when it is there as a whole, else None: while a thread imports it, many of its names are missing."""
    module = sys.modules.get("torch._dynamo")
    # What Python's own import statement goes by.
    return None if module is None or getattr(module.__spec__, "_initializing", False) else module


def graph_compiles(since_ns: int, until_ns: int) -> tuple[list[tuple[Any, ...]], bool]:
    """The functions that Dynamo traced between two times of `time.time_ns()`, oldest first, and whether older ones are lost.

    (graph, function, file, first line, where, unix_ns, duration_ns, reasons, failure): `graph` is Dynamo's "2/1", the second compile
    of function 2; `function` is "f", or "f after line 4" after a graph break there; `where` the user's line that called, (file, first line, function, line) or None; `reasons` the guard that
    failed of each compile before, the newest first, () for a function's first; `failure` why nothing was compiled, "" when it was.
    Dynamo keeps the newest 64.
    """
    module = dynamo()
    if module is None:
        return [], False
    utils = module.utils
    kept = utils.get_compilation_metrics()
    # The backward of a graph belongs to the compile of its forward.
    frames = [item for item in kept if item.is_forward is not False and item.compile_id is not None]
    reasons = _all_reasons(frames, utils.guard_failures.values())
    functions: dict[str, Any] = {}
    found = []
    for item in frames:
        begun_ns = (item.start_time_us or 0) * 1000
        number = _function_number(item.compile_id)
        if item.co_name is not None:
            functions[number] = item
        if since_ns <= begun_ns <= until_ns:
            found.append(_row(item, functions.get(number), begun_ns, reasons[id(item)]))
    full = len(kept) == utils._compilation_metrics.maxlen
    return found, full and (kept[0].start_time_us or 0) * 1000 >= since_ns


def _function_number(graph: str) -> str:
    return graph.partition("/")[0]


def _all_reasons(frames: Sequence[Any], failures: Iterable[Sequence[str]]) -> dict[int, tuple[str, ...]]:
    """By `id` of a record, the guards that failed. The record has the one of the newest compile before; Dynamo's list for each
    function has all of them, compile after compile."""
    told: dict[int, tuple[str, ...]] = {
        id(item): ((item.recompile_reason,) if item.recompile_reason else ()) for item in frames
    }
    for lines in failures:
        number = _function_number(lines[-1]) if lines else ""
        again = [item for item in frames if _function_number(item.compile_id) == number and item.recompile_reason]
        # Before a reset of Dynamo the same number was another function's.
        for item, block in zip(reversed(again), _blocks_from_the_end(lines), strict=False):
            if block[0] != item.recompile_reason:
                break
            told[id(item)] = block
    return told


def _blocks_from_the_end(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Each compile adds a line "2/0: …" for every one before it, so backwards a block ends where one comes again."""
    block: list[str] = []
    seen: set[str] = set()
    for line in reversed(lines):
        before = line.partition(":")[0]
        if before in seen:
            yield tuple(reversed(block))
            block, seen = [], set()
        block.append(line)
        seen.add(before)
    if block:
        yield tuple(reversed(block))


def _row(item: Any, function: Any, begun_ns: int, reasons: tuple[str, ...]) -> tuple[Any, ...]:
    """`function` is the newest record that names the function: when the limit is hit, Dynamo's own does not."""
    noted = _noted(item)
    duration_ns = max(0, item.end_time_us * 1000 - begun_ns) if item.end_time_us else 0
    return (
        str(item.compile_id),
        _name(function) if function is not None else "",
        str(function.co_filename) if function is not None else "",
        int(function.co_firstlineno or 0) if function is not None else 0,
        noted[1] if noted is not None else _user_frame(item.stack_trace or ()),
        begun_ns,
        duration_ns,
        tuple(reason[:_LONGEST] for reason in reasons[:_MOST]),
        f"{item.fail_type}: {item.fail_reason or ''}"[:_LONGEST] if item.fail_type else "",
    )


def _name(item: Any) -> str:
    """Dynamo compiles a library's function by way of one of its own, which says nothing."""
    name = str(item.co_name)
    if item.co_filename == sys.modules["torch._dynamo.external_utils"].__file__:
        noted = _noted(item)
        return noted[0] if noted is not None and noted[0] else name
    return _REST.sub(r"\1 after line \2", name)


def _noted(item: Any) -> tuple[str, tuple[str, int, str, int]] | None:
    """(function, where) as the emulator's backend saw it, while it was asked to compile."""
    if resolve().kind != "emulator" or "neuron_lab.emulator.dynamo" not in sys.modules:
        return None
    from neuron_lab.emulator import dynamo

    begun_ns, end_ns = (item.start_time_us or 0) * 1000, (item.end_time_us or 0) * 1000
    for at_ns, number, function, place in reversed(dynamo.callers):
        if number == str(item.compile_id) and begun_ns <= at_ns <= end_ns:
            return function, place
    return None


def _user_frame(stack: Sequence[str]) -> tuple[str, int, str, int] | None:
    """The innermost of the user's frames around the compiled function, which is the last. Dynamo leaves out a direct caller.

    The text does not tell where that frame's function begins: the line itself stands for it.
    """
    for text in reversed(stack[:-1]):
        frame = _FRAME.fullmatch(text)
        if frame is not None and is_user_file(frame[3]):
            line = int(frame[1])
            return frame[3], 1 if frame[2] == "<module>" else line, frame[2], line
    return None
