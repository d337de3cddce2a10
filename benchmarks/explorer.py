"""The explorer in Chromium, with software rendering: what is sent, until it is drawn, frames while panning and zooming, sorting."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from benchmarks._timing import row
from neuron_lab import Profile
from neuron_lab.report import Report, View
from neuron_lab.widgets import payload
from tests.fakes.recordings import long_recording

_SWITCHES = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")
FRAMES = 120
FRAME_BUDGET_MS = 1000 / 45
# Frames while the view moves: half of them zoom, half pan, as wheel and drag do.
_MOVE = """async (frames) => {
  const {store, data} = document.querySelector('.nx').explorer;
  const full = data.meta.wall, next = () => new Promise(requestAnimationFrame);
  let before = await next();
  const took = [];
  for (let i = 0; i < frames; i++) {
    const {view} = store.state, span = view.end - view.begin;
    if (i < frames / 2) store.set({view: {begin: view.begin + span * 0.02, end: view.end - span * 0.02}});
    else if (view.end + span * 0.02 < full) store.set({view: {begin: view.begin + span * 0.02, end: view.end + span * 0.02}});
    const now = await next();
    took.push(now - before);
    before = now;
  }
  store.set({view: {begin: 0, end: full}});
  return took.sort((a, b) => a - b);
}"""


def run() -> None:
    """Print figures for 100,000 and 1,000,000 events."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=_SWITCHES)
        for events in (100_000, 1_000_000):
            page = browser.new_page(viewport={"width": 1600, "height": 1000})
            _measure(page, Path(folder), events)
            page.close()
        browser.close()


def _measure(page: Page, folder: Path, events: int) -> None:
    small = events <= 100_000
    report = Report(long_recording(events, changes=events // 2))
    profile = Profile(report)
    profile.to_text()  # shown before, as in a notebook
    started = time.perf_counter()
    found = payload(report, View())
    made = time.perf_counter() - started
    path = folder / "page.html"
    profile.to_html(path)
    started = time.perf_counter()
    page.goto(path.as_uri())
    explorer = page.locator(".nx[data-ready]")
    explorer.wait_for(timeout=60_000)
    opened = time.perf_counter() - started
    print(f"explorer, {events:,} events and {events // 2:,} changes of HBM")
    sent = len(found.columns) + len(json.dumps(found.meta))
    row("sent to the browser", sent / 1e6, "MB", 1.5 if small else None)
    row("columns made", made * 1e3, "ms")
    row("drawn, from the data on", float(explorer.get_attribute("data-drawn") or 0), "ms", 1000 if small else None)
    row("columns made, page opened, drawn", made + opened, "s", None if small else 5)
    took: list[Any] = page.evaluate(_MOVE, FRAMES)
    row(
        "frame while zooming and panning", sum(took) / len(took), "ms", FRAME_BUDGET_MS, "mean, with 60 Hz 16.7 at best"
    )
    row("frame, 95th percentile", took[int(0.95 * len(took))], "ms")
    explorer.get_by_role("tab", name="events").click()
    explorer.get_by_role("button", name="device").click()
    table = explorer.locator(".nx-panel:not([hidden]) .nx-table")
    row("sort all events by a number", float(table.get_attribute("data-sorted") or 0), "ms", 150 if small else None)
    explorer.get_by_role("button", name="event", exact=True).click()
    row("sort all events by name", float(table.get_attribute("data-sorted") or 0), "ms", 150 if small else None)
