"""Two profiles side by side: what is subtracted, and what is not."""

from __future__ import annotations

import dataclasses
import math

import pytest

from neuron_lab import Comparison, Profile, UsageProblem
from neuron_lab.recording import Environment, Recorder
from neuron_lab.render import difference_html, difference_text
from neuron_lab.report import Difference, Report
from tests.fakes.device import FakeDevice
from tests.unit.test_curves import LOG, logged
from tests.unit.test_render import Checked

EMULATED = Environment("emulated trn2.3xlarge", True, versions={"torch": "2.13.0"})


def report(
    label: str, *, cold: bool = False, rows: int = 64, extra: bool = False, environment: Environment = EMULATED,
    error: str | None = None, ms: float = 10, fallbacks: int = 0,
) -> Report:  # fmt: skip
    device = FakeDevice().at(4)
    span = Recorder(device.hook(), environment, label=label, clock=device.clock)
    span.start()
    device.run("aten::mm", neff="mm", device_ms=ms, compile_ms=(5, 5, 20) if cold else None)
    device.run("aten::mm", neff="mm", device_ms=ms)
    if extra:
        signature = f"aten::mm(float32[{rows}, 8]) default=float32"
        device.run("aten::mm", neff="new", device_ms=ms, compile_ms=(1, 1, 10), signature=signature)
    for _ in range(fallbacks):
        device.fall_back("aten::_unique2", 2, "its size depends on the data")
    device.clock.advance(5)
    return Report(span.finish(error))


def test_only_profiles_are_compared() -> None:
    with pytest.raises(UsageProblem, match=r"not with a str; neuron_lab.load\(FILE\) reads a saved one"):
        Profile(report("In[1]")).compare("base.json")  # type: ignore[arg-type]


def graphs(*calls: tuple[str, str]) -> Report:
    """Calls of graphs by (name, NEFF)."""
    device = FakeDevice()
    span = Recorder(device.hook(), EMULATED, clock=device.clock)
    span.start()
    for name, neff in calls:
        device.run(f"graph::{name}", neff=neff)
    return Report(span.finish())


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ((("Net_0", "a"), ("Net_1", "b")), {"Net_1": (1, 1), "Net_2": (1, 1)}),  # compiled anew, and counted on
        ((("Net_0", "a"), ("Net_1", "c")), {"Net_0": (1, 0), "Net_1": (1, 1), "Net_2": (0, 1)}),  # Net_1 was another
        ((("Net_1", "a"), ("Net_2", "b")), {"Net_1": (1, 1), "Net_2": (1, 1)}),
    ],
)
def test_a_graph_that_was_made_again_is_compared_with_itself(
    before: tuple[tuple[str, str], ...], expected: dict[str, tuple[int, int]]
) -> None:
    found = Difference(graphs(*before), graphs(("Net_1", "a"), ("Net_2", "b")))
    assert {row.op.removeprefix("graph::"): row.calls for row in found.ops} == expected


def test_warm_against_warm_is_subtracted() -> None:
    found = Difference(report("In[1]", fallbacks=2), report("In[2]", ms=6))
    assert found.times
    assert found.caveats == ()
    assert difference_text(found).splitlines() == [
        "In[1] → In[2]  emulated trn2.3xlarge",
        "",
        "                      before    after             change",
        "wall                 29.0 ms  17.0 ms   −12.0 ms (−41 %)",
        "device               20.0 ms  12.0 ms   −8.00 ms (−40 %)",
        "CPU fallback         4.00 ms        0  −4.00 ms (−100 %)",
        "Python and the rest  5.00 ms  5.00 ms                  0",
        "",
        "op              calls    CPU   before    after             change        warm median",
        "aten::mm            2      –  20.0 ms  12.0 ms   −8.00 ms (−40 %)  10.0 ms → 6.00 ms",
        "aten::_unique2  2 → 0  2 → 0  4.00 ms        –  −4.00 ms (−100 %)                  –",
        "",
        "no longer on the CPU: aten::_unique2 2×",
    ]
    row = Comparison(found).ops.set_index("op").loc["aten::mm"]
    assert (row.total_ms_before, row.total_ms_after, row.total_ms_delta) == (20, 12, -8)
    assert Comparison(found).parts.set_index("part").delta_s["wall"] == pytest.approx(-0.012)


def test_peaks_of_memory_are_compared() -> None:
    text = difference_text(Difference(logged(LOG), logged(dataclasses.replace(LOG, peaks=()))))
    assert (
        next(line for line in text.splitlines() if "HBM" in line).split()
        == "peak HBM 40 MiB 0 B −40 MiB (−100 %)".split()
    )


def test_cold_against_warm_is_shown_and_not_subtracted() -> None:
    found = Difference(report("In[1]", cold=True), report("In[2]", ms=6))
    assert not found.times
    assert found.caveats == ("cold against warm: In[1] compiled 1 NEFF, In[2] was warm",)
    text = difference_text(found)
    assert "times are not compared: cold against warm: In[1] compiled 1 NEFF, In[2] was warm" in text
    assert "%" not in text
    assert "10.0 ms → 6.00 ms" in text  # warm calls of both
    page = Comparison(found)
    assert page.ops.total_ms_delta.isna().all()
    assert page.parts.delta_s.isna().all()
    assert page.ops.device_ms_median_delta.tolist() == [-4.0]


def test_a_sentence_does_not_repeat_a_long_label() -> None:
    found = Difference(report("two\nlines " * 99, cold=True), report("In[2]"))
    assert found.caveats == (
        "cold against warm: two lines two lines two lines two lines… compiled 1 NEFF, In[2] was warm",
    )


@pytest.mark.parametrize(
    ("after", "caveat", "medians"),
    [
        (
            report("In[2]", environment=Environment("Trainium trn2", False, versions={"torch": "2.13.0"})),
            "emulated trn2.3xlarge against Trainium trn2: the emulator's times are this machine's, never Trainium's",
            False,
        ),
        (
            report("In[2]", environment=Environment("emulated trn3.48xlarge", True, versions={"torch": "2.13.0"})),
            "different devices: emulated trn2.3xlarge against emulated trn3.48xlarge",
            False,
        ),
        (report("In[2]", error="ValueError"), "In[2] was stopped by ValueError", True),
    ],
    ids=["Trainium", "device", "partial"],
)
def test_what_cannot_be_compared_says_so(after: Report, caveat: str, medians: bool) -> None:
    for found in (Difference(report("In[1]"), after), Difference(after, report("In[1]"))):
        assert not found.times
        assert found.medians == medians
        assert all(math.isnan(value) for value in Comparison(found).ops.total_ms_delta)
        assert "times are not compared: " in difference_text(found)
    assert caveat in Difference(report("In[1]"), after).caveats


def test_other_versions_are_a_note() -> None:
    newer = report("In[2]", environment=Environment("emulated trn2.3xlarge", True, versions={"torch": "2.14.0"}))
    found = Difference(report("In[1]"), newer)
    assert found.times
    assert "note: other versions: torch 2.13.0 → 2.14.0" in difference_text(found)


def test_new_neff_is_named_with_its_line() -> None:
    found = Difference(report("base"), report("In[2]", extra=True, rows=37))
    assert [item.neff for item in found.new_neffs] == ["new"]
    assert "new NEFF at train.py line 4, 12.0 ms: aten::mm(float32[37, 8])" in difference_text(found)
    assert "0 → 1" in difference_text(found)
    assert "1 NEFF no longer used" in difference_text(Difference(report("In[2]", extra=True), report("In[3]")))


def many(label: str, ops: int, scale: float) -> Report:
    device = FakeDevice()
    span = Recorder(device.hook(), EMULATED, label=label, clock=device.clock)
    span.start()
    for index in range(ops):
        name = f"aten::_scaled_dot_product_flash_attention_for_cpu_backward_{index}.<b>&grad_input"
        device.run(name, device_ms=123.4 * scale, neff=f"{name}{scale}", compile_ms=(999, 9, 9))
        device.run(name, device_ms=123.4 * scale, neff=f"{name}{scale}")
        if scale > 1:
            device.fall_back(name, 12, "no lowering")
    return Report(span.finish("<b>Error"))


def test_text_and_html_stay_within_their_bounds() -> None:
    found = Difference(many("x" * 300, 300, 1), many("<i>after</i>", 300, 1.5))
    lines = difference_text(found).splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) <= 40
    html = difference_html(found)
    page = Checked()
    page.feed(html)
    page.close()
    assert page.open == []
    assert page.unsafe == []
    assert "<b>&" not in html
    assert "<i>" not in html
    assert "<b>Error" not in html
    assert len(html.encode()) < 80_000


def test_same_profile_has_no_change() -> None:
    same = report("In[1]")
    found = Difference(same, same)
    assert all(part.before_ns == part.after_ns for part in found.parts)
    assert (found.new_neffs, found.gone_neffs) == ((), ())
