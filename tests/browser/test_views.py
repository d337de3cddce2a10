"""The other live views: two profiles side by side, a session, memory by name, and the cores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

from tests.browser._lab import Lab
from tests.browser.test_explorer import LOOP, PROGRAM, painted

Shoot = Callable[[Page, str], Path]
_STATES = """() => [...document.querySelectorAll('.nx-pair .nx')].map(e => {
  const {view, focus} = e.explorer.store.state; return [view, focus && e.explorer.data.meta.labels[focus.label]] })"""


def lanes(explorer: Locator) -> list[list[Any]]:
    """Names, and rows as far as there is something in them or beside it."""
    found: list[list[Any]] = explorer.evaluate(
        "e => e.explorer.timeline.lanes.map(lane => [lane.name, lane.rows.length])"
    )
    return found


def test_two_profiles_move_together(lab: Lab, shoot: Shoot) -> None:
    quiet = LOOP.replace("-o p", "-q -o cold"), LOOP.replace("-o p", "-q -o warm")
    lab.open(PROGRAM, *quiet, "warm.compare(cold).explore()")
    lab.run()
    both = lab.page.locator(".nx-both[data-ready]")
    both.wait_for()
    both.locator(".nx").first.locator(".nx-body .nx-tr", has_text="aten::gelu").click()
    canvas = both.locator(".nx-timeline canvas").first
    canvas.focus()
    canvas.press("+")
    lab.page.wait_for_function(
        f"() => {{ const [a, b] = ({_STATES})(); return b[1] === 'aten::gelu' && a[0].end === b[0].end }}"
    )
    (view, _), (same, _) = lab.page.evaluate(_STATES)
    assert view == same
    cold, warm = both.locator(".nx").all()
    assert [lane[0] for lane in lanes(cold)] == ["Python", "compile", "neuron:0", "CPU fallback", "copies"]
    assert lanes(cold) == lanes(warm), "at the same height, though nothing compiled"
    heights = [side.locator(".nx-timeline canvas").evaluate("c => c.clientHeight") for side in (cold, warm)]
    assert heights[0] == heights[1]
    shoot(lab.page, "pair-light-1600")


def test_session_sorts(lab: Lab, shoot: Shoot) -> None:
    lab.open(
        PROGRAM,
        LOOP.replace("-o p", "-q"),
        "%neuron profile -q net(batches[0].to('neuron'))",
        "report = %neuron report\nreport.explore()",
    )
    lab.run()
    view = lab.page.locator(".nx[aria-label=session][data-ready='2']")
    view.wait_for()
    names = view.locator(".nx-body .nx-tr > :first-child")
    assert names.all_inner_texts() == ["In[2]", "In[3]"], "the longest first"
    view.get_by_role("button", name="order").click()
    assert names.all_inner_texts() == ["In[3]", "In[2]"]
    names.first.click()
    view.get_by_role("status").get_by_text("device").wait_for()
    shoot(lab.page, "session-light-1600")


def test_button_frees_what_only_the_notebook_keeps(lab: Lab, shoot: Shoot) -> None:
    lab.open(
        "import torch, neuron_lab\nmine = torch.ones(1000, device='neuron')",
        "torch.ones(50_000, device='neuron') + 1",
        "neuron_lab.memory().explore()",
    )
    lab.run()
    view = lab.page.locator(".nx[data-ready]", has=lab.page.locator(".nx-holdings"))
    view.get_by_text("mine", exact=True).wait_for()
    assert view.get_by_text("Out[2]").count() == 1
    shoot(lab.page, "memory-light-1600")
    view.get_by_role("button", name="free").click()
    view.get_by_text("had kept").wait_for()
    assert view.get_by_text("Out[2]").count() == 0
    assert view.get_by_text("mine", exact=True).count() == 1


def test_cores_are_followed_while_a_cell_runs_and_not_while_it_is_measured(lab: Lab) -> None:
    watch = """from neuron_lab.widgets import _show
view, told = _show._shown[-1], []
send = view.send
view.send = lambda content: (told.append(content), send(content))"""
    work = """while sum("answer" not in content["news"] for content in told) < 2:
    net(batches[0].to("neuron"))
told[-1]["news"]["cores"][0]["busy"] > 0"""
    measured = """%%neuron profile -q
told.clear()
while not view._thread.is_alive():
    pass
view.tell()
len(told)"""
    lab.open(PROGRAM, "%neuron top", watch, work, measured)
    lab.run_cell(0)
    lab.run_cell(1)
    view = lab.page.locator(".nx[aria-label=cores][data-news]")
    view.wait_for()  # it has asked, and the kernel has answered
    before = int(view.get_attribute("data-news") or 0)
    for cell in (2, 3, 4):
        lab.run_cell(cell)
    busy, told = (lab.outputs()[cell][0]["data"]["text/plain"] for cell in (3, 4))
    assert (busy, told) == ("True", "0")
    lab.page.wait_for_function(
        "least => document.querySelector('.nx[aria-label=cores]').dataset.news >= least", arg=before + 2
    )
    assert painted(view.locator("canvas")) > 20
    view.get_by_text("parameters").wait_for()
