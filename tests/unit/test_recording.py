"""The recorder and the records it leaves."""

from __future__ import annotations

import pytest

from neuron_lab.errors import UsageProblem
from neuron_lab.recording import Environment, OpTotal, Recorder
from tests.fakes.device import MS, FakeDevice

ENVIRONMENT = Environment("emulated trn2.3xlarge", True)


def recorder(device: FakeDevice) -> Recorder:
    return Recorder(device.hook(), ENVIRONMENT, label="a span", clock=device.clock)


def test_span_is_what_ran_between_start_and_stop() -> None:
    device = FakeDevice()
    device.run("aten::before")
    span = recorder(device)
    span.start()
    device.run("aten::mul.Tensor", device_ms=2, nbytes=64)
    device.clock.advance(3)
    span.stop()
    device.run("aten::after")
    recording = span.finish()
    assert recording.wall_ns == 5 * MS
    assert [call.op for call in recording.ops] == ["aten::mul.Tensor"]
    assert recording.ops[0].device_ns == 2 * MS
    assert not recording.partial


def test_stop_twice_keeps_the_first() -> None:
    device = FakeDevice()
    span = recorder(device)
    span.start()
    device.clock.advance(1)
    span.stop()
    device.clock.advance(1)
    span.stop()
    assert span.finish().wall_ns == MS


def test_error_makes_it_partial() -> None:
    span = recorder(FakeDevice())
    span.start()
    recording = span.finish("ValueError")
    assert recording.partial
    assert recording.error == "ValueError"


def test_stop_before_start_is_a_mistake() -> None:
    with pytest.raises(UsageProblem, match="never started"):
        recorder(FakeDevice()).stop()


def test_spans_nest_and_each_sees_its_own() -> None:
    device = FakeDevice()
    outer, inner = recorder(device), recorder(device)
    outer.start()
    device.run("aten::a")
    inner.start()
    device.run("aten::b")
    inner_result = inner.finish()
    device.run("aten::c")
    assert [call.op for call in inner_result.ops] == ["aten::b"]
    assert [call.op for call in outer.finish().ops] == ["aten::a", "aten::b", "aten::c"]


def test_ring_keeps_the_newest_and_totals_stay_exact() -> None:
    device = FakeDevice(capacity=3)
    span = recorder(device)
    span.start()
    for index in range(10):
        device.run("aten::a", neff="k", device_ms=index, nbytes=1)
    recording = span.finish()
    assert [call.device_ns // MS for call in recording.ops] == [7, 8, 9]
    assert recording.dropped == 7
    assert recording.op_totals == (OpTotal("aten::a", "compiled", "k", 0, 10, 0, 45 * MS, 45 * MS, 10),)


def test_hook_overhead_is_kept() -> None:
    span = recorder(FakeDevice(overhead_ns=600))
    span.start()
    assert span.finish().overhead_ns == 600


def test_starting_the_compiler_is_no_ops_own_time() -> None:
    device = FakeDevice()
    span = recorder(device)
    span.start()
    device.svd_that_starts_the_compiler(20, 3)
    recording = span.finish()
    assert [total.total_ns for total in recording.op_totals] == [3 * MS]
    assert [item.total_ns for item in recording.fallbacks] == [3 * MS]
