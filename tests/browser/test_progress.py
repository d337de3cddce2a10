"""What a cell shows while it compiles, in a real JupyterLab."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser._lab import Lab

# Compiles of a known length, told as real ones are.
PROGRAM = """%load_ext neuron_lab
import time
from neuron_lab.emulator import events

def compile_for(seconds):
    with events.compiling("aten::mm"):
        time.sleep(seconds)"""
_WATCH = """() => {
  const cell = window.__notebook.content.widgets[1].node;
  let before = null;
  window.__drawn = 0;
  new MutationObserver(() => {
    const now = cell.querySelector('[role=progressbar]');
    if (now && now !== before) window.__drawn += 1;
    before = now;
  }).observe(cell, {childList: true, subtree: true});
}"""


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_a_bar_follows_the_compiles_and_one_line_stays(
    lab: Lab, shoot: Callable[[Page, str], Path], theme: str
) -> None:
    lab.open(PROGRAM, "compile_for(2.5)\ncompile_for(2.5)\n'value'")
    lab.theme(theme)
    lab.run_cell(0)
    lab.page.evaluate(_WATCH)
    bar = lab.page.get_by_role("progressbar", name="compiling")
    with lab.running_cell(1):
        bar.and_(lab.page.locator(":not([aria-valuenow])")).wait_for()
        bar.and_(lab.page.locator("[aria-valuenow]")).wait_for()
        lab.page.get_by_text("of about 2.5 s").wait_for()
        height = lab.page.evaluate("() => document.querySelector('[aria-label=compiling]').offsetHeight")
        assert 0 < height < 8, "slim"
        shoot(lab.page, f"progress-{theme.lower()}")
    assert bar.count() == 0
    assert 5 < lab.page.evaluate("() => window.__drawn") <= 50, "ten a second at most"
    lab.page.get_by_text("compiled 2 NEFFs in 5.0 s").wait_for()
    assert lab.page.locator(".jp-CodeCell").nth(1).locator(".jp-OutputArea-child").count() == 2
    line, _ = json.loads(lab.save().read_bytes())["cells"][1]["outputs"]
    assert "".join(line["data"]["text/plain"]) == "compiled 2 NEFFs in 5.0 s"
    assert "progressbar" not in "".join(line["data"]["text/html"])
    lab.theme("Light")
