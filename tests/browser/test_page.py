"""The explorer in a page of its own, opened from disk."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page

from neuron_lab import Profile
from neuron_lab.report import Report
from tests.fakes.recordings import long_recording
from tests.unit.test_render import crowded


def written(folder: Path, events: int) -> Path:
    path = folder / "page.html"
    Profile(Report(long_recording(events, changes=events // 2))).to_html(path)
    return path


def test_page_opens_from_disk_without_a_network(page: Page, tmp_path: Path) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    path = written(tmp_path, 5_000)
    page.goto(path.as_uri())
    page.locator(".nx[data-ready]").wait_for()
    assert requests == [path.as_uri()]
    assert not page.locator("[data-nrn-report]").is_visible()
    assert page.locator(".nx").get_attribute("data-ready") == "5000"


def test_page_shows_the_report_where_no_script_runs(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(written(tmp_path, 100).as_uri())
    assert page.locator("[data-nrn-report]").is_visible()
    assert "train.py" in page.locator("[data-nrn-report]").inner_text()
    context.close()


def test_what_follows_without_a_gap_is_one_row(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    Profile(crowded(60)).to_html(path)  # ten minutes: a tick is no whole nanosecond
    page.goto(path.as_uri())
    page.locator(".nx[data-ready]").wait_for()
    rows = page.evaluate(
        "() => document.querySelector('.nx').explorer.timeline.lanes.map(lane => [lane.name, lane.rows.length])"
    )
    assert dict(rows) == dict.fromkeys(
        ["Python", "compile", "neuron:0", "neuron:3", "neuron:7", "CPU fallback", "copies"], 1
    )


def test_hundred_thousand_events_draw_a_dozen_rows(page: Page, tmp_path: Path) -> None:
    page.goto(written(tmp_path, 100_000).as_uri())
    explorer = page.locator(".nx[data-ready]")
    explorer.wait_for()
    explorer.get_by_role("tab", name="events").click()
    assert explorer.locator(".nx-panel:not([hidden]) .nx-table").get_attribute("aria-rowcount") == "100001"
    assert explorer.locator(".nx-panel:not([hidden]) .nx-table .nx-body .nx-tr").count() < 20
    explorer.get_by_role("button", name="at", exact=True).click()
    explorer.locator(".nx-panel:not([hidden]) .nx-table .nx-scroller").press("End")
    page.locator(".nx-body .nx-tr[aria-rowindex='100001']").wait_for()
    assert explorer.locator("*").count() < 2_000


def test_hbm_under_the_pointer_is_told_by_the_line_that_took_it(page: Page, tmp_path: Path) -> None:
    page.goto(written(tmp_path, 200).as_uri())
    explorer = page.locator(".nx[data-ready]")
    explorer.wait_for()
    told = []
    for change in (6, 7):  # one takes 4 KiB, the next gives them back
        explorer.evaluate(
            "(e, change) => { const {store, data} = e.explorer; store.set({cursor: data.memory.at[change]}) }", change
        )
        page.evaluate("() => new Promise(requestAnimationFrame)")
        told.append(explorer.locator(".nx-made").inner_text().partition(": ")[2])
    assert told == [
        "1 MiB, made of 4 KiB train.py line 7 · 1 MiB from before or by no line of yours",
        "1 MiB, made of 1 MiB from before or by no line of yours",
    ]
