"""The explorer in Notebook 7, which shows one notebook a page."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser._lab import written
from tests.browser._server import Server
from tests.browser.test_explorer import LOOP, PROGRAM, REPORT, painted

_RUN = """async () => {
  await window.jupyterapp.restored;
  const panel = window.jupyterapp.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
  return window.jupyterapp.commands.execute('notebook:run-all-cells');
}"""
_END = "async () => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()"


@pytest.mark.skipif(
    importlib.util.find_spec("notebook") is None and os.environ.get("CI") != "true",
    reason="Notebook 7 is not installed: `pip install notebook`",
)
def test_explorer_takes_the_place_of_the_report(page: Page, server: Server, shoot: Callable[[Page, str], Path]) -> None:
    path = written(server, PROGRAM, LOOP)
    page.goto(f"{server.url}/notebooks/{path.name}?token={server.token}")
    page.wait_for_function("() => window.jupyterapp?.shell?.currentWidget?.context")
    assert page.evaluate(_RUN)
    explorer = page.locator(".nx[data-ready]")
    explorer.wait_for(timeout=60_000)
    assert painted(explorer.locator(".nx-timeline canvas")) > 1000
    assert not page.locator(REPORT).is_visible()
    explorer.evaluate("e => e.scrollIntoView()")
    shoot(page, "notebook7-light-1600")
    page.evaluate(_END)
