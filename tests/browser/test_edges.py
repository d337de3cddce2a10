"""The explorer of recordings at the edge: nothing in them, one event, and names and numbers that are too long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page

from neuron_lab import Profile
from neuron_lab.recording import CorePeak, MemoryLog, Recording
from neuron_lab.report import Report
from tests.browser.test_looks import FAULTS
from tests.fakes.recordings import long_recording, totals


def only(events: int) -> Recording:
    """The first op calls of a recording and nothing else."""
    whole = long_recording(100)
    ops = whole.ops[:events]
    return replace(
        whole,
        ops=ops,
        op_totals=totals(list(ops)),
        copies=(),
        copy_totals=(),
        compiles=(),
        memory=(),
        memory_log=MemoryLog(),
    )


def too_long() -> Recording:
    """Names without a place to break, petabytes, five threads and three cores."""
    whole = long_recording(300, changes=100)
    name = "aten::" + "x" * 200
    ops = [
        call._replace(op=name if i % 3 == 0 else call.op, core=7 * (i % 3), thread=i % 5, bytes=10**15)
        for i, call in enumerate(whole.ops)
    ]
    return replace(
        whole,
        label="In[123456] " + "x" * 300,
        ops=tuple(ops),
        op_totals=totals(ops),
        memory=(CorePeak(0, 0, 1 << 20, 1 << 44, 24 << 30), CorePeak(7, 0, 0, 1 << 33, 24 << 30)),
    )


@pytest.mark.parametrize("width", [900, 1600])
@pytest.mark.parametrize(("name", "recording"), [("none", only(0)), ("one", only(1)), ("long", too_long())])
def test_nothing_is_cut_or_overlaps(
    page: Page, tmp_path: Path, shoot: Callable[[Page, str], Path], name: str, recording: Recording, width: int
) -> None:
    path = tmp_path / "page.html"
    Profile(Report(recording)).to_html(path)
    page.set_viewport_size({"width": width, "height": 1000})
    page.goto(path.as_uri())
    explorer = page.locator(".nx[data-ready]")
    explorer.wait_for()
    shoot(page, f"edge-{name}-{width}")
    assert explorer.evaluate(FAULTS) == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert explorer.locator(".nx-nothing:visible").count() == (name == "none")
    for tab in ("lines", "events"):
        explorer.get_by_role("tab", name=tab).click()
        assert explorer.evaluate(FAULTS) == []


def test_numbers_stand_below_their_heads(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    Profile(Report(long_recording(300))).to_html(path)
    page.goto(path.as_uri())
    page.locator(".nx[data-ready]").wait_for()
    for bar in ("0px", "15px"):  # of scroll bars, which the tests' browser hides
        page.add_style_tag(content=f".nx-scroller{{border-right:{bar} solid transparent}}")
        page.get_by_role("tab", name="ops").click()
        head, cell = (
            page.locator(f".nx-panel:not([hidden]) .nx-tr:has({inside}) > :last-child").first.bounding_box()
            for inside in ("button", "[role=cell]")
        )
        assert head is not None and cell is not None
        assert head["x"] + head["width"] == cell["x"] + cell["width"]


def test_names_in_bars_have_contrast() -> None:
    """WCAG's 4.5:1, black on every colour that a bar may have."""
    from neuron_lab.render import PART_COLORS

    def light(level: float) -> float:
        return level / 12.92 if level <= 0.04045 else ((level + 0.055) / 1.055) ** 2.4

    for color in PART_COLORS.values():
        red, green, blue = (light(int(color[at : at + 2], 16) / 255) for at in (1, 3, 5))
        assert (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) / 0.05 >= 4.5, color
