"""A stepped clock makes two runs tell the same times."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import torch

from neuron_lab import profile
from neuron_lab.emulator import clock
from tests.emulated import neff_cache, nothing_stays_behind

__all__ = ["neff_cache", "nothing_stays_behind"]


@pytest.fixture
def stepped() -> Iterator[None]:
    clock.step(1_000)
    yield
    clock.step(0)


@pytest.mark.usefixtures("stepped")
def test_stepped_clock_moves_only_when_it_is_read() -> None:
    first = clock.now_ns()
    time.sleep(0.001)
    assert clock.now_ns() == first + 1_000
    clock.pass_time(5_000)
    assert clock.now_ns() == first + 7_000


@pytest.mark.usefixtures("stepped")
def test_two_runs_tell_the_same_times() -> None:
    x = torch.ones(8, device="neuron")
    x.add(x)  # cold
    with profile():  # which also measures, once, what recording an event costs
        x.sum().item()
    seen = []
    for _ in range(2):
        with profile() as span:
            x.add(x).sum().item()
        seen.append([span.recording.wall_ns, span.recording.overhead_ns, *span.recording.op_totals])
    assert seen[0] == seen[1]
    assert seen[0][0] > 8_000


def test_real_clock_is_that_of_perf_counter() -> None:
    before = time.perf_counter_ns()
    clock.step(1_000)
    clock.step(0)
    assert before <= clock.now_ns() <= time.perf_counter_ns()
    with profile() as span:
        torch.ones(8, device="neuron")
    assert before < span.recording.start_ns < span.recording.end_ns < time.perf_counter_ns()
