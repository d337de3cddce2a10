"""Recording sessions: what each sees, the ring, and exact totals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from neuron_lab.device import RawLog
from neuron_lab.emulator import dispatch
from neuron_lab.emulator.events import Hook, hook
from tests.emulated import DEVICE, recorded


@pytest.fixture
def x() -> torch.Tensor:
    """Its `relu` and `exp` are compiled."""
    tensor = torch.ones(4, device=DEVICE)
    tensor.relu(), tensor.exp()
    return tensor


def ops(log: RawLog) -> list[str]:
    return [row[0] for row in log.ops]


def test_a_session_sees_the_ops_between_start_and_stop(x: torch.Tensor) -> None:
    x.exp()
    assert ops(recorded(lambda: (x.relu(), x.relu()))) == ["aten::relu", "aten::relu"]


def test_an_event_has_its_fields(x: torch.Tensor) -> None:
    (row,) = recorded(x.relu).ops
    _op, kind, neff, core, _thread, start_ns, end_ns, device_ns, nbytes, cold = row[:10]
    assert (kind, len(neff), core, nbytes, cold) == ("compiled", 32, 0, 32, False)
    assert 0 <= device_ns <= end_ns - start_ns


def test_a_cold_call_is_recorded_with_its_compile() -> None:
    y = torch.empty(2, 9, device=DEVICE)
    log = recorded(lambda: y.tan())
    assert [row[9] for row in log.ops] == [True] and log.totals[0][5] == 1
    assert [(row[0], row[-1]) for row in log.compiles] == [("aten::tan", "aten::tan(float32[2, 9]) default=float32")]
    assert log.compiles[0][1] == log.ops[0][2]


def test_a_compile_stands_under_the_op_that_waited_for_it() -> None:
    y = torch.ones(2, 10, device=DEVICE)  # dropout runs its backward's NEFF
    log = recorded(lambda: torch.dropout(y, 0.5, True))
    assert [row[0] for row in log.compiles] == [row[0] for row in log.ops] == ["aten::native_dropout"]


def test_starting_the_library_is_no_time_of_the_first_product(x: torch.Tensor) -> None:
    one, w, wider = (torch.ones(shape, device=DEVICE) for shape in ((2, 3), (3, 5), (3, 6)))
    dispatch._start_products.cache_clear()
    assert not recorded(lambda: one + 5).startups
    log = recorded(lambda: one @ w)
    ((start, end),), (row,) = log.startups, log.ops
    assert row[5] <= start < end <= row[6] - row[7]
    assert not recorded(lambda: one @ wider).startups


def test_a_call_with_nothing_to_compile_is_not_cold() -> None:
    y = torch.ones(2, 10, device=DEVICE)
    mask = y > 0
    log = recorded(lambda: y[mask])
    assert [(row[0], row[1], row[9]) for row in log.ops] == [("aten::index.Tensor", "host", False)]
    assert log.totals[0][5] == 0


def test_totals_sum_the_events(x: torch.Tensor) -> None:
    log = recorded(lambda: [x.relu() for _ in range(5)])
    (row,) = log.totals
    op, kind, _neff, core, calls, cold, total_ns, device_ns, nbytes = row[:9]
    assert (op, kind, core, calls, cold, nbytes) == ("aten::relu", "compiled", 0, 5, 0, 160)
    assert total_ns == sum(row[6] - row[5] for row in log.ops) and device_ns == sum(row[7] for row in log.ops)


def test_a_full_ring_drops_the_oldest_and_keeps_the_totals(x: torch.Tensor) -> None:
    log = recorded(lambda: ([x.relu() for _ in range(8)], [x.exp() for _ in range(2)]), Hook(capacity=3))
    assert ops(log) == ["aten::relu", "aten::exp", "aten::exp"]
    assert log.dropped == 7 and {row[0]: row[4] for row in log.totals} == {"aten::relu": 8, "aten::exp": 2}


def test_a_full_ring_of_copies_keeps_the_totals(x: torch.Tensor) -> None:
    log = recorded(lambda: [x.cpu() for _ in range(5)], Hook(capacity=2))
    (row,) = log.copy_totals
    assert (len(log.copies), log.dropped, row[0], row[1], row[3]) == (2, 3, "d2h", 5, 80)


def test_nested_sessions_each_see_their_own(x: torch.Tensor) -> None:
    inner: list[RawLog] = []

    def work() -> None:
        x.relu()
        inner.append(recorded(x.exp))
        x.relu()

    outer = recorded(work)
    assert ops(outer) == ["aten::relu", "aten::exp", "aten::relu"] and ops(inner[0]) == ["aten::exp"]


def test_sessions_that_overlap_each_see_their_own(x: torch.Tensor) -> None:
    first, second = hook(), hook()
    first.start()
    x.relu()
    second.start()
    x.exp()
    one = first.stop()
    x.relu()
    two = second.stop()
    assert ops(one) == ["aten::relu", "aten::exp"] and ops(two) == ["aten::exp", "aten::relu"]


@pytest.mark.parametrize(
    ("work", "direction", "nbytes"),
    [
        (lambda x: torch.ones(4).to(DEVICE), "h2d", 16),
        (lambda x: x.cpu(), "d2h", 16),
        (lambda x: x.to("neuron:1"), "d2d", 16),
        (lambda x: x.tolist(), "d2h", 16),
    ],
    ids=["to the device", "to the host", "to another core", "to a list"],
)
def test_a_copy_is_recorded(x: torch.Tensor, work: Callable[[torch.Tensor], Any], direction: str, nbytes: int) -> None:
    log = recorded(lambda: work(x))
    assert [(row[0], row[4]) for row in log.copies] == [(direction, nbytes)] and log.copies[0][2] <= log.copies[0][3]
    assert [(row[0], row[1], row[3]) for row in log.copy_totals] == [(direction, 1, nbytes)]


def test_reading_values_counts_as_a_synchronisation(x: torch.Tensor) -> None:
    assert recorded(lambda: (x.sum().item(), x.cpu(), bool(x[0] > 0))).syncs == 3


def test_a_fallback_tells_its_reason(x: torch.Tensor) -> None:
    log = recorded(lambda: torch.randn(4, device=DEVICE))
    ((op, reason, calls, total_ns),) = log.fallbacks
    assert (op, reason, calls) == ("aten::normal_", "random numbers are drawn on the host", 1) and total_ns > 0
    assert [row[1:3] for row in log.ops] == [("fallback", None)]


def test_an_op_without_elements_is_empty() -> None:
    none = torch.empty(0, device=DEVICE)
    assert [row[:2] for row in recorded(lambda: none.relu()).ops] == [("aten::relu", "empty")]


def test_an_op_whose_size_is_in_its_data_runs_on_the_host(x: torch.Tensor) -> None:
    assert ("aten::nonzero", "host") in [row[:2] for row in recorded(lambda: torch.nonzero(x)).ops]


def test_a_failed_op_is_not_recorded(x: torch.Tensor) -> None:
    def work() -> None:
        with pytest.raises(RuntimeError):
            x + torch.ones(4)

    assert recorded(work).ops == []


def test_the_core_of_an_event() -> None:
    y = torch.ones(4, device="neuron:2")
    assert [row[3] for row in recorded(lambda: y.relu()).ops] == [2]


def test_a_session_opens_once() -> None:
    session = hook()
    session.start()
    with pytest.raises(RuntimeError, match="already open"):
        session.start()
    session.stop()


def test_a_session_that_is_not_open_cannot_stop() -> None:
    with pytest.raises(RuntimeError, match="not open"):
        hook().stop()


def test_a_session_starts_anew(x: torch.Tensor) -> None:
    session = hook()
    first = recorded(x.relu, session)
    second = recorded(x.exp, session)
    assert ops(first) == ["aten::relu"] and ops(second) == ["aten::exp"]


def test_a_session_that_starts_anew_forgets_its_compiles() -> None:
    session, y = hook(), torch.empty(6, 9, device=DEVICE)
    recorded(lambda: y.tan(), session)
    assert recorded(lambda: None, session).compiles == []


def test_recording_costs_something() -> None:
    y = torch.ones(4, device=DEVICE)
    assert recorded(lambda: y.relu()).overhead_ns > 0 and recorded(lambda: None).overhead_ns == 0


def test_a_cleared_cache_leaves_an_open_session_whole(x: torch.Tensor) -> None:
    import torch_neuronx

    def work() -> None:
        x.relu()
        torch_neuronx._C._clear_compilation_memory_cache()
        x.relu()

    log = recorded(work)
    assert ops(log) == ["aten::relu"] * 2 and sum(row[4] for row in log.totals) == 2
