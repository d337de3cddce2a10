"""Exports, read back by the rules of their formats."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from subprocess import check_output
from typing import Any

import pytest
from IPython.core.formatters import DisplayFormatter

from neuron_lab import FileProblem, Profile
from neuron_lab.device import CoreMemory
from neuron_lab.recording import Recorder, Recording, Surroundings
from neuron_lab.render import chrome_trace, csv_tables, speedscope
from neuron_lab.report import Report, View
from neuron_lab.widgets import explorer_document
from tests.fakes.device import MS, FakeDevice
from tests.unit.test_render import ENVIRONMENT, Checked, crowded, recorded
from tests.unit.test_report import compiled, crafted, fallback


def busy() -> Report:
    """Two lines, two cores, two threads; compile, load, start-up, fallback, copy and memory."""
    device = FakeDevice(memory=[CoreMemory(0, 1 << 30, 0), CoreMemory(0, 1 << 30, 0)])
    around = Surroundings(memory=lambda: tuple(device.memory))
    span = Recorder(device.hook(), ENVIRONMENT, label="In[1]", clock=device.clock, surroundings=around)
    span.start()
    device.at(3).start_compiler(7)
    device.run("aten::mm", compile_ms=(1, 2, 3), device_ms=4, neff="a", nbytes=8)
    device.run("aten::mm", device_ms=4, neff="a", core=1, thread=2)
    device.at(4, function="step").run("aten::add", load_ms=2, device_ms=1, neff="b")
    device.fall_back("aten::nonzero", 5, "its size depends on the data")
    device.copy("h2d", 3, 100)
    device.where = None
    device.host("aten::resize_", 1)
    device.memory[:] = [CoreMemory(100, 1 << 30, 4000), CoreMemory(0, 1 << 30, 0)]
    return Report(span.finish())


def read_trace(content: bytes) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """A trace by the rules of the Trace Event Format: events by the names of their process and thread."""
    data = json.loads(content)
    assert data["schemaVersion"] == 1
    assert set(data["distributedInfo"]) >= {"rank", "world_size", "backend"}
    assert all(isinstance(data["distributedInfo"][name], int) for name in ("rank", "world_size"))
    names: dict[tuple[str, int, int], str] = {}
    for event in data["traceEvents"]:
        assert isinstance(event["name"], str)
        assert type(event["pid"]) is type(event["tid"]) is int
        assert event["ph"] in "XMC"
        assert isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "process_sort_index", "thread_sort_index")
            if event["name"].endswith("_name"):
                key = event["name"], event["pid"], event["tid"] if event["name"] == "thread_name" else 0
                assert key not in names
                names[key] = event["args"]["name"]
        else:
            assert event["ts"] >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, int) for value in event["args"].values())
    lanes: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for event in data["traceEvents"]:
        process = names.get(("process_name", event["pid"], 0), "")
        if event["ph"] == "X":
            assert event["cat"]
            assert event["dur"] >= 0
            lanes[process, names["thread_name", event["pid"], event["tid"]]].append(event)
        elif event["ph"] == "C":
            lanes[process, event["name"]].append(event)
    for events in lanes.values():
        if events[0]["ph"] == "X":
            check_nesting(events)
    return lanes


def check_nesting(events: list[dict[str, Any]]) -> None:
    """Viewers draw a lane as a stack: an event lies within the one it begins in, or begins after it."""
    ends: list[int] = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        start = round(event["ts"] * 1000)
        end = start + round(event["dur"] * 1000)
        while ends and ends[-1] <= start:
            ends.pop()
        assert not ends or end <= ends[-1], event
        ends.append(end)


def test_trace_has_a_lane_for_everything() -> None:
    lanes = read_trace(chrome_trace(busy()))
    assert {key: [event["name"] for event in events] for key, events in lanes.items()} == {
        ("program", "profiled"): ["In[1]"],
        ("program", "Python thread 1"): ["aten::mm", "aten::add", "aten::nonzero", "aten::resize_"],
        ("program", "Python thread 2"): ["aten::mm"],
        ("program", "compile"): ["start the compiler", "compile aten::mm", "load aten::add"],
        ("program", "CPU fallback"): ["aten::nonzero"],
        ("program", "copies"): ["Memcpy HtoD"],
        ("neuron:0", "device"): ["aten::mm", "aten::add"],
        ("neuron:1", "device"): ["aten::mm"],
        ("neuron:0", "HBM"): ["HBM"],
    }
    (kernel, _) = lanes["neuron:0", "device"]
    (call, *_) = lanes["program", "Python thread 1"]
    assert (call["ts"], call["dur"]) == (7_000, 10_000)
    assert (kernel["ts"], kernel["dur"], kernel["cat"]) == (13_000, 4_000, "kernel")
    assert kernel["args"]["correlation"] == call["args"]["correlation"]
    assert call["args"]["line"] == "train.py line 3"
    assert lanes["neuron:0", "HBM"][0]["args"] == {"in use": 100}
    assert json.loads(chrome_trace(busy()))["otherData"]["emulated"] is True


@pytest.mark.parametrize(
    "recording",
    [
        crafted([compiled(0, 50, 50, thread=1), compiled(10, 60, 50, thread=2), compiled(60, 70, 10, thread=1)]),
        crafted([fallback(-10, 50)]),
        crafted([]),
        crowded().recording,
    ],
    ids=["overlap", "before the span", "nothing", "crowded"],
)
def test_trace_is_sound_whatever_was_recorded(recording: Recording) -> None:
    read_trace(chrome_trace(Report(recording)))


def test_overlap_in_part_gets_its_own_lane() -> None:
    ops = [compiled(0, 50, 50, thread=1), compiled(10, 60, 50, thread=2), compiled(60, 70, 10, thread=1)]
    lanes = read_trace(chrome_trace(Report(crafted(ops))))
    assert [len(lanes["neuron:0", name]) for name in ("device", "device 2")] == [2, 1]


def read_speedscope(content: bytes) -> dict[tuple[str, ...], int]:
    """A profile by the rules of speedscope's schema: weight by stack, outermost first."""
    data = json.loads(content)
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = data["shared"]["frames"]
    for frame in frames:
        assert set(frame) <= {"name", "file", "line", "col"}
        assert isinstance(frame["name"], str)
        assert type(frame.get("line", 1)) is int
    (profile,) = data["profiles"]
    assert profile["type"] == "sampled"
    assert profile["unit"] == "nanoseconds"
    assert len(profile["samples"]) == len(profile["weights"])
    assert all(type(index) is int and 0 <= index < len(frames) for sample in profile["samples"] for index in sample)
    assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])
    assert min(profile["weights"], default=1) > 0
    assert data["activeProfileIndex"] == 0
    stacks = [tuple(frames[index]["name"] for index in sample) for sample in profile["samples"]]
    return dict(zip(stacks, profile["weights"], strict=True))


def test_speedscope_has_lines_ops_and_what_they_did() -> None:
    found = {stack: ns / MS for stack, ns in read_speedscope(speedscope(busy())).items()}
    assert found == {
        ("train.py line 3", "aten::mm", "compile"): 6,
        ("train.py line 3", "aten::mm", "device"): 8,
        ("train.py line 4", "aten::add", "load"): 2,
        ("train.py line 4", "aten::add", "device"): 1,
        ("train.py line 4", "aten::nonzero", "on the CPU"): 5,
        ("train.py line 4", "copy h2d"): 3,
        ("(no line of yours)", "aten::resize_"): 1,
    }


def test_speedscope_of_nothing_and_of_much() -> None:
    assert read_speedscope(speedscope(Report(crafted([])))) == {}
    report = crowded()
    ops = sum(total.total_ns for total in report.recording.op_totals)
    assert sum(read_speedscope(speedscope(report)).values()) == ops + sum(
        total.total_ns for total in report.recording.copy_totals
    )


def test_csv_is_one_file_a_table(tmp_path: Path) -> None:
    p = Profile(busy())
    p.to_csv(tmp_path / "tables")
    p.to_csv(str(tmp_path / "tables"))
    read = {path.stem: list(csv.DictReader(io.StringIO(path.read_text()))) for path in (tmp_path / "tables").iterdir()}
    assert set(read) == set(csv_tables(busy()))
    assert [row["op"] for row in read["ops"]] == p.ops.op.tolist()
    assert [float(row["device_ms"]) for row in read["lines"]] == p.lines.device_ms.tolist()
    assert float(read["summary"][0]["wall_s"]) == p.summary.wall_s
    (tmp_path / "file").touch()
    with pytest.raises(FileProblem, match="not a directory"):
        p.to_csv(tmp_path / "file")
    with pytest.raises(FileProblem, match="there is no directory"):
        p.to_csv(tmp_path / "no" / "tables")


def test_page_stands_alone() -> None:
    for report in (busy(), crowded(), recorded(label="</title><script>x</script>")):
        page = Checked()
        html = explorer_document(report, View())
        assert html.startswith("<!DOCTYPE html>\n<html")
        code = re.findall(r'<script type="module">(.*?)</script>', html, re.DOTALL)
        (allowed,) = re.findall(r"script-src 'sha256-([^']+)'", html)
        assert [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in code] == [allowed]
        html = re.sub(r"<script type=.*?</script>", "", html, flags=re.DOTALL)
        page.feed(html)
        page.close()
        assert page.open == []
        assert page.unsafe == []
        assert "http:" not in html
        assert "https:" not in html
        assert "default-src 'none'" in html
        assert "color-scheme:light dark" in html
        assert "<script" not in html
        assert len(html.encode()) < 80_000


def test_files_are_written_by_the_profile(tmp_path: Path) -> None:
    p = Profile(busy())
    p.to_chrome_trace(tmp_path / "trace.json")
    p.to_speedscope(tmp_path / "flame.json")
    p.to_html(tmp_path / "page.html")
    assert (tmp_path / "trace.json").read_bytes() == chrome_trace(p.report)
    assert (tmp_path / "flame.json").read_bytes() == speedscope(p.report)
    assert (tmp_path / "page.html").read_text() == explorer_document(p.report, View())
    assert "<!DOCTYPE" not in p.to_html()
    for write in (p.to_chrome_trace, p.to_speedscope, p.to_html):
        with pytest.raises(FileProblem, match="it is a directory"):
            write(tmp_path)


def test_figure_shows_the_split(tmp_path: Path) -> None:
    figure = Profile(busy()).figure()
    (split,) = figure.axes
    widths = [bar.get_width() for bar in split.patches]  # type: ignore[attr-defined]
    assert widths == [part.ns / MS for part in busy().split.parts if part.ns]
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    shown = DisplayFormatter(active_types=["text/plain", "image/png"]).format(figure)[0]  # type: ignore[no-untyped-call]
    assert 1000 < len(shown["image/png"]) < 40_000
    assert len(Profile(Report(crafted([]))).figure().axes) == 1


def test_exports_import_no_pyplot_and_a_loaded_profile_needs_no_torch(tmp_path: Path) -> None:
    Profile(busy()).save(tmp_path / "p.json")
    program = (
        "import sys; sys.modules.update(torch=None, jaxlib=None, torch_mlir=None)\n"
        f"import neuron_lab; p = neuron_lab.load({str(tmp_path / 'p.json')!r})\n"
        "assert 'pandas' not in sys.modules and 'matplotlib' not in sys.modules\n"
        f"p.show(); p.to_html(); p.findings; p.compare(p).to_text(); p.to_chrome_trace({str(tmp_path / 't.json')!r})\n"
        "assert 'pandas' not in sys.modules and 'matplotlib' not in sys.modules\n"
        "p.ops; p.figure()\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    out = check_output([sys.executable, "-W", "ignore", "-c", program], text=True)
    assert "LOADED from p.json" in out
    assert out.endswith("False\n")
