"""How the machine's pace is judged, with a clock that is told what to say."""

from __future__ import annotations

from collections.abc import Iterator

from neuron_lab._pace import Pace


def _clock(*durations: int) -> Iterator[int]:
    now = 0
    for duration in durations:
        yield now
        now += duration
        yield now


def test_a_look_is_the_best_of_three_tries() -> None:
    clock = _clock(300, 200, 250)
    assert Pace(lambda: next(clock)).look() == 200


def test_full_pace_is_within_a_tenth_of_the_best_look() -> None:
    clock = _clock(*(100,) * 3, *(140,) * 3, *(90,) * 3)
    pace = Pace(lambda: next(clock))
    assert not pace.is_full(100)  # nothing to compare with
    first, second = pace.look(), pace.look()
    assert pace.is_full(first) and pace.is_full(110) and not pace.is_full(second)
    pace.look()
    assert not pace.is_full(first)
