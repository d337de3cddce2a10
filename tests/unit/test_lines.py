"""The gutter: what each line of the user's source did."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuron_lab.recording import Environment, Recorder, Surroundings
from neuron_lab.render import report_html, report_text
from neuron_lab.render._format import columns
from neuron_lab.report import GROUPS, Report, View, gutter
from tests.fakes.device import FakeDevice

ENVIRONMENT = Environment("emulated trn2.3xlarge", True)
CELL = """\
%%neuron profile
for x, y in loader:
    h = net(x.to("neuron"))

    seen = torch.unique(y)
"""
HELPER = """\
def net(x):
    return x @ w
"""

EXPECTED = """\
In[12]
    2  for x, y in loader:
    3      h = net(x.to("neuron"))                                                    2 copies 200 B
    5┆     seen = torch.unique(y)                                     CPU 2× 40.0 ms
helper.py
    1  def net(x):
    2      return x @ w             1 NEFF · 6.00 ms  device 8.00 ms"""


@pytest.fixture
def report(tmp_path: Path) -> Report:
    cell, helper = tmp_path / "cell.py", tmp_path / "helper.py"
    cell.write_text(CELL)
    helper.write_text(HELPER)
    device = FakeDevice()
    around = Surroundings(cell_name=lambda file: "In[12]" if file == str(cell) else None)
    span = Recorder(device.hook(), ENVIRONMENT, label="In[12]", surroundings=around, clock=device.clock)
    span.start()
    for cold in (True, False):
        device.at(2, file=str(helper), function="net").run(
            "aten::mm", compile_ms=(1, 2, 3) if cold else None, device_ms=4, nbytes=20, neff="k"
        )
        device.at(3, file=str(cell)).copy("h2d", 1, 100)
        device.at(5, file=str(cell)).fall_back("aten::_unique2", 20, "its size depends on the data")
    return Report(span.finish())


def test_text_of_the_gutter(report: Report) -> None:
    assert EXPECTED in report_text(report, View())


def test_source_is_that_of_now(tmp_path: Path) -> None:
    """A module that was edited and imported again has other lines than the ones Python showed before."""
    helper = tmp_path / "helper.py"

    def text() -> str:
        device = FakeDevice()
        span = Recorder(device.hook(), ENVIRONMENT, clock=device.clock)
        span.start()
        device.at(1, file=str(helper)).run("aten::mm", device_ms=4)
        return Report(span.finish()).line_rows[0].text

    helper.write_text("x @ w\n")
    assert text() == "x @ w"
    helper.write_text("x @ w + 1\n")
    assert text() == "x @ w + 1"
    helper.write_text("'%%neuron profile'\n")  # as `%run notebook.ipynb` leaves it
    assert text() == "%%neuron profile"
    helper.write_text("get_ipython().system('ls')\n")  # written so, in a file
    assert text() == "get_ipython().system('ls')"


def test_wide_letters_and_tabs_keep_the_columns(tmp_path: Path) -> None:
    cell, device = tmp_path / "cell.py", FakeDevice()
    cell.write_text("%%neuron profile\ny = x + 1  # " + "日本語" * 40 + "\nif y:\n\tz = y\t* 2\n")
    around = Surroundings(cell_name=lambda file: "In[12]")
    span = Recorder(device.hook(), ENVIRONMENT, label="日" * 60, surroundings=around, clock=device.clock)
    span.start()
    for line in (2, 4):
        device.at(line, file=str(cell)).run("aten::mm", device_ms=4, nbytes=20, neff="k")
    text = report_text(Report(span.finish()), View(by="line"))
    assert "\t" not in text and "    4      z = y   * 2" in text
    assert {columns(line) for line in text.splitlines() if "device 4" in line} == {100}
    assert max(map(columns, text.splitlines())) == 100


def test_frame_of_lines(report: Report) -> None:
    frame = report.lines.set_index("line")
    assert frame.place.tolist() == ["In[12]", "In[12]", "helper.py"]
    mm = frame.loc[2]
    assert (mm.source, mm.function, mm.calls, mm.neffs, mm.neffs_compiled) == ("    return x @ w", "net", 2, 1, 1)
    assert (mm.compile_s, mm.device_ms, mm.bytes, mm.ops) == (pytest.approx(0.006), 8, 40, ("aten::mm",))
    assert (frame.loc[5].fallback_calls, frame.loc[5].fallback_ms) == (2, 40)
    assert (frame.loc[3].copies, frame.loc[3].copy_bytes) == (2, 200)


def test_the_dearest_lines_stay_when_there_is_little_room(report: Report) -> None:
    shown, left_out = gutter(report.recording, report.line_rows, 2)
    assert [line.number for line in shown] == [5]
    assert [row.line for row in left_out] == [3, 2]


def test_by_line_shows_lines_and_no_ops(report: Report) -> None:
    text = report_text(report, View(by="line", top=1))
    assert "seen = torch.unique(y)" in text
    assert "x @ w" not in text
    assert "… 2 more lines (16.0 ms), see .lines" in text
    assert "total" not in text
    assert "seen = torch.unique(y)" in report_html(report, View(by="line"))


def test_by_neff_names_signatures(report: Report) -> None:
    text = report_text(report, View(by="neff"))
    assert "aten::mm(float32[8, 4])  " in text
    assert "compiled" in text


def test_source_is_escaped_in_html(tmp_path: Path) -> None:
    file = tmp_path / "evil.py"
    file.write_text("x = '<script>alert(1)</script>'\n")
    device = FakeDevice()
    span = Recorder(device.hook(), ENVIRONMENT, surroundings=Surroundings(), clock=device.clock)
    span.start()
    device.at(1, file=str(file)).run()
    html = report_html(Report(span.finish()), View())
    assert "&lt;script&gt;" in html
    assert "<script" not in html


def test_source_that_cannot_be_read_leaves_the_numbers() -> None:
    device = FakeDevice()
    span = Recorder(device.hook(), ENVIRONMENT, clock=device.clock)
    span.start()
    device.at(7, file="/nowhere/gone.py").run(device_ms=2)
    (row,) = Report(span.finish()).line_rows
    assert (row.where, row.text, row.device_ns) == ("gone.py line 7", "", 2_000_000)


def test_a_warm_neff_has_the_signature_it_was_made_for() -> None:
    device = FakeDevice()
    device.run("aten::mm", compile_ms=(1, 1, 1), neff="k", signature="aten::mm(float32[2, 2]) default=float32")
    device.run("aten::unrelated", compile_ms=(1, 1, 1), neff="u")
    span = Recorder(
        device.hook(), ENVIRONMENT, surroundings=Surroundings(history=lambda: device.history), clock=device.clock
    )
    span.start()
    device.run("aten::mm", neff="k")
    report = Report(span.finish())
    assert report.neffs.signature.tolist() == ["aten::mm(float32[2, 2]) default=float32"]
    assert [item.op for item in report.recording.earlier] == ["aten::mm"]


@pytest.mark.parametrize("by", GROUPS)
def test_report_keeps_within_its_budget_whatever_it_is_asked_for(by: str, tmp_path: Path) -> None:
    cell = tmp_path / "cell.py"
    cell.write_text("".join(f"v{n} = x + {n}  # {'y' * 150}\n" for n in range(1000)))
    device = FakeDevice()
    span = Recorder(device.hook(), ENVIRONMENT, clock=device.clock)
    span.start()
    for n in range(1, 600):
        device.within(f"Net.layers.{n}.{'z' * 60}").at(n, file=str(cell)).run(
            f"aten::op{n}",
            compile_ms=(1, 2, 3),
            device_ms=n,
            nbytes=20,
            neff=str(n),
            signature=f"aten::op{n}(float32[{n}])",
        )
    report = Report(span.finish())
    text, html = report_text(report, View(by=by, top=10**6)), report_html(report, View(by=by, top=10**6))
    assert len(html.encode()) < 80_000
    assert len(text.encode()) < 40_000
    assert "… 449 more" in text
    assert "… 449 more" in html
