"""A fresh shell for every test, and proof that nothing stays behind in it."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

import neuron_lab
from tests.fakes.device import FakeDevice, serve


@dataclass
class Shell:
    """An IPython shell with a pretended device, and what a person would see of it."""

    ip: Any  # an InteractiveShell, which is typed in part
    device: FakeDevice
    errors: list[str] = field(default_factory=list)

    def run(self, cell: str, *, store_history: bool = True) -> ExecutionResult:
        result: ExecutionResult = self.ip.run_cell(cell, store_history=store_history)
        return result

    @property
    def shown(self) -> list[dict[str, Any]]:
        """Mime bundles of everything displayed."""
        return [output["data"] for output in self.ip.display_pub.outputs]

    @property
    def reports(self) -> list[str]:
        return [data["text/plain"] for data in self.shown if "nrn" in data.get("text/html", "")]

    @property
    def profile(self) -> neuron_lab.Profile:
        return neuron_lab.last()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    pretended = FakeDevice()
    serve(pretended, monkeypatch)
    return pretended


@pytest.fixture
def shell(fake: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    ip: Any = InteractiveShell.instance(config=config)
    ip.display_pub = CapturingDisplayPublisher()  # type: ignore[no-untyped-call]
    result = Shell(ip, fake)
    # What the front end would get as the traceback.
    monkeypatch.setattr(ip, "_showtraceback", lambda kind, value, lines: result.errors.append("\n".join(lines)))
    monkeypatch.setattr(ip, "show_usage_error", lambda error: result.errors.append(f"UsageError: {error}"))
    before = hooks(ip)
    ip.user_ns["dev"] = fake
    ip.run_line_magic("load_ext", "neuron_lab")
    yield result
    assert fake.sessions == [], "a profile is still recording"
    ip.run_line_magic("unload_ext", "neuron_lab")
    assert hooks(ip) == before, "a hook stayed behind"
    end(ip)


def end(ip: Any) -> None:
    """No shell is here any more, and none has anything to do at exit: collecting garbage for each would take minutes."""
    atexit.unregister(ip.atexit_operations)
    InteractiveShell.clear_instance()


def hooks(ip: Any) -> dict[str, list[Any]]:
    """Everything the extension hangs into a shell."""
    return {
        "header": list(ip.input_transformers_cleanup),
        "ast": list(ip.ast_transformers),
        "pre": list(ip.events.callbacks["pre_run_cell"]),
        "post": list(ip.events.callbacks["post_run_cell"]),
        "matchers": list(ip.Completer.custom_matchers),
        "traceback": [vars(ip.InteractiveTB).get("structured_traceback")],
        "magics": sorted(name for kind in ("line", "cell") for name in ip.magics_manager.magics[kind]),
    }
