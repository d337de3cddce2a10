"""The emulated chip and what the environment makes visible of it."""

from __future__ import annotations

import pytest

from neuron_lab.emulator.driver import chip, visible_cores
from neuron_lab.errors import UsageProblem


def cores(**environ: str) -> int:
    return visible_cores(chip(), environ)


def test_the_chip_is_a_trn2_3xlarge() -> None:
    unit = chip()
    assert (unit.instance, unit.family, unit.cores, unit.hbm_bytes) == ("trn2.3xlarge", "trn2", 4, 24 << 30)


def test_all_cores_are_visible() -> None:
    assert cores() == 4


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 1), ("3", 1), ("0-3", 4), ("0,2", 2), ("1-2", 2), (" 0 , 1 ", 2), ("0-1,1-2", 3), ("2,2", 1)],
)
def test_a_list_of_cores(text: str, count: int) -> None:
    assert cores(NEURON_RT_VISIBLE_CORES=text) == count


@pytest.mark.parametrize("text", ["4", "0-4", "a", "-1", "1-", "1,,2", ",", "0:2", "2-1", "0,2-1", "0-x", "1.5", "²"])
def test_a_list_the_runtime_would_refuse(text: str) -> None:
    with pytest.raises(UsageProblem, match="NEURON_RT_VISIBLE_CORES"):
        cores(NEURON_RT_VISIBLE_CORES=text)


@pytest.mark.parametrize(("text", "count"), [("1", 1), ("4", 4), ("0", 4)])
def test_a_number_of_cores(text: str, count: int) -> None:
    assert cores(NEURON_RT_NUM_CORES=text) == count


@pytest.mark.parametrize("text", ["5", "-1", "two", "1.5", "²"])
def test_a_number_the_runtime_would_refuse(text: str) -> None:
    with pytest.raises(UsageProblem, match="NEURON_RT_NUM_CORES"):
        cores(NEURON_RT_NUM_CORES=text)


def test_the_list_wins_over_the_number() -> None:
    assert cores(NEURON_RT_VISIBLE_CORES="0,1", NEURON_RT_NUM_CORES="3") == 2


def test_empty_variables_count_as_absent() -> None:
    assert cores(NEURON_RT_VISIBLE_CORES="", NEURON_RT_NUM_CORES="") == 4


def test_a_huge_range_is_refused_without_being_written_out() -> None:
    with pytest.raises(UsageProblem):
        cores(NEURON_RT_VISIBLE_CORES="0-99999999999999999999")
