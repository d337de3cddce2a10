"""Profile a block, a function or a cell."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast, overload

from neuron_lab import _notebook, device
from neuron_lab._result import Profile
from neuron_lab._scopes import is_user_file
from neuron_lab.errors import UsageProblem
from neuron_lab.recording import Recorder, Surroundings, environment, line_of_error
from neuron_lab.report import View

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


# How programs take the time.
_CLOCK = re.compile(r"\b(perf_counter|process_time|monotonic|time\.time)(_ns)?\(|%timeit|%time\b|\btimeit\.")


def _flow() -> object:
    """The thread and, inside of a coroutine, its task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        task = None
    return threading.get_ident(), task


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Keeps an interrupt until the block is done: half a recording is none, or one that nobody ends. They come to the main thread."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *about: came.append(about))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[-1])


class Session:
    """One running profile: what `profile` and the cell magic share. `start`, `stop`, then `finish` makes the Profile readable.

    `source` is the program's text where it is known: whether it takes the time itself is read off it.
    """

    def __init__(self, view: View, label: str = "", source: str = "") -> None:
        hook = device.hook()
        self.profile = Profile(view=view)
        around = Surroundings(
            history=device.compile_history,
            memory=device.core_memory,
            late_variables=device.late_variables,
            cell_name=_notebook.cell_name,
            graphs=device.graph_compiles,
            reads_clock=bool(_CLOCK.search(source)),
        )
        self._recorder = Recorder(hook, environment(), label=label, surroundings=around, clock=device.now_ns)

    def start(self) -> None:
        """Begin to record."""
        try:
            with _uninterrupted():
                self._recorder.start()
        except KeyboardInterrupt:
            with suppress(UsageProblem):  # an interrupt before it began
                self._recorder.stop()
            raise

    def stop(self) -> None:
        """End the span now; calling it again changes nothing."""
        with _uninterrupted():
            self._recorder.stop()

    def finish(self, error: BaseException | None = None, *, of_cell: bool = False) -> Profile:
        """Make the result readable and keep it for `last()`. `of_cell`: a whole cell has run, no function of the user's still does."""
        name = None if error is None else type(error).__name__
        stopped_at = None if error is None else line_of_error(error, is_user_file)
        look = functools.partial(_notebook.kept_by_history, error) if of_cell else None
        with _uninterrupted():
            self.profile.finish(self._recorder.finish(name, look, stopped_at))
        return self.profile


class ProfileBlock:
    """A context manager and decorator that profiles what it encloses. May be entered again, also inside itself."""

    def __init__(self, view: View, label: str, quiet: bool) -> None:
        self._view = view
        self._label = label
        self._quiet = quiet
        self._open: list[tuple[object, Session]] = []

    def __enter__(self) -> Profile:
        session = Session(self._view, self._label)
        session.start()
        self._open.append((_flow(), session))
        return session.profile

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session = self._own()
        with _uninterrupted():
            session.stop()
            result = session.finish(error)
        if not self._quiet:
            result.show()

    def _own(self) -> Session:
        """The session that was entered last in this thread and task: blocks beside each other end in any order."""
        flow = _flow()
        own = [index for index, (opener, _) in enumerate(self._open) if opener == flow]
        # A generator may be closed by another thread than the one that opened it.
        return self._open.pop(own[-1] if own else -1)[1]

    def __call__(self, function: Callable[_Params, _Result]) -> Callable[_Params, _Result]:
        """Profile every call of `function`, which may be a coroutine function. Raises UsageProblem for a generator function."""
        if not callable(function):
            raise UsageProblem(f"{function!r} cannot be called; a label is given by its name, profile(label=…)")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UsageProblem(
                f"{function.__qualname__}() gives its values one by one, while others work: profile the loop that takes them"
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def profiled_async(*args: _Params.args, **kwargs: _Params.kwargs) -> Any:
                with self._named_after(function):
                    return await function(*args, **kwargs)

            return cast("Callable[_Params, _Result]", profiled_async)

        @functools.wraps(function)
        def profiled(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
            with self._named_after(function):
                return function(*args, **kwargs)

        return profiled

    def _named_after(self, function: Callable[..., Any]) -> ProfileBlock:
        # A block of its own for each call: two threads may be inside the same function.
        return ProfileBlock(self._view, self._label or getattr(function, "__qualname__", ""), self._quiet)


@overload
def profile(function: Callable[_Params, _Result], /) -> Callable[_Params, _Result]: ...


@overload
def profile(
    *, label: str = "", top: int = 8, sort: str = "time", min_ms: float = 0.0, by: str = "op", quiet: bool = True
) -> ProfileBlock: ...


def profile(
    function: Callable[..., Any] | None = None,
    /,
    *,
    label: str = "",
    top: int = 8,
    sort: str = "time",
    min_ms: float = 0.0,
    by: str = "op",
    quiet: bool = True,
) -> Any:
    """Measure what a block or a function does on the device.

        with neuron_lab.profile() as p:
            loss = net(x).sum()
        p.show()                      # or p.ops, p.compiles, p.summary

        @neuron_lab.profile           # neuron_lab.last() is the latest call
        def step(x): ...

    Ops of every thread count. An exception passes through; the result is kept and marked partial. Profiles nest, each sees all that
    happened in its own block.

    label: what the report calls the span, the function's name for a decorated one. top: rows of the table. sort: "time", "compile",
    "device", "fallback", "calls" or "bytes". min_ms: leave out rows that took less in all. by: what a row stands for, "op",
    "neff", "line" or "module". quiet: False shows the report at the end.

    Raises UsageProblem for a value that makes no sense and for what is no function that returns its value at once, DeviceProblem on entry when nothing can be
    measured.
    """
    if not isinstance(label, str):
        raise UsageProblem(f"label is {label!r}; what the report calls the span is a text")
    block = ProfileBlock(View(top=top, sort=sort, min_ms=min_ms, by=by), label, quiet)
    return block if function is None else block(function)
