"""Tables, split, summary, view and budget from invented recordings."""

from __future__ import annotations

import dataclasses
import math
import sys
from subprocess import check_output

import pytest

from neuron_lab.errors import UsageProblem
from neuron_lab.recording import Compile, Copy, CopyTotal, Environment, OpCall, OpTotal, Recorder, Recording
from neuron_lab.report import Budget, Report, View
from tests.fakes.device import MS, FakeDevice

ENVIRONMENT = Environment("emulated trn2.3xlarge", True, versions={"torch": "2.13.0"})


def parts(report: Report) -> dict[str, float]:
    """The split in milliseconds; loading and starting the compiler only where they took time."""
    return {part.name: part.ns / MS for part in report.split.parts if part.ns or part.name not in ("load", "startup")}


def crafted(
    ops: list[OpCall], *, wall_ms: int = 100, compiles: tuple[Compile, ...] = (), copies: tuple[Copy, ...] = ()
) -> Recording:
    """A recording from events placed by hand, with the totals they imply."""
    totals = tuple(
        OpTotal(c.op, c.kind, c.neff, c.core, 1, int(c.cold), c.end_ns - c.start_ns, c.device_ns, c.bytes) for c in ops
    )
    copy_totals = tuple(CopyTotal(c.direction, 1, c.end_ns - c.start_ns, c.bytes) for c in copies)
    return Recording(
        "", 0, wall_ms * MS, None, ENVIRONMENT, tuple(ops), copies, totals, copy_totals, compiles, (), (), 0, 0, 0
    )


def compiled(start_ms: int, end_ms: int, device_ms: int, *, thread: int = 1, cold: bool = False) -> OpCall:
    return OpCall("aten::mm", "compiled", "k", 0, thread, start_ms * MS, end_ms * MS, device_ms * MS, 0, cold)


def fallback(start_ms: int, end_ms: int) -> OpCall:
    return OpCall(
        "aten::nonzero", "fallback", None, 0, 1, start_ms * MS, end_ms * MS, (end_ms - start_ms) * MS, 0, False
    )


def profiled(device: FakeDevice) -> tuple[Recorder, FakeDevice]:
    span = Recorder(device.hook(), ENVIRONMENT, label="In[1]", clock=device.clock)
    span.start()
    return span, device


def test_split_of_a_plain_program() -> None:
    span, device = profiled(FakeDevice())
    device.run("aten::mm", compile_ms=(10, 2, 28), device_ms=5)
    device.run("aten::mm", device_ms=5)
    device.fall_back("aten::nonzero", 7, "data-dependent shape")
    device.copy("h2d", 3, 100)
    device.clock.advance(40)
    report = Report(span.finish())
    assert parts(report) == {"compile": 40, "device": 10, "fallback": 7, "copies": 3, "rest": 40}
    assert report.split.wall_ns == report.recording.wall_ns
    assert not report.split.estimated


def test_loading_and_starting_the_compiler_are_parts_of_their_own() -> None:
    span, device = profiled(FakeDevice())
    device.start_compiler(20)
    device.run("aten::mm", load_ms=4, device_ms=1)
    report = Report(span.finish())
    assert parts(report) == {
        "compile": 0, "load": 4, "startup": 20, "device": 1, "fallback": 0, "copies": 0, "rest": 0,
    }  # fmt: skip
    assert (report.summary.compile_s, report.summary.load_s, report.summary.startup_s) == (0, 0.004, 0.02)


def test_host_work_belongs_to_the_rest() -> None:
    span, device = profiled(FakeDevice())
    device.host("aten::resize_", 4)
    assert parts(Report(span.finish()))["rest"] == 4


def test_copy_inside_a_fallback_counts_once() -> None:
    report = Report(crafted([fallback(10, 50)], copies=(Copy("d2h", 0, 10 * MS, 20 * MS, 8),)))
    assert parts(report) == {"compile": 0, "device": 0, "fallback": 40, "copies": 0, "rest": 60}


def test_threads_that_overlap_do_not_exceed_the_wall() -> None:
    ops = [compiled(0, 80, 80, thread=1), compiled(10, 90, 80, thread=2), compiled(20, 100, 80, thread=3)]
    assert parts(Report(crafted(ops))) == {"compile": 0, "device": 100, "fallback": 0, "copies": 0, "rest": 0}


def test_compile_wins_over_what_other_threads_do() -> None:
    made = Compile("aten::mm", "k", "compiled", 20 * MS, 5 * MS, 5 * MS, 20 * MS, "s")
    report = Report(crafted([compiled(0, 100, 100, thread=2)], compiles=(made,)))
    assert parts(report) == {"compile": 30, "device": 70, "fallback": 0, "copies": 0, "rest": 0}


def test_events_outside_the_span_are_cut_at_its_edges() -> None:
    report = Report(crafted([compiled(-20, 10, 30), compiled(90, 130, 40)]))
    assert parts(report)["device"] == 20


def test_overflow_is_scaled_from_exact_totals() -> None:
    span, device = profiled(FakeDevice(capacity=10))
    for _ in range(100):
        device.run("aten::mm", device_ms=0.5, host_ms=0.25)
    device.clock.advance(25)
    report = Report(span.finish())
    assert parts(report) == {"compile": 0, "device": 50, "fallback": 0, "copies": 0, "rest": 50}
    assert report.split.estimated
    assert report.summary.events_dropped == 90
    assert report.summary.warm_device_s is None


def test_overflow_never_exceeds_the_wall() -> None:
    kept = [compiled(0, 100, 100)]
    recording = crafted(kept, wall_ms=100)
    grown = Recording(
        "", 0, 100 * MS, None, ENVIRONMENT, tuple(kept), (),
        (OpTotal("aten::mm", "compiled", "k", 0, 9, 0, 900 * MS, 900 * MS, 0), OpTotal("x", "fallback", None, 0, 1, 0, 100 * MS, 0, 0)),
        (), (), (), (), 0, 9, 0,
    )  # fmt: skip
    assert recording.wall_ns == grown.wall_ns
    assert parts(Report(grown)) == {"compile": 0, "device": 90, "fallback": 10, "copies": 0, "rest": 0}


def test_empty_recording() -> None:
    span, _ = profiled(FakeDevice())
    report = Report(span.finish())
    assert report.split.wall_ns == 0
    assert report.ops.empty
    assert list(report.ops.columns)[:4] == ["op", "calls", "cold_calls", "neffs"]
    assert report.summary.op_calls == 0


def test_op_table() -> None:
    span, device = profiled(FakeDevice())
    device.run("aten::mm", compile_ms=(10, 2, 28), device_ms=50, neff="a", nbytes=10)
    device.run("aten::mm", load_ms=4, device_ms=60, neff="b", nbytes=10)
    for ms in (1, 2, 6):
        device.run("aten::mm", device_ms=ms, neff="a", nbytes=10)
    device.fall_back("aten::nonzero", 7, "data-dependent shape", nbytes=3)
    device.fall_back("aten::nonzero", 3, "data-dependent shape", nbytes=3)
    device.host("aten::resize_", 1)
    frame = Report(span.finish()).ops.set_index("op")
    assert list(frame.index) == ["aten::mm", "aten::nonzero", "aten::resize_"]
    mm = frame.loc["aten::mm"]
    assert (mm.calls, mm.cold_calls, mm.neffs, mm.memory_hits, mm.disk_hits, mm.bytes) == (5, 2, 2, 3, 1, 50)
    assert mm.compile_s == pytest.approx(0.040)
    assert (mm.trace_s, mm.lower_s, mm.xla_s, mm.load_s) == pytest.approx((0.010, 0.002, 0.028, 0.004))
    assert mm.device_ms == pytest.approx(119)
    assert mm.device_ms_median == pytest.approx(2), "cold calls stay out of the median"
    assert mm.share == pytest.approx(163 / 174)
    nonzero = frame.loc["aten::nonzero"]
    assert (nonzero.calls, nonzero.fallback_calls, nonzero.fallback_ms) == (2, 2, 10)
    assert math.isnan(frame.device_ms_median["aten::nonzero"])
    assert frame.loc["aten::resize_"].host_calls == 1


def test_neff_table_tells_where_each_came_from() -> None:
    span, device = profiled(FakeDevice())
    device.run("aten::mm", compile_ms=(1, 1, 1), neff="a", signature="f32[2,2]")
    device.run("aten::mm", load_ms=1, neff="b", core=1)
    device.run("aten::add.Tensor", neff="c")
    device.run("aten::add.Tensor", neff="c", core=1)
    frame = Report(span.finish()).neffs.set_index("neff")
    assert dict(frame.source) == {"a": "compiled", "b": "disk", "c": "memory"}
    assert frame.loc["a"].signature == "f32[2,2]"
    assert frame.loc["c"].cores == (0, 1)
    assert frame.loc["c"].calls == 2


def test_other_tables() -> None:
    span, device = profiled(FakeDevice())
    device.clock.advance(10)
    device.run("aten::mm", compile_ms=(1, 2, 3), neff="a")
    device.fall_back("aten::nonzero", 2, "data-dependent shape")
    device.copy("h2d", 1, 5)
    device.copy("h2d", 1, 6)
    report = Report(span.finish())
    compiles = report.compiles.iloc[0]
    assert (compiles.op, compiles.source, compiles.at_s) == ("aten::mm", "compiled", pytest.approx(0.010))
    assert report.fallbacks.to_dict("records") == [
        {"op": "aten::nonzero", "reason": "data-dependent shape", "calls": 1, "ms": 2.0}
    ]
    assert report.copies.to_dict("records") == [{"direction": "h2d", "calls": 2, "ms": 2.0, "bytes": 11}]


def test_summary_is_a_record_and_a_mapping() -> None:
    span, device = profiled(FakeDevice())
    device.run("aten::mm", compile_ms=(1, 1, 1), neff="a", core=2)
    device.run("aten::mm", neff="a", core=2)
    device.run("aten::mm", load_ms=1, neff="b", core=3)
    summary = Report(span.finish("ValueError")).summary
    assert (summary.op_calls, summary.cold_calls, summary.warm_calls) == (3, 2, 1)
    assert summary.warm_device_s == pytest.approx(0.001)
    assert (summary.neffs, summary.neffs_compiled, summary.neffs_loaded) == (2, 1, 1)
    assert summary.cores == (2, 3)
    assert summary["error"] == "ValueError"
    assert dict(summary) == summary.as_dict()
    added = sum(
        summary[name] for name in ("compile_s", "load_s", "startup_s", "device_s", "fallback_s", "copies_s", "rest_s")
    )
    assert added == pytest.approx(summary.wall_s, abs=1e-12)
    with pytest.raises(KeyError):
        summary["label_"]
    with pytest.raises(KeyError):
        summary["as_dict"]


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("time", "slow"),
        ("compile", "built"),
        ("device", "slow"),
        ("fallback", "cpu"),
        ("calls", "often"),
        ("bytes", "fat"),
    ],
)
def test_view_sorts(sort: str, first: str) -> None:
    span, device = profiled(FakeDevice())
    device.run("slow", device_ms=50)
    device.run("built", compile_ms=(5, 5, 5))
    device.run("fat", nbytes=10**9)
    device.fall_back("cpu", 20, "reason")
    for _ in range(4):
        device.run("often", device_ms=0.1)
    shown, hidden = View(top=2, sort=sort).select(Report(span.finish()).op_rows)
    assert shown[0].op == first
    assert (len(shown), len(hidden)) == (2, 3)


@pytest.mark.parametrize(
    "options",
    [
        {"top": 0},
        {"top": 2.5},
        {"top": "5"},
        {"sort": "colour"},
        {"min_ms": -1.0},
        {"min_ms": math.nan},
        {"min_ms": "1"},
    ],
)
def test_view_refuses_nonsense(options: dict[str, object]) -> None:
    with pytest.raises(UsageProblem):
        View().changed(**options)


def test_view_refuses_unknown_options() -> None:
    with pytest.raises(UsageProblem, match="no option is called 'tpo'; there are top, sort, min_ms, by"):
        View().changed(tpo=3)


def test_budget_counts_only_what_went_over() -> None:
    span, device = profiled(FakeDevice())
    device.run("aten::mm", compile_ms=(1, 1, 1), neff="a", signature="aten::mm(float32[2, 2]) default=float32")
    device.run("aten::mm", load_ms=1, neff="b")
    device.fall_back("aten::nonzero", 2, "reason")
    report = Report(span.finish())
    assert Budget.parse("neffs=1, fallbacks=1,ms=9").exceeded(report) == []
    assert Budget.parse("neffs=0,ms=7.5,fallbacks=0").exceeded(report) == [
        "1 NEFF compiled, budget 0: aten::mm(float32[2, 2])",
        "8.0 ms, budget 7.5 ms",
        "1 CPU fallback, budget 0: aten::nonzero 1×",
    ]


def test_budget_names_the_first_culprits_and_their_lines() -> None:
    span, device = profiled(FakeDevice())
    for rows in (2, 3, 4, 5):
        device.at(7).run("aten::mm", compile_ms=(1, 1, 1), neff=f"n{rows}", signature=f"aten::mm(float32[{rows}])")
    (message,) = Budget.parse("neffs=0").exceeded(Report(span.finish()))
    assert message == (
        "4 NEFFs compiled, budget 0: aten::mm(float32[2]) at train.py line 7, "
        "aten::mm(float32[3]) at train.py line 7, aten::mm(float32[4]) at train.py line 7 and 1 more"
    )


@pytest.mark.parametrize("text", ["", "neffs", "neffs=", "neffs=-1", "ms=nan", "cost=1", "neffs=0,"])
def test_budget_refuses_nonsense(text: str) -> None:
    with pytest.raises(UsageProblem):
        Budget.parse(text)


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, neuron_lab; print(sorted({'torch', 'pandas', 'jax', 'jaxlib', 'numpy', 'IPython'} & set(sys.modules)))"
    assert check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_importing_the_report_loads_neither_torch_nor_pandas() -> None:
    code = "import sys, neuron_lab.render; print(sorted({'torch', 'pandas', 'IPython'} & set(sys.modules)))"
    assert check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_part_that_ends_before_it_begins_took_no_time() -> None:
    recording = crafted([], copies=(Copy("h2d", 0, 0, 40 * MS, 8),))
    split = Report(dataclasses.replace(recording, startups=((50 * MS, 20 * MS),), dropped=1)).split
    assert (split.startup_ns, split.copies_ns, split.rest_ns) == (0, 40 * MS, 60 * MS)
