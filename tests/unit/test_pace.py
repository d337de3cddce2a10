"""What the samples of a machine's speed come to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from neuron_lab._pace import Pace

MS = 1_000_000
Row = tuple[int, int, int]
"""(when in ms, processor, how long each piece of work took)"""
Sampled = Callable[..., Pace]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "pace"


@pytest.fixture
def sampled(kept: Path) -> Sampled:
    def add(*rows: Row) -> Pace:
        pace = Pace(kept)
        pace._add(array("q", [number for when, cpu, took in rows for number in (when * MS, cpu, took, 2 * took)]))
        return pace

    return add


def steady(took: int) -> list[Row]:
    return [(when, when // 10 % 2, took) for when in range(0, 1000, 10)]


def test_a_span_is_as_slow_as_the_work_beside_it(sampled: Sampled) -> None:
    pace = sampled(*((when, when // 10 % 2, 100 if when < 1000 else 150) for when in range(0, 2000, 10)))
    assert pace.slowness(200 * MS, 300 * MS) == 1.0
    assert pace.slowness(1200 * MS, 1300 * MS) == pytest.approx(1.5)
    assert pace.slowness(1500 * MS, 1500 * MS) == pytest.approx(1.5)


def test_processors_count_alike_and_a_sample_that_was_put_off_does_not(sampled: Sampled) -> None:
    rows = [(when, when // 10 % 2, 300 if when // 10 % 2 else 100) for when in range(0, 1000, 10)]
    assert sampled(*rows).slowness(0, 1000 * MS) == pytest.approx(2.0)
    rows[10] = (100, 0, 10_000)
    assert sampled(*rows).slowness(0, 1000 * MS) == pytest.approx(2.0)


def test_the_nearest_sample_serves_a_span_without_one_and_no_samples_say_nothing(sampled: Sampled) -> None:
    pace = sampled((1000, 0, 100), (5000, 0, 200))
    assert pace.slowness(0, 10 * MS) == 1.0
    assert pace.slowness(9000 * MS, 9001 * MS) == pytest.approx(2.0)
    assert sampled().slowness(0, MS) is None


def test_the_best_is_that_of_the_last_measurements(sampled: Sampled, kept: Path) -> None:
    assert sampled(*steady(200)).slowness(0, MS) == 1.0
    assert sampled(*steady(100)).slowness(0, MS) == 1.0
    assert sampled(*steady(150)).slowness(0, MS) == pytest.approx(1.5)
    assert sampled(*[(0, 0, 1000)] * 5).slowness(0, MS) == pytest.approx(10)
    for _ in range(17):
        assert sampled(*steady(150)).slowness(0, MS) == pytest.approx(1.5)
    assert sampled(*steady(300)).slowness(0, MS) == pytest.approx(2.0)  # that of 100 was twenty measurements ago
    assert len(kept.read_text().splitlines()) == 21


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"another machine\n1 1", b"[[[[", b"%s\n0 0\n1\n-1 2", b"%s\n1 x", b"1" * (1 << 17)]
)
def test_a_file_that_says_nothing_of_this_machine_begins_anew(sampled: Sampled, kept: Path, content: bytes) -> None:
    sampled(*steady(100))
    machine = kept.read_bytes().splitlines()[0]
    kept.write_bytes(content.replace(b"%s", machine))
    assert sampled(*steady(200)).slowness(0, MS) == 1.0
    assert sampled(*steady(400)).slowness(0, MS) == 2.0


def test_a_measurement_is_judged_by_itself_where_nothing_can_be_kept(sampled: Sampled, kept: Path) -> None:
    kept.mkdir(parents=True)
    assert sampled(*steady(100)).slowness(0, MS) == sampled(*steady(200)).slowness(0, MS) == 1.0
    kept.rmdir()
    kept.parent.rmdir()
    kept.parent.write_text("")
    assert sampled(*steady(100)).slowness(0, MS) == sampled(*steady(200)).slowness(0, MS) == 1.0


def test_the_sampler_runs_beside_and_ends_with_the_span_that_is_measured(kept: Path) -> None:
    begun = time.perf_counter_ns()
    with Pace(kept) as pace:
        time.sleep(1)
        process = pace._process
        os.kill(process.pid, 0)
        assert os.getpgid(process.pid) != os.getpgid(0)  # an interrupt of the notebook does not reach it
    assert process.returncode == 0
    slow = pace.slowness(begun, time.perf_counter_ns())
    assert slow is not None and slow >= 1.0


def test_a_sampler_that_was_ended_is_no_failure(kept: Path) -> None:
    with Pace(kept) as pace:
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
