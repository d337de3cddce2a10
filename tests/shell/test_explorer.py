"""When a profiled cell adds the explorer to its report."""

from __future__ import annotations

import os
from types import SimpleNamespace
from unittest import mock

import pytest

from neuron_lab.widgets import _show
from tests.shell.conftest import Shell

LIVE = {"report": "session of ", "last": "explorer of In[1]", "memory": "memory by name", "top": "cores"}
CELL = "%%neuron profile {}\ndev.run('aten::mm', device_ms=2)"
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def watched(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A kernel that Jupyter's server started."""
    monkeypatch.setattr(shell.ip, "kernel", SimpleNamespace(), raising=False)
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    monkeypatch.setattr(_show, "_shown", type(_show._shown)())
    return shell


def test_report_first_then_the_explorer(watched: Shell) -> None:
    watched.run(CELL.format(""))
    report, explorer = watched.shown
    assert "data-nrn-report" in report["text/html"]
    assert set(explorer) == {WIDGET, "text/plain"}
    assert explorer["text/plain"].startswith("<explorer of In[1]: ")


@pytest.mark.parametrize("options", ["--no-widget", "-q"])
def test_no_explorer_when_it_is_not_wanted(watched: Shell, options: str) -> None:
    watched.run(CELL.format(options))
    assert not [data for data in watched.shown if WIDGET in data]


def test_no_explorer_of_a_cell_that_did_nothing_there(watched: Shell) -> None:
    watched.run("%%neuron profile\n1")
    assert [set(data) for data in watched.shown] == [{"text/plain", "text/html"}]


def test_no_explorer_where_nobody_looks(shell: Shell) -> None:
    with mock.patch.dict(os.environ):
        os.environ.pop("JPY_SESSION_NAME", None)
        shell.run(CELL.format(""))
    assert len(shell.shown) == 1


def test_only_the_newest_explorers_keep_their_recording(watched: Shell) -> None:
    watched.run(CELL.format(""))
    (first,) = _show._shown
    for _ in range(_show._KEPT):
        watched.run(CELL.format(""))
    assert first not in _show._shown
    assert len(_show._shown) == _show._KEPT
    assert first._make is None


def test_a_cell_that_runs_again_closes_what_it_showed_before(watched: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for cell, run in (("a", "1"), ("b", "2"), ("a", "3"), ("a", "3")):
        parent = {"metadata": {"cellId": cell}, "header": {"msg_id": run}}
        monkeypatch.setattr(watched.ip.kernel, "get_parent", lambda parent=parent: parent, raising=False)
        watched.run(CELL.format(""))
        if run == "1":
            (first,) = _show._shown
    assert [view.place for view in _show._shown] == [("b", "2"), ("a", "3"), ("a", "3")]
    assert first.comm is None


@pytest.mark.parametrize("command", LIVE)
def test_commands_show_their_live_view_below_what_the_cell_shows(watched: Shell, command: str) -> None:
    watched.run(CELL.format("-q"))
    watched.run(f"%neuron {command}")
    (live,) = watched.shown
    assert set(live) == {WIDGET, "text/plain"}
    assert live["text/plain"].startswith(f"<{LIVE[command]}")


@pytest.mark.parametrize("cell", ["%neuron {} --no-widget", "x = %neuron {}", "%neuron {};", "%neuron {}\n3"])
@pytest.mark.parametrize("command", LIVE)
def test_no_live_view_of_what_is_not_shown_or_not_wanted(watched: Shell, command: str, cell: str) -> None:
    watched.run(CELL.format("-q"))
    watched.run(cell.format(command))
    watched.run("4")
    assert watched.shown == []


def test_comparison_has_its_live_view_too(watched: Shell) -> None:
    watched.run(CELL.format("-q -o before"))
    watched.run(CELL.format("--compare before"))
    _, explorer, _, pair = (data["text/plain"] for data in watched.shown)
    assert explorer.startswith("<explorer of In[2]:")
    assert pair.startswith("<explorer of ") and " → " in pair
