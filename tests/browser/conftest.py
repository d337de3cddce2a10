"""One server and one browser for the tier; no Chromium is a skip that says so, and a failure in CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser._lab import WINDOW, Lab, Trouble
from tests.browser._server import ROOT, Server, jupyterlab

SCREENSHOTS = ROOT / "build" / "screenshots"
# Of a container: no sandbox, no GPU; and nothing that a browser does of its own accord.
_SWITCHES = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        message = "no Chromium on this machine: `apt-get install chromium`, then `make test-browser`"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=_SWITCHES)
        yield found
        found.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with jupyterlab(tmp_path_factory.mktemp("jupyter")) as found:
        yield found


@pytest.fixture(scope="session")
def _trouble() -> Trouble:
    return Trouble()


@pytest.fixture(scope="session")
def _lab(browser: Browser, server: Server, _trouble: Trouble) -> Lab:
    page = browser.new_page(viewport={"width": WINDOW[0], "height": WINDOW[1]})
    _trouble.watch(page)
    found = Lab(server, page)
    found.start()
    return found


@pytest.fixture
def lab(_lab: Lab, _trouble: Trouble) -> Iterator[Lab]:
    """The shared page; the notebook a test opens is closed after it."""
    _trouble.seen.clear()
    yield _lab
    _lab.usual()
    _lab.close()
    assert _trouble.seen == []


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own, without JupyterLab."""
    trouble = Trouble()
    found = browser.new_page(viewport={"width": 1600, "height": 1000})
    trouble.watch(found)
    yield found
    found.close()
    assert trouble.seen == []


@pytest.fixture
def shoot() -> Callable[[Page, str], Path]:
    """Keep a picture for people to look at."""

    def take(page: Page, name: str) -> Path:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        page.screenshot(path=path)
        return path

    return take
