"""Which frames of an error IPython shows: the program's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from neuron_lab._scopes import is_user_file
from neuron_lab.device import dynamo

_OURS = ("neuron_lab", "neuron_magics")
_COMPILE = "torch._dynamo.convert_frame"  # the module whose frame is the outermost of a compile


def show_own_frames(error: BaseException, shell: Any, file: str) -> None:
    """Make IPython show the frames from the first one of the code in `file` on, the user's text that the magic runs.

    Where no such frame is, the program was only read, as Dynamo does: then from where it was handed over. An error of this package
    itself keeps all its frames.
    """
    frames = list(_frames(error.__traceback__))
    ours = list(map(_is_ours, frames))
    handed = ours.index(False, ours.index(True)) if True in ours and not ours[-1] else None
    if isinstance(error, KeyboardInterrupt):
        handed = None  # it came at a time when the program did not run
    read = next((index for index, trace in enumerate(frames) if trace.tb_frame.f_code.co_filename == file), handed)
    if read is not None and not hasattr(error, "_render_traceback_"):
        error._render_traceback_ = partial(_show_from, frames[read], error, shell)  # type: ignore[attr-defined]


def _show_from(first: TracebackType, error: BaseException, shell: Any) -> list[str]:
    """What IPython shows; a debugger goes by the error's own traceback, where only our frames are left out."""
    outside = itertools.takewhile(lambda item: item is not first and not _is_ours(item), _frames(error.__traceback__))
    error.__traceback__ = _joined([*outside, *_frames(first)])
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, first, tb_offset=0)
    return lines


class CompileFrames:
    """Leaves the inside of a compile out of a shell's tracebacks, when it could not trace the program, and for an interrupt.

    These are some eighty frames, and IPython reads, parses and highlights the source of each, twice: many seconds before an
    interrupted cell ends. PyTorch itself leaves them out for most of its errors; `torch._dynamo.config.verbose` shows them here too.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._table: Any = shell.InteractiveTB  # IPython is typed in part
        self._show = self._table.structured_traceback

    def install(self) -> None:
        self._table.structured_traceback = self._without

    def remove(self) -> None:
        if self._table.structured_traceback == self._without:  # what another extension has put over it stays
            del self._table.structured_traceback

    def _without(self, etype: Any, error: Any, trace: Any = None, *args: Any, **options: Any) -> list[str]:
        left_out = 0
        if isinstance(trace, TracebackType) and _is_of_compile(error):
            trace, left_out = _outside(trace, error)
        left_out += sum(map(_shorten, _those_behind(error)))
        _shorten(error)  # a debugger goes by the error's own traceback
        lines: list[str] = self._show(etype, error, trace, *args, **options)
        if left_out:
            lines = [
                *lines,
                f"frames that are not the program's are left out ({left_out}); TORCHDYNAMO_VERBOSE=1 shows them",
            ]
        return lines


def _is_of_compile(error: object) -> bool:
    module = dynamo()
    if module is not None and module.config.verbose:
        return False
    return isinstance(
        error, KeyboardInterrupt if module is None else (KeyboardInterrupt, module.exc.TorchDynamoException)
    )


def _those_behind(error: object) -> Iterator[BaseException]:
    """What `error` came of: a shell shows those frames too. A group of errors is not shown by the shell's tables."""
    waiting, met = [error], {id(None)}
    while waiting:
        part = waiting.pop()
        if not isinstance(part, BaseException) or id(part) in met:
            continue
        met.add(id(part))
        if part is not error:
            yield part
        waiting += [part.__cause__, part.__context__]


def _shorten(error: object) -> int:
    """Leave the inside of a compile out of the error's own traceback; gives the number of frames."""
    if not isinstance(error, BaseException) or error.__traceback__ is None or not _is_of_compile(error):
        return 0
    error.__traceback__, left_out = _outside(error.__traceback__, error)
    return left_out


def _outside(trace: TracebackType, error: object) -> tuple[TracebackType, int]:
    """The traceback without what is not the user's inside of a compile, and the number of its frames.

    An interrupt leaves out our own frames too: who waits for the device, or for a profile to end, is in the midst of them.
    """
    frames = list(_frames(trace))
    interrupted = isinstance(error, KeyboardInterrupt)
    inside = (_module(item) == _COMPILE or (interrupted and _is_ours(item)) for item in frames)
    start = next((index for index, found in enumerate(inside) if found), len(frames))
    kept = frames[:start] + [item for item in frames[start:] if is_user_file(item.tb_frame.f_code.co_filename)]
    return (_joined(kept), len(frames) - len(kept)) if kept else (trace, 0)


def _joined(frames: list[TracebackType]) -> TracebackType:
    shown: TracebackType | None = None
    for item in reversed(frames):
        shown = TracebackType(shown, item.tb_frame, item.tb_lasti, item.tb_lineno)
    assert shown is not None
    return shown


def _frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_ours(trace: TracebackType) -> bool:
    return _module(trace).partition(".")[0] in _OURS


def _module(trace: TracebackType) -> str:
    return str(trace.tb_frame.f_globals.get("__name__"))
