"""Text and HTML of a report."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from neuron_lab.device import CacheState, CoreMemory, Description, DeviceInfo, IgnoredVariable
from neuron_lab.recording import Environment, Recorder
from neuron_lab.render import report_html, report_line, report_text, status_html, status_text
from neuron_lab.render._format import columns, duration, share, shorten, size
from neuron_lab.report import Report, View, binary_size
from tests.fakes.device import FakeDevice

VERSIONS = {"python": "3.11.7", "torch": "2.13.0", "neuron_lab": "0.1.0"}
ENVIRONMENT = Environment("emulated trn2.3xlarge", True, versions=VERSIONS)

EXPECTED = """\
In[12]  emulated trn2.3xlarge · neuron:0 · 5 op calls · 2 NEFFs, 1 compiled, 1 from disk      200 ms
█████████████████████████▄▄▄▄▄▓▓▓▓▓▓▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒░░░░░░░░░░······························
█ compile 50.0 ms  ▄ load from disk 10.0 ms  ▓ device 20.0 ms  ▒ fallback 40.0 ms  ░ copies 20.0 ms
· Python, rest 60.0 ms
cold: 1 compiled in 50.0 ms · 1 from disk in 10.0 ms   warm: 1 call, device 3.00 ms
1 copy, 4.00 kB

op                calls  NEFFs  compile   device     fallback    bytes  total ▾  share
aten::addmm           2      1  50.0 ms  13.0 ms            –  2.00 kB  63.0 ms   32 %
aten::_unique2        2      –        –        –  2 · 40.0 ms        –  40.0 ms   20 %
aten::add.Tensor      1      1        –  7.00 ms            –        –  17.0 ms    8 %

aten::_unique2 ran on the CPU 2×: the result's size depends on the data

torch 2.13.0 · neuron_lab 0.1.0 · emulated, not Trainium · measuring cost 600 µs"""


def recorded(*, error: str | None = None, label: str = "In[12]", environment: Environment = ENVIRONMENT) -> Report:
    device = FakeDevice(overhead_ns=600_000)
    span = Recorder(device.hook(), environment, label=label, clock=device.clock)
    span.start()
    device.run("aten::addmm", compile_ms=(20, 5, 25), device_ms=10, neff="a", nbytes=1000)
    device.run("aten::addmm", device_ms=3, neff="a", nbytes=1000)
    device.run("aten::add.Tensor", load_ms=10, device_ms=7, neff="b")
    device.fall_back("aten::_unique2", 20, "the result's size depends on the data")
    device.fall_back("aten::_unique2", 20, "the result's size depends on the data")
    device.copy("h2d", 20, 4000)
    device.clock.advance(60)
    return Report(span.finish(error))


def crowded(ops: int = 200) -> Report:
    """Many ops with long names, everything in use: the widest and longest report there is."""
    device = FakeDevice(overhead_ns=600_000, capacity=50)
    environment = Environment("emulated trn2.48xlarge", True, versions=VERSIONS | {"torch_neuronx": "2.14.0.123456"})
    span = Recorder(device.hook(), environment, label="In[1234]", clock=device.clock)
    span.start()
    for index in range(ops):
        name = f"aten::_scaled_dot_product_flash_attention_for_cpu_backward_{index}.grad_input"
        for core in (0, 3, 7):
            device.run(
                name, compile_ms=(999, 999, 999), device_ms=123.4, neff=f"{name}{core}", core=core, nbytes=987_654_321
            )
        device.run(name, load_ms=99, device_ms=12, neff=f"{name}d")
        device.run(name, device_ms=12, neff=f"{name}d")
        device.fall_back(name, 123, "no lowering for this op: " + "the reason goes on and on, " * 10)
        device.copy("d2d", 1.5, 10**9)
    return Report(span.finish("OutOfMemoryError"))


def test_text_of_a_report() -> None:
    assert report_text(recorded(), View()) == EXPECTED


def test_head_without_room_leaves_out_what_stands_below() -> None:
    head, *rest = report_text(recorded(label="x" * 27), View()).splitlines()
    assert head.split(" · ")[-1].split() == "2 NEFFs 200 ms".split()
    assert any("cold: 1 compiled in 50.0 ms · 1 from disk" in line for line in rest)


def test_text_of_a_partial_report() -> None:
    lines = report_text(recorded(error="ValueError"), View()).splitlines()
    assert lines[1] == "PARTIAL: stopped by ValueError; what ran until then:"


def test_text_leaves_out_what_is_short_and_says_so() -> None:
    text = report_text(recorded(), View(top=1))
    assert "… 2 more (57.0 ms)" in text
    assert "aten::add.Tensor" not in text


@pytest.mark.parametrize(
    "report",
    [crowded(), recorded(), recorded(label="x" * 300), Report(crowded().recording, "file" * 99)],
    ids=["crowded", "small", "long label", "loaded"],
)
def test_text_fits_100_columns_and_40_lines(report: Report) -> None:
    lines = report_text(report, View()).splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) <= 40


def test_text_when_nothing_ran() -> None:
    device = FakeDevice()
    span = Recorder(device.hook(), ENVIRONMENT, clock=device.clock)
    span.start()
    assert "no op ran on the device" in report_text(Report(span.finish()), View())


def test_bar_is_always_full_width() -> None:
    for report in (recorded(), crowded(3)):
        bar = next(line for line in report_text(report, View()).splitlines() if line.startswith("██"))
        assert len(bar) == 100


def test_line_for_a_repr() -> None:
    assert report_line(recorded(error="ValueError")) == (
        "In[12] · PARTIAL: stopped by ValueError · 200 ms · emulated trn2.3xlarge · neuron:0 · 5 op calls · 2 NEFFs, 1 compiled, 1 from disk"
    )


def test_line_for_a_repr_is_one_line_that_steers_no_terminal() -> None:
    line = report_line(recorded(label="two\nlines \x1b[2J\u202e" + "x" * 5000))
    assert line.startswith("two lines \N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}xx") and len(line) < 200
    assert line.isprintable()


def test_trainium_is_not_called_emulated() -> None:
    environment = Environment("Trainium trn2", False, versions={"torch": "2.13.0", "torch_neuronx": "2.14.0"})
    text = report_text(recorded(environment=environment), View())
    assert "emulat" not in text
    assert "torch_neuronx 2.14.0" in text


class Checked(HTMLParser):
    """Collects what a browser would fetch or run, and checks that tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.unsafe: list[str] = []
        self.cells: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag in ("script", "link", "iframe", "img") or any(
            name.startswith("on") or name in ("src", "href") for name in names
        ):
            self.unsafe.append(tag)
        if tag == "tr":
            self.cells.append(0)
        if tag in ("td", "th") and self.cells:
            self.cells[-1] += int(names.get("colspan") or 1)
        if tag not in ("br", "meta", "col"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    "report",
    [recorded(), crowded(), recorded(error="ValueError"), Report(crowded().recording, "<b>" * 99)],
    ids=["small", "crowded", "partial", "loaded"],
)
def test_html_is_sound_self_contained_and_small(report: Report) -> None:
    html = report_html(report, View(top=50))
    page = Checked()
    page.feed(html)
    page.close()
    assert page.open == []
    assert page.unsafe == []
    assert "http" not in html
    assert "url(" not in html
    assert len(html.encode()) < 80_000
    first, _, *rows = page.cells
    assert set(rows) == {first}


def test_html_marks_fallbacks_and_labels_the_bar() -> None:
    html = report_html(recorded(), View())
    assert html.count('<tr class="nrn-cpu">') == 1
    assert 'role="img" aria-label="compile 50.0 ms, 25 %; load from disk 10.0 ms, 5 %; device 20.0 ms, 10 %;' in html
    assert "emulated, not Trainium" in html


def test_html_escapes_names_from_the_program() -> None:
    device = FakeDevice()
    span = Recorder(device.hook(), Environment("<b>device</b>", True), label="<i>label</i>", clock=device.clock)
    span.start()
    device.fall_back("my::<script>alert(1)</script>", 1, 'reason "<img src=x>"')
    html = report_html(Report(span.finish("<u>Error</u>")), View())
    for raw in ("<script", "<img", "<b>device", "<i>label", "<u>Error"):
        assert raw not in html


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0"),
        (12, "12 ns"),
        (1500, "1.50 µs"),
        (999_960, "1.00 ms"),
        (58_100_000, "58.1 ms"),
        (1_284_000_000, "1.28 s"),
        (6e11, "600 s"),
    ],
)
def test_duration(ns: float, text: str) -> None:
    assert duration(ns) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (12_600_000, "12.6 MB"), (2 * 10**12, "2.00 TB")]
)
def test_size(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1 << 20, "1 MiB"), (96 << 30, "96 GiB"), (43_200_000, "41.2 MiB")]
)
def test_binary_size(count: int, text: str) -> None:
    assert binary_size(count) == text


def test_share_and_shorten() -> None:
    assert [share(part, 1000) for part in (0, 1, 10, 999)] == ["–", "<1 %", "1 %", "100 %"]
    assert shorten("a  b\nc", 10) == "a b c"
    assert shorten("abcdef", 4) == "abc…"
    assert [shorten("日本語", width) for width in (6, 5, 4)] == ["日本語", "日本…", "日…"]
    assert [columns(text) for text in ("abc", "日本", "e\N{COMBINING ACUTE ACCENT}", "…·×")] == [3, 4, 1, 3]


def test_status_in_text_and_html() -> None:
    info = DeviceInfo("emulator", "emulated trn2.48xlarge", "no Trainium here", 64, VERSIONS)
    cache = CacheState("/tmp/" + "deep/" * 40, 1, 5, 0, 0, 1)
    found = Description(
        info, tuple(CoreMemory(0, 24 << 30, index in (0, 2)) for index in range(64)), cache, frozenset()
    )
    ignored = [IgnoredVariable("NEURON_<X>", "a" * 200, "here it is NEURON_Y")]
    lines = status_text(found, VERSIONS, ignored).splitlines()
    assert max(map(len, lines)) <= 100
    assert [line.split()[0] for line in lines if line.startswith("neuron:")] == [
        "neuron:0",
        "neuron:2",
        "neuron:1,3-63",
    ]
    assert "unused, HBM 24 GiB each" in "\n".join(lines)
    html = status_html(found, VERSIONS, ignored)
    assert "NEURON_&lt;X&gt;" in html
    assert "here it is NEURON_Y" in html


def test_status_without_a_device() -> None:
    found = Description(DeviceInfo("none", "no neuron device", "nothing is installed", 0), (), None, None)
    assert "nothing is installed" in status_text(found, VERSIONS, None)
    assert "nothing is installed" in status_html(found, VERSIONS, None)


def test_cores_far_apart_are_listed_not_counted() -> None:
    device = FakeDevice()
    span = Recorder(device.hook(), ENVIRONMENT, clock=device.clock)
    span.start()
    device.run(core=0)
    device.run(core=1 << 60)
    assert f"neuron:0,{1 << 60}" in report_text(Report(span.finish()), View())
