"""A recording session, and what it changes in the process while it is open: a dispatch mode, `Thread.start`, the launch of graphs."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from neuron_lab.device.generic._log import Log, Tally
from neuron_lab.device.generic._surface import Surface

if TYPE_CHECKING:
    from neuron_lab.device.generic._watch import Mode, Watcher

_CAPACITY = 1 << 17  # events kept per session
_LAUNCH = "execute_compiled_graph"


def hook() -> Hook:
    """A new session, not yet started."""
    return Hook()


class Hook:
    """One recording session, as the fast hook's. Several may be open at once; each sees what happens between its own `start` and `stop`.

    It sees the thread that opens a session and the threads started from such a thread meanwhile. Every op is waited for, and one
    runs at a time.
    """

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._tally: Tally | None = None
        self._owner = 0
        self._graphs = 0

    def start(self) -> None:
        """Begin to record. Raises RuntimeError when this session is already open, DeviceProblem when the device tells too little."""
        if self._tally is not None:
            raise RuntimeError("this recording session is already open")
        installation = _installation()
        self._owner = threading.get_ident()
        self._graphs = len(installation.surface.graphs())
        self._tally = Tally(self._capacity, self._owner)
        installation.surface.neuron.synchronize()
        installation.open(self._tally)

    def stop(self) -> Log:
        """End the session. Raises RuntimeError when it is not open."""
        if self._tally is None:
            raise RuntimeError("this recording session is not open")
        installation = _installation()
        installation.close(self._tally)
        graphs = installation.surface.graphs()
        # Fewer than at the start: the program has cleared the list.
        new = graphs[self._graphs :] if len(graphs) >= self._graphs else graphs
        log = self._tally.log(new)
        self._tally = None
        return log


@functools.cache
def _installation() -> _Installation:
    return _Installation()


class _Installation:
    """What stands in the process while a session is open. Everything is as it was once the last one has ended."""

    def __init__(self) -> None:
        from neuron_lab.device.generic._watch import Mode, Watcher

        self.surface = Surface()
        self._watcher: Watcher = Watcher(self.surface)
        self._mode: Mode = Mode(self._watcher)
        self._lock = threading.Lock()
        self._undo: list[Callable[[], None]] = []

    def open(self, session: Tally) -> None:
        """Let `session` see what this thread does from now on."""
        with self._lock:
            if not self._watcher.sessions:
                self._undo = [self.surface.enable(), *self._wrap()]
            self._watcher.sessions.append(session)
        _enter(self._mode)

    def close(self, session: Tally) -> None:
        """End it. A mode that another thread has entered stays there and hands everything on."""
        with self._lock:
            self._watcher.sessions.remove(session)
            if not self._watcher.sessions:
                for undo in reversed(self._undo):
                    undo()
        here = threading.get_ident()
        if session.owner == here and all(other.owner != here for other in self._watcher.sessions):
            _leave(self._mode)

    def _wrap(self) -> list[Callable[[], None]]:
        start = threading.Thread.start
        undo = [_replace(threading.Thread, "start", self._starting(start))]
        launch = getattr(self.surface.extension, _LAUNCH, None)
        if launch is not None:
            undo.append(_replace(self.surface.extension, _LAUNCH, self._launching(launch)))
        return undo

    def _starting(self, start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
        """A thread is watched as the one that starts it is. A compiler's, started inside an op or while Dynamo works, is not."""

        @functools.wraps(start)
        def started(thread: threading.Thread) -> None:
            if _is_entered(self._mode) and not self._watcher.is_inside_an_op:
                run = thread.run

                def watched() -> None:
                    with self._mode:
                        run()

                thread.run = watched  # type: ignore[method-assign]
            start(thread)

        return started

    def _launching(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(launch)
        def launched(*args: Any, **kwargs: Any) -> Any:
            return self._watcher.launched(launch, args, kwargs)

        return launched


def _replace(owner: Any, name: str, value: Any) -> Callable[[], None]:
    """Set an attribute; what is returned puts the old one back, unless somebody has replaced it since."""
    before = getattr(owner, name)
    setattr(owner, name, value)

    def undo() -> None:
        if getattr(owner, name) is value:
            setattr(owner, name, before)

    return undo


def _is_entered(mode: Mode) -> bool:
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return any(item is mode for item in _get_current_dispatch_mode_stack())


def _enter(mode: Mode) -> None:
    """Below the modes that are there already: they see each op first, and what reaches the device is what they made of it."""
    from torch.utils._python_dispatch import _disable_current_modes

    if not _is_entered(mode):
        with _disable_current_modes():
            mode.__enter__()  # type: ignore[no-untyped-call]


def _leave(mode: Mode) -> None:
    """From wherever it stands: the program may have entered a mode of its own and not left it."""
    from torch.utils._python_dispatch import _pop_mode, _push_mode

    if not _is_entered(mode):
        return
    above = []
    while (top := _pop_mode()) is not mode:
        above.append(top)
    _push_mode(mode)
    mode.__exit__(None, None, None)
    for item in reversed(above):
        _push_mode(item)
