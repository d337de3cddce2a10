"""The explorer in a real JupyterLab: it takes the place of the report, its views follow each other, and nothing is left of it in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jupytext
from playwright.sync_api import Locator, Page

from tests.browser._lab import Lab
from tests.browser._server import ROOT

PROGRAM = """%load_ext neuron_lab
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10)).to("neuron")
batches = [torch.randn(32, 64) for _ in range(8)]"""
LOOP = """%%neuron profile -o p
total, seen = 0.0, []
for x in batches:
    logits = net(x.to("neuron"))
    seen.append(logits.argmax(-1).unique())
    total += logits.softmax(-1).amax(-1).mean().item()"""
STATE = "element => { const {range, focus, view} = element.explorer.store.state; return {range, focus, view} }"
REPORT = "[data-nrn-report]"

Shoot = Callable[[Page, str], Path]


def state(explorer: Locator) -> dict[str, Any]:
    """What the views share."""
    found: dict[str, Any] = explorer.evaluate(STATE)
    return found


def rows(explorer: Locator) -> list[str]:
    """First cells of the table in sight."""
    return explorer.locator(".nx-panel:not([hidden]) .nx-table .nx-body .nx-tr > :first-child").all_inner_texts()


def painted(canvas: Locator) -> int:
    """Pixels of a canvas that are not empty."""
    found: int = canvas.evaluate(
        "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter((v, i) => i % 4 === 3 && v).length"
    )
    return found


def test_explorer_takes_the_place_of_the_report_and_its_views_follow(lab: Lab, shoot: Shoot) -> None:
    lab.open(PROGRAM, LOOP)
    lab.run()
    explorer = lab.explorer()
    assert not lab.page.locator(REPORT).is_visible()
    assert painted(explorer.locator(".nx-timeline canvas")) > 1000
    assert painted(explorer.locator(".nx-memory canvas")) > 1000
    assert rows(explorer)[0].startswith("aten::")
    shoot(lab.page, "lab-light-1600")

    # A finding jumps to its place: its line is in focus, and the timeline shows what it did.
    whole = state(explorer)["view"]
    explorer.locator(".nx-finding", has_text="NRN031").click()
    explorer.locator(".nx-line[aria-pressed=true]", has_text="unique()").wait_for()
    assert state(explorer)["focus"].keys() == {"line"}

    # A range drawn on the ruler: the table follows.
    explorer.get_by_role("button", name="show all").click()
    canvas = explorer.locator(".nx-timeline canvas")
    box = canvas.bounding_box()
    assert box is not None
    everything = rows(explorer)
    lab.page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 8)
    lab.page.mouse.down()
    lab.page.mouse.move(box["x"] + box["width"] - 12, box["y"] + 8, steps=3)
    lab.page.mouse.up()
    explorer.locator(".nx-status", has_text="range").wait_for()
    part = state(explorer)["range"]
    assert 0 < part["end"] - part["begin"] < (whole["end"] - whole["begin"]) / 20
    assert rows(explorer) != everything
    explorer.get_by_role("button", name="clear range").click()

    # The wheel zooms once the timeline was clicked into, and the keyboard does it alone.
    canvas.focus()
    canvas.press("0")
    canvas.press("+")
    canvas.press("s")
    zoomed = state(explorer)
    assert zoomed["range"] == zoomed["view"] != whole
    canvas.press("Escape")
    canvas.hover()
    lab.page.mouse.wheel(0, -400)
    lab.page.wait_for_function(
        "span => { const v = document.querySelector('.nx').explorer.store.state.view; return v.end - v.begin < span }",
        arg=zoomed["view"]["end"] - zoomed["view"]["begin"],
    )


def quickstart(last: str) -> list[str]:
    """The code cells of the quickstart up to the one with `last` in it."""
    notebook = jupytext.read(ROOT / "notebooks" / "00_quickstart.py")
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    end = next(at for at, cell in enumerate(cells) if last in cell)
    return cells[: end + 1]


def test_newcomer_finds_the_slow_line_of_the_quickstart_in_three_clicks(lab: Lab) -> None:
    cells = quickstart("-o warm_step")
    slowest = "print(warm_step.lines.sort_values('total_ms').iloc[-1]['source'])"
    lab.open(*cells, slowest)
    lab.run()
    explorer = lab.explorer(sum("%neuron profile" in cell for cell in cells))
    (output,) = lab.outputs()[-1]
    code = explorer.locator(".nx-code")
    slowest = code.locator(".nx-most", has_text=output["text"].strip())
    assert in_sight(slowest, code), "before the first click"

    code.evaluate("e => { e.scrollTop = 0 }")
    explorer.get_by_role("tab", name="lines").click()
    explorer.locator(".nx-panel:not([hidden]) .nx-body .nx-tr").first.click()
    line = code.locator(".nx-line[aria-pressed=true]", has_text=output["text"].strip())
    line.wait_for()
    assert in_sight(line, code)


def in_sight(line: Locator, frame: Locator) -> bool:
    """Whether the frame is scrolled to the one line."""
    box, around = line.bounding_box(), frame.bounding_box()
    assert box is not None and around is not None
    return around["y"] <= box["y"] and box["y"] + box["height"] <= around["y"] + around["height"]


def test_tabs_turn_by_arrow_keys(lab: Lab) -> None:
    lab.open(PROGRAM, LOOP)
    lab.run()
    explorer = lab.explorer()
    for key, name in (("ArrowRight", "lines"), ("End", "events"), ("ArrowRight", "ops"), ("ArrowLeft", "events")):
        explorer.locator("[role=tab][aria-selected=true]").press(key)
        tab = explorer.get_by_role("tab", name=name, selected=True)
        assert tab.evaluate("e => e === e.getRootNode().activeElement")
        panel = explorer.get_by_role("tabpanel")
        assert panel.count() == 1
        assert panel.get_attribute("id") == tab.get_attribute("aria-controls")
    assert explorer.locator("[role=tab][tabindex='0']").count() == 1


def test_file_stays_small_and_shows_the_report_without_a_kernel(lab: Lab) -> None:
    lab.open(PROGRAM, LOOP)
    lab.run()
    lab.explorer()
    saved = lab.save().read_bytes()
    assert len(saved) < 100_000
    notebook = json.loads(saved)
    assert "widgets" not in notebook["metadata"]
    report, widget = notebook["cells"][1]["outputs"]
    assert "data-nrn-report" in "".join(report["data"]["text/html"])
    assert set(widget["data"]) == {"application/vnd.jupyter.widget-view+json", "text/plain"}


def test_report_comes_back_when_the_explorer_goes(lab: Lab) -> None:
    lab.open(PROGRAM, LOOP, "from neuron_lab.widgets import _show\n_show._shown[-1].release()")
    lab.run_cell(0)
    lab.run_cell(1)
    lab.explorer()
    lab.page.locator(REPORT).wait_for(state="hidden")
    lab.run_cell(2)
    lab.page.locator(REPORT).wait_for(state="visible")
    assert lab.page.locator(".nx").count() == 0


def test_explore_is_a_widget_of_its_own(lab: Lab) -> None:
    lab.open(PROGRAM, LOOP.replace("-o p", "-o p --no-widget"), "p.explore()")
    lab.run()
    lab.explorer()
    lab.page.locator(REPORT).wait_for(state="visible")  # of another cell: it stays


def test_no_widget_leaves_the_report(lab: Lab) -> None:
    lab.open(PROGRAM, LOOP.replace("-o p", "--no-widget"))
    lab.run()
    lab.page.locator(REPORT).wait_for(state="visible")
    assert len(lab.outputs()[1]) == 1
