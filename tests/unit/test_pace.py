"""What the samples of a machine's speed come to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from array import array

import pytest

from neuron_lab._pace import Pace

MS = 1_000_000


def sampled(*rows: tuple[int, int, int]) -> Pace:
    """(when in ms, processor, how long each piece of work took)"""
    pace = Pace()
    pace.add(array("q", [number for when, cpu, took in rows for number in (when * MS, cpu, took, 2 * took, 3 * took)]))
    return pace


def test_a_span_is_as_slow_as_the_work_beside_it() -> None:
    pace = sampled(*((when, when // 10 % 2, 100 if when < 1000 else 150) for when in range(0, 2000, 10)))
    assert pace.slowness(200 * MS, 300 * MS) == 1.0
    assert pace.slowness(1200 * MS, 1300 * MS) == pytest.approx(1.5**1.2)
    assert pace.slowness(1500 * MS, 1500 * MS) == pytest.approx(1.5**1.2)


def test_processors_count_alike_and_a_sample_that_was_put_off_does_not() -> None:
    rows = [(when, when // 10 % 2, 300 if when // 10 % 2 else 100) for when in range(0, 1000, 10)]
    assert sampled(*rows).slowness(0, 1000 * MS) == pytest.approx(2.0**1.2)
    rows[10] = (100, 0, 10_000)
    assert sampled(*rows).slowness(0, 1000 * MS) == pytest.approx(2.0**1.2)


def test_the_nearest_sample_serves_a_span_without_one_and_no_samples_say_nothing() -> None:
    pace = sampled((1000, 0, 100), (5000, 0, 200))
    assert pace.slowness(0, 10 * MS) == 1.0
    assert pace.slowness(9000 * MS, 9001 * MS) == pytest.approx(2.0**1.2)
    assert sampled().slowness(0, MS) is None


def test_the_sampler_runs_beside_and_ends_with_the_span_that_is_measured() -> None:
    begun = time.perf_counter_ns()
    with Pace() as pace:
        time.sleep(1)
        process = pace._process
        os.kill(process.pid, 0)
        assert os.getpgid(process.pid) != os.getpgid(0)  # an interrupt of the notebook does not reach it
    assert process.returncode == 0
    slow = pace.slowness(begun, time.perf_counter_ns())
    assert slow is not None and slow >= 1.0


def test_a_sampler_that_was_ended_is_no_failure() -> None:
    with Pace() as pace:
        os.kill(pace._process.pid, signal.SIGKILL)
    assert pace.slowness(0, 1) is None


def test_the_sampler_ends_when_the_program_is_killed() -> None:
    code = "import time; from neuron_lab._pace import Pace\nwith Pace() as p: print(p._process.pid, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        sampler = int(program.stdout.readline())
        program.kill()
    for _ in range(3000):
        try:
            os.kill(sampler, 0)
        except ProcessLookupError:
            break
        time.sleep(0.01)
    else:
        pytest.fail("the sampler lives on")
