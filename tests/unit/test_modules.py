"""The table by module, and the phases of a training step."""

from __future__ import annotations

from typing import Any

import pytest

from neuron_lab.recording import Environment, Recorder, dumps, loads
from neuron_lab.render import report_html, report_text
from neuron_lab.report import Report, View, phase_times
from tests.fakes.device import FakeDevice

ENVIRONMENT = Environment("emulated trn2.3xlarge", True)


def recorded(device: FakeDevice) -> Report:
    """Two layers, a loss and the two other phases."""
    span = Recorder(device.hook(), ENVIRONMENT, label="In[12]", clock=device.clock)
    span.start()
    device.within("Net.layers.0").run("aten::linear", compile_ms=(1, 2, 3), device_ms=4, nbytes=20, neff="k")
    device.within("Net.layers.0").run("aten::linear", device_ms=4, nbytes=20, neff="k")
    device.within("Net.layers.1").run("aten::linear", device_ms=4, nbytes=20, neff="k")
    device.within("Net").fall_back("aten::_unique2", 20, "its size depends on the data")
    device.within(None).copy("d2h", 1, 4)
    device.within(None, "backward").run("aten::linear_backward", device_ms=9, neff="b")
    device.within(None, "optimizer").run("aten::_foreach_add_.List", device_ms=2, neff="o")
    return Report(span.finish())


@pytest.fixture
def report() -> Report:
    return recorded(FakeDevice())


def test_a_row_for_each_module_and_phase(report: Report) -> None:
    rows = {(row.module, row.phase): row for row in report.module_rows}
    assert list(rows) == [
        ("Net", "forward"),
        ("Net.layers.0", "forward"),
        (None, "backward"),
        ("Net.layers.1", "forward"),
        (None, "optimizer"),
        (None, "forward"),
    ]
    first = rows["Net.layers.0", "forward"]
    assert (first.calls, first.cold_calls, first.neffs, first.bytes) == (2, 1, 1, 40)
    assert (first.compile.made_ns, first.device_ns, first.total_ns) == (6_000_000, 8_000_000, 14_000_000)
    assert rows["Net", "forward"].fallback_calls == 1 and rows["Net", "forward"].ops == ("aten::_unique2",)
    copied = rows[None, "forward"]
    assert (copied.calls, copied.copies, copied.copy_bytes, copied.total_ns) == (0, 1, 4, 1_000_000)


def test_a_compile_counts_once_where_its_first_call_waited(report: Report) -> None:
    rows = report.module_rows
    assert sum(row.compile.total_ns for row in rows) == sum(item.total_ns for item in report.recording.compiles)


def test_a_graph_took_as_long_as_an_op_that_was_compiled_within_its_call() -> None:
    """Dynamo makes a graph's NEFF before the call: every table has it in the total all the same."""

    def total(op: str, **cold: Any) -> list[float]:
        device = FakeDevice().at(3)
        span = Recorder(device.hook(), ENVIRONMENT, clock=device.clock)
        span.start()
        device.within("Net").run(op, device_ms=4, neff="k", **cold)
        device.run(op, device_ms=4, neff="k")
        report = Report(span.finish())
        rows = (*report.op_rows, *report.neff_rows, *report.line_rows, *report.module_rows)
        return [*(row.total_ns for row in rows), phase_times(report.recording)["forward"]]

    for cold in ({"compile_ms": (1, 2, 3)}, {"load_ms": 6.0}):
        assert total("graph::Net_0_forward", **cold) == total("aten::linear", **cold) == [14_000_000] * 5


def test_a_graph_bears_its_name_among_the_neffs_too() -> None:
    device = FakeDevice()
    span = Recorder(device.hook(), ENVIRONMENT, clock=device.clock)
    span.start()
    device.run("graph::Net_0_forward", compile_ms=(1, 2, 3), signature="graph(float32[8, 4]) default=float32")
    assert "\nNet_0_forward(float32[8, 4])  " in report_text(Report(span.finish()), View(by="neff"))


def test_the_rows_hold_every_call(report: Report) -> None:
    assert sum(row.calls for row in report.module_rows) == report.summary.op_calls
    assert sum(row.bytes for row in report.module_rows) == report.summary.op_bytes


def test_the_frame_has_what_the_rows_have(report: Report) -> None:
    frame = report.modules
    assert frame.module.tolist() == [row.module or "" for row in report.module_rows]
    assert frame.total_ms.tolist() == [row.total_ns / 1e6 for row in report.module_rows]
    assert frame[frame.phase == "backward"].device_ms.tolist() == [9.0]


def test_text_and_page_by_module(report: Report) -> None:
    text, page = report_text(report, View(by="module", top=5)), report_html(report, View(by="module", top=5))
    lines = {line.split("  ")[0]: " ".join(line.split()) for line in text.splitlines()}
    assert lines["Net.layers.0"] == "Net.layers.0 forward 2 1 6.00 ms 8.00 ms – 14.0 ms 28 %"
    assert lines["… 1 more (1.00 ms)"]
    for shown in ("Net.layers.0", "(no module)", "optimizer"):
        assert shown in text and shown in page


def test_a_long_path_keeps_its_end_which_tells_it_from_its_neighbours() -> None:
    device = FakeDevice()
    span = Recorder(device.hook(), ENVIRONMENT, clock=device.clock)
    span.start()
    for number in range(2):
        device.within(f"BertForSequenceClassification.bert.encoder.layer.{number}.attention.output.dense").run()
    report = Report(span.finish())
    text, page = report_text(report, View(by="module")), report_html(report, View(by="module"))
    for number in range(2):
        assert (
            f'encoder.layer.{number}.attention.output.dense">…' in page
            and f"{number}.attention.output.dense</th>" in page
        )
        (line,) = (line for line in text.splitlines() if f"layer.{number}.attention.output.dense  " in line)
        assert line.startswith("…") and len(line) <= 100


def test_phases_are_told_when_there_are_several(report: Report) -> None:
    told = "forward 38.0 ms · backward 9.00 ms · optimizer 2.00 ms"
    assert told in report_text(report, View()) and told in report_html(report, View())


def test_one_phase_is_not_worth_a_word() -> None:
    device = FakeDevice()
    span = Recorder(device.hook(), ENVIRONMENT, clock=device.clock)
    span.start()
    device.within("Net").run("aten::relu")
    assert "forward" not in report_text(Report(span.finish()), View())


def test_a_device_that_knows_no_modules() -> None:
    device = FakeDevice()
    span = Recorder(device.hook(), ENVIRONMENT, clock=device.clock)
    span.start()
    device.run("aten::relu")
    report = Report(span.finish())
    assert [(row.module, row.phase, row.calls) for row in report.module_rows] == [(None, "", 1)]
    assert "(no module)" in report_text(report, View(by="module"))


def test_start_up_of_the_compiler_is_taken_from_the_call_that_waited() -> None:
    """The same op on the same line in two modules: only one of them waited."""
    device = FakeDevice()
    span = Recorder(device.hook(), ENVIRONMENT, clock=device.clock)
    span.start()
    device.within("Net.a").svd_that_starts_the_compiler(100, 3)
    device.within("Net.b").fall_back("aten::svd", 5, "no lowering")
    rows = {row.module: row.total_ns for row in Report(span.finish()).module_rows}
    assert rows == {"Net.a": 3_000_000, "Net.b": 5_000_000}


def test_a_file_keeps_modules_and_phases(report: Report) -> None:
    assert Report(loads(dumps(report.recording))).module_rows == report.module_rows
