"""The compile thread: one job at a time, joined by key, with nothing lost to an interrupt."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import torch

from neuron_lab.emulator import _worker
from neuron_lab.emulator._worker import Worker


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Holds the compile thread until it is set."""
    event = threading.Event()
    yield event
    event.set()


def test_a_job_runs_on_a_thread_of_its_own(worker: Worker) -> None:
    names = [worker.run(key, lambda: threading.current_thread().name) for key in "ab"]
    assert names == ["neuron_lab-compile"] * 2


def test_the_thread_sees_no_state_of_its_caller(worker: Worker) -> None:
    with torch.no_grad(), torch.autocast("cpu"), torch.device("meta"):
        state = worker.run(
            "a", lambda: (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.empty(1).device.type)
        )
    assert state == (True, False, "cpu")


def test_callers_of_one_key_share_a_job(worker: Worker, gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    waiting = threading.Semaphore(0)

    class Watched(Future[object]):
        def result(self, timeout: float | None = None) -> object:
            waiting.release()
            return super().result(timeout)

    def job() -> str:
        gate.wait()
        runs.append("run")
        return "made"

    monkeypatch.setattr(_worker, "Future", Watched)
    with ThreadPoolExecutor(3) as pool:
        callers = [pool.submit(worker.run, "a", job) for _ in range(3)]
        for _ in callers:
            waiting.acquire()
        gate.set()
        assert [caller.result() for caller in callers] == ["made"] * 3 and runs == ["run"]


def test_settling_waits_for_a_job_whose_caller_has_gone(worker: Worker, gate: threading.Event) -> None:
    made: list[str] = []
    asked = threading.Thread(target=worker.run, args=("a", lambda: (gate.wait(), made.append("a"))), daemon=True)
    asked.start()
    while not worker._running:
        pass
    settling = threading.Thread(target=worker.settle)
    settling.start()
    settling.join(0.05)
    assert settling.is_alive() and not made
    gate.set()
    settling.join()
    assert made == ["a"]
    worker.settle()


def test_a_finished_key_runs_again(worker: Worker) -> None:
    results = iter([1, 2])
    assert [worker.run("a", lambda: next(results)) for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt(), SystemExit(3), MemoryError()], ids=repr)
def test_an_exception_reaches_the_caller(worker: Worker, error: BaseException) -> None:
    def job() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        worker.run("a", job)
    assert caught.value is error


def test_a_timeout_of_the_job_is_the_jobs_own(worker: Worker) -> None:
    def job() -> None:
        raise TimeoutError("the disk is slow")

    with pytest.raises(TimeoutError, match="the disk is slow"):
        worker.run("a", job)


def test_the_thread_survives_an_exception(worker: Worker) -> None:
    with pytest.raises(ZeroDivisionError):
        worker.run("a", lambda: 1 // 0)
    assert worker.run("a", lambda: "fine") == "fine"


def test_every_joined_caller_gets_the_exception(worker: Worker, gate: threading.Event) -> None:
    def job() -> None:
        gate.wait()
        raise ValueError("wrong")

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(worker.run, "a", job) for _ in range(2)]
        gate.set()
        assert [type(future.exception()) for future in futures] == [ValueError] * 2


def test_a_job_may_not_wait_for_another(worker: Worker) -> None:
    with pytest.raises(RuntimeError, match="must not touch device tensors"):
        worker.run("a", lambda: worker.run("b", lambda: None))


def test_an_interrupted_caller_joins_its_job_again(
    worker: Worker, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []
    main = threading.get_ident()

    def job() -> str:
        runs.append("run")
        signal.pthread_kill(main, signal.SIGINT)  # wakes the wait, as Ctrl-C does
        gate.wait()
        return "made"

    with pytest.raises(KeyboardInterrupt):
        worker.run("a", job)
    running = worker._running["a"]
    wait = running.result

    def wait_with_the_gate_open(timeout: float | None = None) -> object:
        gate.set()
        return wait(timeout)

    monkeypatch.setattr(running, "result", wait_with_the_gate_open)  # opened only once the second call has joined
    assert worker.run("a", job) == "made" and runs == ["run"]


def frees_its_frame(worker: Worker, job: Callable[[], object]) -> bool:
    """Whether the values of a caller go when it has its answer."""

    class Value:
        pass

    def caller() -> weakref.ref[Value]:
        value = Value()
        with contextlib.suppress(ZeroDivisionError):
            worker.run("a", job)
        return weakref.ref(value)

    seen = caller()
    gc.collect()
    return seen() is None


def test_a_finished_job_lets_its_caller_go(worker: Worker) -> None:
    assert frees_its_frame(worker, lambda: None)


def test_a_failed_job_lets_its_caller_go(worker: Worker) -> None:
    assert frees_its_frame(worker, lambda: 1 // 0)


def test_a_finished_job_lets_its_result_go(worker: Worker) -> None:
    class Result:
        pass

    seen = weakref.ref(worker.run("a", Result))
    worker.run("b", lambda: None)
    gc.collect()
    assert seen() is None
