"""What a cell shows while it compiles, in a real JupyterLab."""

from __future__ import annotations

import json
import re
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
    begun = time.perf_counter()
    with events.compiling("aten::mm"):
        time.sleep(seconds)  # or somewhat longer, on a machine that is busy
    return time.perf_counter() - begun"""
_WATCH = """() => {
  const cell = window.__notebook.content.widgets[1].node;
  let before = null;
  window.__drawn = [];
  new MutationObserver(() => {
    const now = cell.querySelector('[role=progressbar]');
    if (now && now !== before)
      window.__drawn.push({estimates: now.ariaValueNow !== null, high: now.offsetHeight, text: now.parentElement.textContent});
    before = now;
  }).observe(cell, {childList: true, subtree: true});
}"""


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_a_bar_follows_the_compiles_and_one_line_stays(
    lab: Lab, shoot: Callable[[Page, str], Path], theme: str
) -> None:
    lab.open(PROGRAM, "compile_for(2.5) + compile_for(2.5)")
    lab.theme(theme)
    lab.run_cell(0)
    lab.page.evaluate(_WATCH)
    bar = lab.page.get_by_role("progressbar", name="compiling")
    with lab.running_cell(1):
        bar.and_(lab.page.locator("[aria-valuenow]")).wait_for()
        shoot(lab.page, f"progress-{theme.lower()}")
    told = lab.page.get_by_text("compiled 2 NEFFs in").inner_text()
    assert bar.count() == 0
    drawn = lab.page.evaluate("() => window.__drawn")
    line, value = json.loads(lab.save().read_bytes())["cells"][1]["outputs"]
    took = float("".join(value["data"]["text/plain"]))
    assert 5 < len(drawn) <= 10 * took, "ten a second at most"
    assert not drawn[0]["estimates"] and any(bar["estimates"] for bar in drawn)
    (about,) = re.findall(r" of about (\d+\.\d) s", drawn[-1]["text"])
    assert 2.5 <= float(about) <= took - 2.5 + 0.05
    assert all(0 < bar["high"] < 8 for bar in drawn), "slim"
    (seconds,) = re.findall(r"^compiled 2 NEFFs in (\d+\.\d) s$", told)
    assert 5 <= float(seconds) <= took + 0.05
    assert lab.page.locator(".jp-CodeCell").nth(1).locator(".jp-OutputArea-child").count() == 2
    assert "".join(line["data"]["text/plain"]) == told
    assert "progressbar" not in "".join(line["data"]["text/html"])
