"""What lives of a notebook: cells run again, restarts, second views, themes and zoom."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from tests.browser._lab import Lab
from tests.browser.test_explorer import LOOP, PROGRAM, REPORT, painted, state
from tests.browser.test_looks import FAULTS

COUNT = """import gc
from neuron_lab.widgets import _show
gc.collect()
[len(_show._shown), sum(type(item).__name__ == "Live" for item in gc.get_objects())]"""
_MODULES = "() => globalThis[Symbol.for('neuron_lab.modules')].size"
_SECOND_VIEW = """() => {
  window.__notebook.content.activeCellIndex = 1;
  return window.jupyterapp.commands.execute('notebook:create-output-view');
}"""
_RESTART = "async () => window.__notebook.sessionContext.session.kernel.restart()"


def test_a_cell_that_runs_again_leaves_nothing_of_its_earlier_runs(lab: Lab) -> None:
    lab.open(PROGRAM, LOOP, LOOP.replace("-o p", "-o other"), COUNT)
    lab.run()
    lab.explorer(2)
    for _ in range(12):
        lab.run_cell(1)
    lab.page.locator(".nx[data-ready]", has_text="In[16]").wait_for()
    lab.run_cell(3)
    assert lab.outputs()[3][0]["data"]["text/plain"] == "[2, 2]"
    assert lab.page.locator(".nx[data-ready]").count() == 2, "the other cell keeps its explorer"
    assert lab.page.locator(REPORT).locator("visible=true").count() == 0
    assert lab.page.evaluate(_MODULES) == 1


def test_two_explorers_do_not_follow_each_other(lab: Lab) -> None:
    lab.open(PROGRAM, LOOP, LOOP)
    lab.run()
    lab.explorer(2)
    one, other = lab.page.locator(".nx[data-ready]").all()
    one.locator(".nx-timeline canvas").press("+")
    one.locator(".nx-body .nx-tr").first.click()
    lab.page.wait_for_function("() => document.querySelector('.nx').explorer.store.state.focus")
    lab.frame()
    assert state(other)["focus"] is None
    assert state(one)["view"] != state(other)["view"] == {"begin": 0, "end": state(other)["view"]["end"]}


def test_a_second_view_and_a_restarted_kernel_leave_it_live(lab: Lab) -> None:
    lab.open(PROGRAM, LOOP)
    lab.run()
    lab.explorer()
    lab.page.evaluate(_SECOND_VIEW)
    lab.explorer(2)
    assert lab.page.locator(REPORT).locator("visible=true").count() == 0
    lab.page.evaluate(_RESTART)
    lab.page.wait_for_function("() => window.__notebook.sessionContext.session.kernel.status === 'idle'")
    explorer = lab.explorer(2)
    whole = state(explorer)["view"]
    explorer.locator(".nx-timeline canvas").press("+")
    assert state(explorer)["view"] != whole, "it has its data"


@pytest.mark.parametrize("zoom", [0.8, 1.5])
def test_theme_and_zoom_of_a_live_one(lab: Lab, shoot: Callable[[Page, str], Path], zoom: float) -> None:
    lab.open(PROGRAM, LOOP)
    lab.run()
    explorer = lab.explorer()
    ink = explorer.evaluate("e => getComputedStyle(e).color")
    frames = "e => Number(e.querySelector('.nx-timeline').dataset.frames)"
    before = explorer.evaluate(frames)
    lab.theme("Dark")
    lab.page.wait_for_function(f"before => ({frames})(document.querySelector('.nx')) > before", arg=before)
    assert explorer.evaluate("e => getComputedStyle(e).color") != ink
    with lab.zoomed(zoom):
        explorer.evaluate("e => e.scrollIntoView()")  # in a smaller window it may stand outside, where nothing is drawn
        canvas = explorer.locator(".nx-timeline canvas")
        sharp(canvas, zoom)
        assert painted(canvas) > 1000
        assert explorer.evaluate(FAULTS) == []
        shoot(lab.page, f"zoom-{zoom}")


def sharp(canvas: Locator, zoom: float) -> None:
    """Wait until it was drawn with the pixels of this zoom."""
    canvas.page.wait_for_function(
        "([canvas, zoom]) => canvas.width && Math.abs(canvas.width - zoom * canvas.clientWidth) < 1",
        arg=[canvas.element_handle(), zoom],
    )


def test_zoom_that_leaves_the_width_alone(lab: Lab) -> None:
    """As in Notebook 7, whose pages have a width of their own."""
    lab.open(PROGRAM, LOOP)
    lab.run()
    explorer = lab.explorer()
    explorer.evaluate("e => { e.style.width = '700px' }")
    canvas = explorer.locator(".nx-timeline canvas")
    sharp(canvas, 1)
    lab.frame()
    with lab.zoomed(1.25):
        explorer.evaluate("e => e.scrollIntoView()")
        sharp(canvas, 1.25)


_NO_PATIENCE = """() => {
  window.__patience = AbortSignal.timeout;
  AbortSignal.timeout = () => {
    const controller = new AbortController();
    queueMicrotask(() => controller.abort());
    return controller.signal;
  };
}"""
_PATIENCE = "() => { AbortSignal.timeout = window.__patience; }"


def test_an_explorer_whose_code_comes_too_late_for_anywidget_is_drawn(lab: Lab) -> None:
    """It drops all messages to a widget that was not ready within two seconds, which a busy page is not."""
    lab.open(PROGRAM, LOOP, "again = p.explore()\nagain", "again.release()")
    lab.run_cell(0)
    lab.page.evaluate(_NO_PATIENCE)
    for cell in (1, 2):
        lab.run_cell(cell)
    lab.explorer(2)
    lab.page.evaluate(_PATIENCE)
    lab.run_cell(3)
    lab.page.wait_for_function("() => document.querySelectorAll('.nx').length === 1")


def test_captured_and_interrupted_cells(lab: Lab) -> None:
    stuck = """%%neuron profile
net(batches[0].to("neuron"))
import os, signal
os.kill(os.getpid(), signal.SIGINT)"""
    lab.open(PROGRAM, f"%%capture kept\n{LOOP}", "kept.show()", stuck)
    lab.run_cell(0)
    lab.run_cell(1)
    assert lab.outputs()[1] == []
    lab.run_cell(2)
    lab.explorer()
    assert lab.page.locator(REPORT).locator("visible=true").count() == 0
    with pytest.raises(AssertionError, match="KeyboardInterrupt"):
        lab.run_cell(3)
    explorer = lab.explorer(2)
    assert "KeyboardInterrupt" in explorer.inner_text()
    kinds = [output["output_type"] for output in json.loads(lab.save().read_bytes())["cells"][3]["outputs"]]
    assert sorted(kinds) == ["display_data", "display_data", "error"]
