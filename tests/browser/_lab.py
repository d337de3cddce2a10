"""A page of JupyterLab, driven through its application object rather than its menus."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nbformat
from playwright.sync_api import Error, Locator, Page

from tests.browser._server import Server

# JupyterLab asks every new kernel for its debugger's state and a subshell, and says this when the notebook is closed before the answer.
_CLOSED_EARLY = re.compile("Canceled future for (debug|create_subshell)_request message before replies were done")
# The shortcuts of Notebook 7.6 fall over a plugin whose settings are not loaded yet, in an empty notebook too.
_TOO_EARLY = "Cannot read properties of undefined (reading 'schema')"
# anywidget, when the page was busy for two seconds; what a live view hears does not go through it.
_GAVE_UP = "[anywidget] Failed to initialize model."
WINDOW = 1600, 1100  # pixels of CSS
_OPEN = """async ([path, factory]) => {
  const app = window.jupyterapp;
  await app.restored;
  const panel = await app.commands.execute('docmanager:open', {path, factory});
  await panel.context.ready;
  await panel.sessionContext.ready;
  app.shell.collapseLeft();
  window.__notebook = panel;
}"""
_RUN_ALL = "async () => window.jupyterapp.commands.execute('notebook:run-all-cells')"
_RUN_ONE = """async (index) => {
  window.__notebook.content.activeCellIndex = index;
  return window.jupyterapp.commands.execute('notebook:run-cell');
}"""
_BEGIN = """(index) => {
  window.__notebook.content.activeCellIndex = index;
  window.__running = window.jupyterapp.commands.execute('notebook:run-cell');
}"""
_END = "async () => window.__running"
_OUTPUTS = "() => window.__notebook.content.widgets.map(w => w.model.sharedModel.toJSON().outputs ?? [])"
# First what asks the kernel for something, then the kernel.
_CLOSE = """async () => {
  const {id} = window.__notebook.sessionContext.session;
  window.__notebook.dispose();
  await window.jupyterapp.serviceManager.sessions.shutdown(id);
}"""
_THEME = "async (theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
# The new colours are there; then JupyterLab hides all for a frame, and its splash screen fades.
_THEMED = """(theme) => document.body.dataset.jpThemeName === theme && window.jupyterapp.shell.isVisible
  && !document.querySelector('#jupyterlab-splash')"""
# JupyterLab lays itself out some frames after the window, its right edge last.
_LAID_OUT = """([width, height]) => {
  const {right} = document.querySelector('.jp-SideBar.jp-mod-right').getBoundingClientRect();
  const status = document.querySelector('#jp-bottom-panel').getBoundingClientRect();
  return innerWidth === width && innerHeight === height && Math.abs(right - width) < 1 && Math.abs(status.bottom - height) < 1;
}"""


@dataclass
class Trouble:
    """What must not happen in any page: errors, and requests that leave this machine."""

    seen: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("pageerror", self._error)
        page.on("console", lambda message: self._console(message.type, message.text))
        page.on("request", lambda request: self._request(request.url))

    def _error(self, error: Error) -> None:
        too_early = error.message == _TOO_EARLY and "/notebook_core." in (error.stack or "")
        if not (too_early or error.message == _GAVE_UP or _CLOSED_EARLY.search(error.message)):
            self.seen.append(f"page error: {error}")

    def _console(self, kind: str, text: str) -> None:
        if kind == "error" and not _CLOSED_EARLY.search(text):
            self.seen.append(f"console error: {text}")

    def _request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1":
            self.seen.append(f"request to {url}")


def written(server: Server, *cells: str) -> Path:
    """The file of a new notebook of these cells."""
    notebook: Any = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]  # type: ignore[no-untyped-call]
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = server.folder / f"{secrets.token_hex(4)}.ipynb"
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
    return path


@dataclass
class Lab:
    """One page; notebooks are opened in it one after the other, each with a kernel of its own."""

    server: Server
    page: Page

    def start(self) -> None:
        self.page.goto(f"{self.server.url}/lab?token={self.server.token}&reset")
        self.page.wait_for_function("() => window.jupyterapp !== undefined")

    def open(self, *cells: str) -> None:
        """A new notebook of these cells."""
        self.reopen(written(self.server, *cells))

    def reopen(self, path: Path) -> None:
        """A notebook that is there, with a new kernel."""
        self.page.evaluate(_OPEN, [path.name, "Notebook"])

    def run(self) -> None:
        """Run all cells; fails when one does."""
        assert self.page.evaluate(_RUN_ALL), f"a cell failed: {self.outputs()}"

    def run_cell(self, index: int) -> None:
        """Run one cell; fails when it does."""
        assert self.page.evaluate(_RUN_ONE, index), f"the cell failed: {self.outputs()[index]}"

    @contextmanager
    def running_cell(self, index: int) -> Iterator[None]:
        """Run one cell meanwhile, and wait for it; fails when it does."""
        self.page.evaluate(_BEGIN, index)
        yield
        assert self.page.evaluate(_END), f"the cell failed: {self.outputs()[index]}"

    def outputs(self) -> list[list[dict[str, Any]]]:
        """Of each cell, as they would be saved."""
        found: list[list[dict[str, Any]]] = self.page.evaluate(_OUTPUTS)
        return found

    def save(self) -> Path:
        """The notebook's file, saved."""
        path = self.page.evaluate(
            "async () => { await window.__notebook.context.save(); return window.__notebook.context.path }"
        )
        return self.server.folder / path

    def close(self) -> None:
        self.page.evaluate(_CLOSE)

    def theme(self, name: str) -> None:
        """ "Light" or "Dark"."""
        self.page.evaluate(_THEME, f"JupyterLab {name}")
        self.page.wait_for_function(_THEMED, arg=f"JupyterLab {name}")

    def usual(self) -> None:
        """The theme and the window as they were when the page was opened."""
        self.theme("Light")
        self.resize(WINDOW[0])

    def resize(self, width: int) -> None:
        """The window, in pixels of CSS."""
        self.page.set_viewport_size({"width": width, "height": WINDOW[1]})
        self._laid_out(width, WINDOW[1])

    @contextmanager
    def zoomed(self, zoom: float) -> Iterator[None]:
        """What a browser's zoom does: fewer or more pixels of CSS in the same window, of another size."""
        client = self.page.context.new_cdp_session(self.page)

        def show(ratio: float) -> None:
            width, height = (int(size / ratio) for size in WINDOW)
            metrics = {"width": width, "height": height, "deviceScaleFactor": ratio, "mobile": False}
            client.send("Emulation.setDeviceMetricsOverride", metrics)
            self._laid_out(width, height)

        show(zoom)
        try:
            yield
        finally:
            show(1)  # and no more: playwright, which believes that nothing has changed, would not set its own again

    def _laid_out(self, width: int, height: int) -> None:
        self.page.wait_for_function(_LAID_OUT, arg=[width, height])

    def frame(self) -> None:
        """Let views hear of what changed, and draw."""
        self.page.evaluate("() => new Promise(requestAnimationFrame)")

    def explorer(self, count: int = 1) -> Locator:
        """The last explorer, live, when there are `count`."""
        found = self.page.locator(".nx[data-ready]")
        found.nth(count - 1).wait_for(timeout=60_000)
        return found.nth(count - 1)
