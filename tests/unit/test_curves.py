"""HBM over time: the curve, its peak and what that was made of, in every form a report has."""

from __future__ import annotations

import dataclasses
import json
import random
import time
from pathlib import Path

import pytest

from neuron_lab import Profile
from neuron_lab.recording import (
    CorePeak,
    Held,
    LinePeak,
    MemoryChange,
    MemoryLog,
    MemoryPeak,
    OutOfMemory,
    Recording,
    Source,
    Where,
    dumps,
    loads,
)
from neuron_lab.render import chrome_trace, csv_tables, report_html, report_text
from neuron_lab.report import Curve, Portion, Report, View
from tests.fakes.device import MS
from tests.unit.test_exports import read_trace
from tests.unit.test_render import Checked, crowded, recorded

MIB = 1 << 20
CELL = "/tmp/ipykernel_1/1.py"
FORWARD, BACKWARD, HELPER = Where(CELL, 1, "<module>", 3), Where(CELL, 1, "<module>", 4), Where("/p/net.py", 1, "f", 9)


def logged(log: MemoryLog, of: Recording | None = None) -> Report:
    of = of or recorded().recording
    return Report(
        dataclasses.replace(
            of,
            memory=(CorePeak(0, 0, 3 * MIB, 40 * MIB, 24 << 30),),
            memory_log=log,
            sources=(Source(CELL, "In[12]", ((3, "h = <net>(x)"), (4, "h.backward()"))),),
        )
    )


def change(at_ms: float, nbytes: int, used: int, where: Where | None = None, core: int = 0) -> MemoryChange:
    return MemoryChange(core, 1_000 * MS + round(at_ms * MS), nbytes, used, where)


LOG = MemoryLog(
    changes=(
        change(10, 20 * MIB, 30 * MIB, FORWARD),
        change(50, 10 * MIB, 40 * MIB, BACKWARD),
        change(60, -20 * MIB, 20 * MIB),
        change(150, -17 * MIB, 3 * MIB),
    ),
    peaks=(
        MemoryPeak(
            0, 1_050 * MS, 40 * MIB, (Held(FORWARD, 15 * MIB, 2), Held(BACKWARD, 10 * MIB, 1), Held(HELPER, 5 * MIB, 1))
        ),
    ),
    line_peaks=(LinePeak(0, 30 * MIB, FORWARD), LinePeak(0, 40 * MIB, BACKWARD)),
)


def test_curve_starts_with_what_was_there_and_holds_between_changes() -> None:
    (curve,) = logged(LOG).curves
    assert (curve.peak, curve.peak_ns, curve.used, curve.limit) == (40 * MIB, 50 * MS, 3 * MIB, 24 << 30)
    assert curve.points[0] == (0, 10 * MIB)
    in_mib = [(low // MIB, high // MIB) for low, high in curve.columns(4)]  # of 50 ms
    assert in_mib == [(10, 30), (20, 40), (20, 20), (3, 20)]


def test_portions_add_up_to_the_peak_and_name_what_was_there_before() -> None:
    (curve,) = logged(LOG).curves
    assert curve.portions == (
        Portion(15 * MIB, FORWARD),
        Portion(10 * MIB, BACKWARD),
        Portion(10 * MIB, None, before=True),
        Portion(5 * MIB, HELPER),
    )
    assert sum(portion.bytes for portion in curve.portions) == curve.peak


def test_text_has_the_curve_the_peak_and_what_it_was_made_of() -> None:
    lines = report_text(logged(LOG), View()).splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("HBM"))
    assert lines[start : start + 2] == [
        "HBM ▃▇▇▇▇▇▇██▅▅▅▅▅▅▅▅▅▅▅▅▅▁▁▁▁▁▁ neuron:0 peak 40 MiB of 24 GiB at 50.0 ms, 3 MiB at the end",
        "    made of 15 MiB In[12] line 3 · 10 MiB line 4 · 10 MiB from before · 5 MiB /p/net.py line 9",
    ]


def test_portions_that_have_no_room_stand_in_a_second_line() -> None:
    held = tuple(Held(Where(f"/p/a_long_name_{n}.py", 1, "f", n), MIB, 1) for n in range(10, 14))
    log = dataclasses.replace(LOG, peaks=(MemoryPeak(0, 1_050 * MS, 40 * MIB, held),))
    lines = report_text(logged(log), View()).splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("    made of 36 MiB from before"))
    names = [f"1 MiB /p/a_long_name_{n}.py line {n}" for n in range(10, 13)]
    told = [part for line in lines[start : start + 3] for part in line.removeprefix("    made of").strip().split(" · ")]
    assert told[:5] == ["36 MiB from before", *names, "1 MiB by 1 more"]


def test_lines_have_their_peak() -> None:
    report = logged(LOG)
    assert report.lines.set_index("line").peak_bytes.to_dict() == {3: 30 * MIB, 4: 40 * MIB}
    assert "peak 40 MiB" in report_text(report, View(by="line"))
    assert '<th scope="col">peak HBM</th>' in report_html(report, View(by="line"))


def test_html_draws_and_escapes() -> None:
    report = logged(dataclasses.replace(LOG, ooms=(OutOfMemory(0, 1_100 * MS, 9, 8, 7, FORWARD, ()),)))
    report = Report(dataclasses.replace(report.recording, sources=(Source(CELL, "<b>cell", ()),)))
    html = report_html(report, View())
    page = Checked()
    page.feed(html)
    page.close()
    assert page.open == page.unsafe == []
    assert html.count("<svg") == 1
    assert 'd="M0 40H0V30H15V10H75V0' in html  # 10 of 40 MiB until 10 ms of 200 in 300 columns
    assert "M75 0V40" in html  # the peak
    assert "M150 0V40" in html  # what did not fit
    assert "<b>cell" not in html
    assert "&lt;b&gt;cell line 3" in html
    assert "neuron:0 peak 40 MiB of 24 GiB at 50.0 ms" in html


def test_frame_and_csv_are_in_time_order() -> None:
    report = logged(dataclasses.replace(LOG, changes=LOG.changes[::-1]))
    frame = report.memory
    assert frame.at_s.tolist() == [0.01, 0.05, 0.06, 0.15]
    assert frame.used.tolist() == [30 * MIB, 40 * MIB, 20 * MIB, 3 * MIB]
    assert frame["where"].tolist() == ["In[12] line 3", "In[12] line 4", "", ""]
    assert csv_tables(report)["memory"].splitlines()[1] == "0.01,0,20971520,31457280,In[12] line 3"


def test_trace_counts_over_time() -> None:
    counters = read_trace(chrome_trace(logged(LOG)))["neuron:0", "HBM"]
    assert [(event["ts"], event["args"]["in use"] // MIB) for event in counters] == [
        (10_000, 30),
        (50_000, 40),
        (60_000, 20),
        (150_000, 3),
        (200_000, 3),
    ]


def test_figure_has_a_panel_a_core(tmp_path: Path) -> None:
    other = MemoryPeak(1, 1_010 * MS, 2 * MIB, ())
    figure = Profile(logged(dataclasses.replace(LOG, peaks=(*LOG.peaks, other)))).figure()
    _, first, second = figure.axes
    assert "neuron:0 peak 40 MiB" in first.get_title(loc="left")
    assert "neuron:1 peak 2 MiB" in second.get_title(loc="left")
    figure.savefig(tmp_path / "figure.png")


def test_no_change_no_section() -> None:
    report = recorded()
    assert report.curves == ()
    assert "HBM" not in report_text(report, View())
    assert "<svg" not in report_html(report, View())
    assert report.memory.empty


def test_a_core_that_only_refused_stayed_as_it_was() -> None:
    report = logged(dataclasses.replace(LOG, changes=(), peaks=(MemoryPeak(0, 1_050 * MS, 3 * MIB, ()),)))
    assert report.curves[0].columns(2) == [(3 * MIB, 3 * MIB)] * 2
    assert f"HBM {'█' * 28} neuron:0 peak 3 MiB" in report_text(report, View())


def test_dropped_changes_leave_the_beginning_open_and_the_peak_exact() -> None:
    (curve,) = logged(dataclasses.replace(LOG, changes=LOG.changes[2:], dropped=2)).curves
    assert curve.columns(4) == [(0, 0), (20 * MIB, 20 * MIB), (20 * MIB, 20 * MIB), (3 * MIB, 20 * MIB)]
    assert curve.peak == 40 * MIB
    report = logged(dataclasses.replace(LOG, changes=LOG.changes[2:], dropped=2))
    assert "2 older changes not drawn" in report_html(report, View())
    curve_line, _, missing = report_text(report, View()).partition("HBM ")[2].splitlines()[:3]
    assert curve_line.startswith("·" * 8 + "▅" * 14 + "▁" * 6 + " neuron:0 peak")
    assert missing == "    2 older changes not drawn"
    assert report.curves[0].unknown(28) == 8  # of 200 ms in 28 slices, until 60 ms
    panel = Profile(report).figure().axes[1]
    assert panel.collections[0].get_datalim(panel.transData).x0 == 60


def test_full_log_is_drawn_in_a_second_and_keeps_every_peak() -> None:
    draw = random.Random(0)
    sizes = [draw.randrange(1, MIB) for _ in range(200_000)]
    peaks = {7 * 1000, 150 * 1000 + 1, 199_999}
    changes = tuple(
        change(index / 1000, size, 90 * MIB if index in peaks else size, FORWARD) for index, size in enumerate(sizes)
    )
    log = MemoryLog(changes, (MemoryPeak(0, 1_007 * MS, 90 * MIB, (Held(FORWARD, 90 * MIB, 1),)),))
    report = logged(log, crowded().recording)
    report = Report(dataclasses.replace(report.recording, start_ns=1_000 * MS, end_ns=1_200 * MS))
    begun = time.process_time()
    html, text = report_html(report, View()), report_text(report, View())
    assert time.process_time() - begun < 1
    assert len(html.encode()) < 80_000
    (curve,) = report.curves
    assert [index for index, (_, high) in enumerate(curve.columns(200)) if high == 90 * MIB] == [7, 150, 199]
    assert text.count("█") > 3


@pytest.mark.parametrize("cores", [1, 8])
def test_bounds_hold_with_memory(cores: int) -> None:
    held = tuple(Held(Where("/p/" + "deep/" * 40 + f"{index}.py", 1, "f", index), MIB, 1) for index in range(9))
    peaks = tuple(MemoryPeak(core, 0, 100 * MIB, held) for core in range(cores))
    changes = tuple(change(index, MIB, index * MIB, FORWARD, index % cores) for index in range(200))
    report = logged(MemoryLog(changes, peaks, LOG.line_peaks), crowded().recording)
    lines = report_text(report, View()).splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) <= 40
    html = report_html(report, View(top=50))
    assert html.count("<svg") == min(4, cores)
    assert len(html.encode()) < 80_000
    assert (f"{cores - 4} more cores" in html) == (cores > 4)


def test_log_survives_a_file() -> None:
    recording = logged(LOG).recording
    again = loads(dumps(recording))
    assert again == recording
    assert report_html(Report(again), View()) == report_html(Report(recording), View())


def test_file_of_a_newer_minor_version_keeps_what_is_known_of_the_log() -> None:
    data = json.loads(dumps(logged(LOG).recording))
    data["version"] = [1, 9]
    data["recording"]["memory_log"]["pools"] = [1, 2]
    data["recording"]["memory_log"]["changes"]["stream"] = [0] * 4
    data["recording"]["memory_log"]["peaks"]["why"] = ["?"]
    assert loads(json.dumps(data).encode()).memory_log == LOG


def test_file_without_a_log_has_no_curve() -> None:
    data = json.loads(dumps(logged(LOG).recording))
    del data["recording"]["memory_log"]
    report = Report(loads(json.dumps(data).encode()))
    assert report.curves == ()
    assert report.memory.empty


def test_core_that_only_gave_back_peaks_at_the_start() -> None:
    log = MemoryLog((change(20, -MIB, MIB),), (MemoryPeak(0, 0, 2 * MIB, ()),))
    (curve,) = logged(log).curves
    assert curve == Curve(
        0, 24 << 30, 2 * MIB, 0, MIB, (Portion(2 * MIB, None, before=True),), ((0, 2 * MIB), (20 * MS, MIB)), 200 * MS
    )
    assert "neuron:0 peak 2 MiB of 24 GiB at the start, 1 MiB at the end" in report_text(logged(log), View())
