"""HBM over a session: changes, peaks and what they are made of, by line."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from neuron_lab.emulator import busy_ns, shim
from neuron_lab.emulator.events import Hook
from tests.emulated import DEVICE, recorded

KIB = 1024


@pytest.fixture
def other_core() -> str:
    """One that no other test keeps tensors on."""
    return "neuron:3"


def block(kib: int, device: str = DEVICE) -> Tensor:
    return torch.empty(kib * KIB, dtype=torch.uint8, device=device)


def lines_of(rows: list[tuple[object, ...]]) -> list[str]:
    """Functions that the rows' lines are in."""
    return [row[-1][2].rpartition(".")[2] if row[-1] else "" for row in rows]  # type: ignore[index]


def test_changes_are_in_order_with_what_is_used_afterwards() -> None:
    before = torch.neuron.memory_allocated()

    def work() -> None:
        x = block(4)
        y = block(2)
        del x
        del y

    log = recorded(work)
    changes = [(core, change, used - before) for core, _, change, used, _ in log.memory]
    assert changes == [(0, 4 * KIB, 4 * KIB), (0, 2 * KIB, 6 * KIB), (0, -4 * KIB, 2 * KIB), (0, -2 * KIB, 0)]
    times = [row[1] for row in log.memory]
    assert times == sorted(times)
    assert lines_of(log.memory) == ["block", "block", "block", "block"], (
        "what is given back names the line that took it"
    )


def test_the_peak_is_made_of_what_lived_then() -> None:
    before = torch.neuron.memory_allocated()

    def work() -> None:
        kept = block(1)
        passing = torch.empty(8 * KIB, dtype=torch.uint8, device=DEVICE)
        del passing
        kept.zero_()

    ((core, _, used, held),) = recorded(work).peaks
    assert (core, used - before) == (0, 9 * KIB)
    assert sorted((where[2].rpartition(".")[2], nbytes, blocks) for where, nbytes, blocks in held) == [
        ("block", KIB, 1),
        ("work", 8 * KIB, 1),
    ]


def test_a_later_higher_peak_replaces_the_first() -> None:
    def work() -> None:
        first = torch.empty(4 * KIB, dtype=torch.uint8, device=DEVICE)
        del first
        block(2), block(2)
        third = block(16)
        del third

    ((_, _, _, held),) = recorded(work).peaks
    assert [(where[2].rpartition(".")[2], nbytes) for where, nbytes, _ in held] == [("block", 16 * KIB)]


def test_what_was_there_before_is_used_but_not_held(other_core: str) -> None:
    old = block(4, other_core)
    used_before = torch.neuron.memory_allocated(3)
    ((core, _, used, held),) = recorded(lambda: old.untyped_storage().resize_(0)).peaks
    assert (core, used, held) == (3, used_before, [])


def test_the_highest_use_of_a_line() -> None:
    before = torch.neuron.memory_allocated()

    def work() -> None:
        x = torch.empty(KIB, dtype=torch.uint8, device=DEVICE)
        del x
        y = [block(1) for _ in range(3)]
        del y

    peaks = {where[2].rpartition(".")[2]: used - before for _, used, where in recorded(work).line_peaks}
    assert peaks == {"work": KIB, "block": 3 * KIB}


def test_an_op_that_does_not_fit(hbm_limit: Callable[[int], None]) -> None:
    held = torch.neuron.memory_allocated()
    hbm_limit(held + 10 * KIB)

    def work() -> None:
        kept = block(6)
        with pytest.raises(torch.OutOfMemoryError):
            block(8)
        assert kept.numel()

    ((core, _, asked, used, limit, where, live),) = recorded(work).ooms
    assert (core, asked, used - held, limit - held) == (0, 8 * KIB, 6 * KIB, 10 * KIB)
    assert where[2] == "block" and [(row[1], row[2]) for row in live] == [(6 * KIB, 1)]


def test_an_op_that_does_not_fit_leaves_the_peak_at_what_was_held_before(hbm_limit: Callable[[int], None]) -> None:
    kept = block(6)
    hbm_limit(held := torch.neuron.memory_allocated())

    def work() -> None:
        with pytest.raises(torch.OutOfMemoryError):
            block(8)

    ((core, _, used, _),) = recorded(work).peaks
    assert (core, used) == (0, held) and kept.numel()


def test_a_full_ring_keeps_the_newest_and_the_peak() -> None:
    log = recorded(lambda: [block(1) for _ in range(5)], Hook(capacity=3))
    assert len(log.memory) == 3 and log.dropped_changes == 7 and log.dropped == 0
    assert log.peaks[0][2] >= 5 * KIB


def test_a_result_is_taken_by_the_line_that_called() -> None:
    x = torch.ones(KIB, device=DEVICE)

    def work() -> Tensor:
        return x.exp()

    log = recorded(work)
    assert lines_of(log.memory[:1]) == ["work"]


def test_a_block_freed_by_another_thread_after_the_session() -> None:
    kept = []
    recorded(lambda: kept.append(block(1)))
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    assert not kept


def test_two_sessions_each_see_their_own() -> None:
    outer = Hook(1000)
    outer.start()
    first = block(1)
    inner = recorded(lambda: block(2))
    outer_log = outer.stop()
    assert first.numel() == KIB
    assert [row[2] for row in inner.memory] == [2 * KIB, -2 * KIB]
    assert [row[2] for row in outer_log.memory] == [KIB, 2 * KIB, -2 * KIB]


def test_a_core_is_busy_while_it_runs_something_and_only_when_somebody_counts() -> None:
    x = block(64).float()
    before = busy_ns()
    log = recorded(lambda: (x + 1).sum())
    device_ns = sum(row[7] for row in log.totals if row[1] == "compiled")
    after = busy_ns()
    assert 0 < after[0] - before[0] <= device_ns
    assert after[1:] == before[1:]
    shim().count_busy(False)
    (x + 1).sum()
    assert shim().busy_ns(0) == after[0]
