"""What stays visible of a saved notebook: without its kernel, not trusted, and as other tools show it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import nbconvert
import nbformat
import pytest
from playwright.sync_api import Page

from tests.browser._lab import Lab
from tests.browser.test_explorer import LOOP, PROGRAM, REPORT


def saved(lab: Lab) -> Path:
    lab.open(PROGRAM, LOOP)
    lab.run()
    lab.explorer()
    return lab.save()


@pytest.mark.parametrize("trusted", [True, False])
def test_reopened_without_its_kernel_it_shows_the_report(lab: Lab, trusted: bool) -> None:
    path = saved(lab)
    lab.close()
    if not trusted:
        notebook = json.loads(path.read_bytes())
        notebook["cells"][1]["outputs"][0]["data"]["text/plain"] = "changed by somebody else"
        path.write_text(json.dumps(notebook))
    lab.reopen(path)
    assert lab.page.evaluate("() => window.__notebook.content.widgets[1].model.trusted") is trusted
    report = lab.page.locator(REPORT if trusted else ".nrn")
    report.first.wait_for(state="visible")
    assert "aten::linear" in report.first.inner_text()
    assert lab.page.locator(".nx").count() == 0


def test_nbconvert_shows_the_report(lab: Lab, page: Page, tmp_path: Path, shoot: Callable[[Page, str], Path]) -> None:
    notebook = nbformat.read(saved(lab), as_version=4)  # type: ignore[no-untyped-call]
    exporter = nbconvert.HTMLExporter(mathjax_url="", require_js_url="", jquery_url="")
    html, _ = exporter.from_notebook_node(notebook)
    path = tmp_path / "page.html"
    path.write_text(html)
    page.goto(path.as_uri())
    assert page.locator(REPORT).is_visible()
    assert "aten::linear" in page.locator(REPORT).inner_text()
    for width in (900, 1600):
        page.set_viewport_size({"width": width, "height": 1100})
        shoot(page, f"nbconvert-{width}")
        wide = page.evaluate(
            "() => [...document.querySelectorAll('.nrn-scroll')].map(e => e.scrollWidth - e.clientWidth)"
        )
        assert wide == [0, 0], "the tables fit"
