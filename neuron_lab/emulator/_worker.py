"""The one thread that lowers and compiles.

Tracing must not see the caller's modes, autocast, grad state or default device, and torch-mlir and FX are not thread
safe: a thread of its own gives both. A caller that is interrupted while it waits loses nothing: the work goes on and its
result is found by the next call.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")

_LOOK_S = 0.2  # a signal that comes just before a thread sleeps on a lock is seen when it wakes: an interrupt must not wait longer
_STACK_BYTES = 64 << 20  # MLIR's passes and the importer recurse over the graph


class Worker:
    """Runs jobs one after another; jobs asked for again while they run are joined by their key."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[str, Future[object], Callable[[], object]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: dict[str, Future[object]] = {}
        self._thread: threading.Thread | None = None

    def run(self, key: str, job: Callable[[], T]) -> T:
        """The job's result, computed on the worker's thread. Raises what the job raises."""
        if threading.current_thread() is self._thread:
            raise RuntimeError(f"the compile thread was asked to compile {key}: lowering must not touch device tensors")
        with self._lock:
            future = self._running.get(key)
            if future is None:
                future = self._running[key] = Future()
                self._start()
                self._jobs.put((key, future, job))
        while not future.done():
            with contextlib.suppress(TimeoutError):  # or the job's own: raised below
                future.result(_LOOK_S)
        return future.result()  # type: ignore[return-value]  # a key belongs to one kind of job

    def settle(self) -> None:
        """Wait for the jobs that were asked for: one whose caller was interrupted goes on without it."""
        with self._lock:
            open_ = list(self._running.values())
        while open_:
            open_ = list(wait(open_, _LOOK_S).not_done)

    def _forget(self, key: str) -> None:
        with self._lock:
            self._running.pop(key, None)

    def _start(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        previous = threading.stack_size(_STACK_BYTES)
        try:
            self._thread = threading.Thread(target=self._work, name="neuron_lab-compile", daemon=True)
            self._thread.start()
        finally:
            threading.stack_size(previous)

    def _work(self) -> None:
        while True:
            key, future, job = self._jobs.get()
            try:
                result = job()
            except BaseException as error:  # handed to the caller, who waits for it
                self._forget(key)
                future.set_exception(error)
            else:
                # Forgotten first: who asks again once the result is out must not join a job that has ended.
                self._forget(key)
                future.set_result(result)
                del result
            del future, job  # an error's traceback holds the caller's frames, and those its tensors
