"""Whose line made an op call, in which module and phase: the rules of the emulator's csrc/frames.cpp, read off Python's own frames."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from neuron_lab._scopes import FrameRules, frame_rules

_BEYOND = 16  # frames looked at past the user's line, for the module that it runs in
_HERE = str(Path(__file__).parent)


class Caller(NamedTuple):
    """`where`: (file, first line of the function, function, line), None for no line of the user's."""

    where: tuple[str, int, str, int] | None
    module: str | None
    phase: str


@functools.cache
def _rules() -> FrameRules:
    return frame_rules()


@functools.cache
def _is_user_file(name: str) -> bool:
    return _rules().is_user_file(name)


@functools.cache
def _passed_through() -> tuple[str, ...]:
    """Files of the frames that a dispatch mode adds."""
    import torch._compile
    import torch._dynamo.eval_frame
    import torch._ops

    return tuple(str(module.__file__) for module in (torch._compile, torch._dynamo.eval_frame, torch._ops))


class Callers:
    """What one session has named. `owner` is the thread that opened it."""

    def __init__(self, owner: int) -> None:
        self._owner = owner
        self._paths: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def now(self) -> Caller:
        """Who called the op that this thread is in."""
        import torch

        rules = _rules()
        where, module, phase = None, None, "forward"
        if torch._C._current_graph_task_id() >= 0:
            phase = "backward"
        looking, beyond = True, 0
        for frame in self._frames(phase):
            if where is not None and not (looking and beyond < _BEYOND):
                break
            code = frame.f_code
            beyond += where is not None
            if looking and code is rules.module_call:
                module, looking = self._path(frame), False
            elif looking and code in rules.optimizer:
                # A step's closure is the user's, with gradients on; a step of the user's own has them off.
                if phase == "forward" and (where is None or not torch.is_grad_enabled()):
                    phase = "optimizer"
                looking = False
            if where is None and _is_user_file(code.co_filename):
                where = code.co_filename, code.co_firstlineno, code.co_qualname, frame.f_lineno
        return Caller(where, module, phase)

    def _frames(self, phase: str) -> Iterator[FrameType]:
        """From the innermost outwards. Autograd's threads run no Python but a mode's and that of libraries: the line that waits for them
        in the recording thread is the caller's, so its frames come next."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and _is_ours(frame.f_code.co_filename):
            frame = frame.f_back
        waits = (frame is None or phase == "backward") and threading.get_ident() != self._owner
        while frame is not None:
            yield frame
            frame = frame.f_back
        frame = sys._current_frames().get(self._owner) if waits else None
        while frame is not None:
            yield frame
            frame = frame.f_back

    def _path(self, frame: FrameType) -> str | None:
        module = frame.f_locals.get("self")
        if module is None:
            return None
        if module not in self._paths:
            # Naming runs the program's own code: a module that it fails for has no path, but its op goes on.
            try:
                self._paths.update(_rules().name_modules(_running(frame)))
            except Exception:
                return None
        return self._paths.get(module)


def _is_ours(file: str) -> bool:
    return file.startswith(_HERE) or file in _passed_through()


def _running(frame: FrameType | None) -> list[Any]:
    """The modules whose calls are open, from `frame`, which is one, outwards."""
    found = []
    while frame is not None:
        if frame.f_code is _rules().module_call and frame.f_locals.get("self") is not None:
            found.append(frame.f_locals["self"])
        frame = frame.f_back
    return found
