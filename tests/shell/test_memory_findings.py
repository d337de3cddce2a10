"""On the emulated device: what did not fit, and what only the notebook keeps alive, are told of the cell that did it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import neuron_lab
from neuron_lab.recording import dumps, loads
from neuron_lab.report import Finding, Report
from tests.emulated import hbm_limit, neff_cache, nothing_stays_behind
from tests.shell.conftest import end

__all__ = ["hbm_limit", "neff_cache", "nothing_stays_behind"]

MIB = 1 << 20
ROOM = 64 * MIB


@pytest.fixture
def ip(hbm_limit: Callable[[int], None], capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """A shell on a core with little room."""
    import torch

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    shell: Any = InteractiveShell.instance(config=config)
    shell.run_cell("%load_ext neuron_lab\nimport torch")
    hbm_limit(max(torch.neuron.memory_allocated(core) for core in range(4)) + ROOM)
    yield shell
    shell.run_cell("%neuron memory --free")
    shell.run_line_magic("unload_ext", "neuron_lab")
    shell.reset()
    end(shell)


def run(ip: Any, cell: str) -> None:
    """`mib(4)` is a tensor of 4 MiB, made in the line itself."""
    ip.run_cell(re.sub(r"mib\((\w+)\)", r"torch.zeros(\1 << 18, device='neuron')", cell), store_history=True)


def findings(ip: Any, cell: str) -> list[Finding]:
    """Those about memory."""
    run(ip, f"%%neuron profile -q\n{cell}")
    return [finding for finding in neuron_lab.last().findings if finding.code in ("NRN051", "NRN052", "NRN053")]


def test_value_that_only_out_keeps(ip: Any) -> None:
    (finding,) = findings(ip, "mib(4)")
    number = ip.execution_count - 1
    assert (finding.code, finding.where) == ("NRN053", f"In[{number}]")
    assert finding.message == f"only the notebook keeps 4 MiB (Out[{number}])"
    assert "%neuron memory --free" in finding.fix


def test_value_whose_graph_keeps_activations(ip: Any) -> None:
    run(ip, "net = torch.nn.Sequential(*[torch.nn.Linear(64, 64), torch.nn.ReLU()] * 4).to('neuron')")
    run(ip, "x = torch.ones(4096, 64).to('neuron')")
    (finding,) = findings(ip, "net(x).sum()")
    # Of four results of a ReLU the last is PyTorch's alone: Python cannot see it.
    assert f"3 MiB (Out[{ip.execution_count - 1}])" in finding.message
    run(ip, "%neuron memory --free")
    assert findings(ip, "loss = net(x).sum()\nloss * 1") == []  # the user's loss keeps the same


@pytest.mark.parametrize(
    "cell",
    [
        "mib(4);",
        "x = mib(4)",
        "x = mib(4)\nx",
        "x = {'a': [mib(4)]}\nx['a'][0][:9]",
        "mib(4).sum().item()",
        "torch.zeros(100, device='neuron')",
        "net = torch.nn.Linear(1000, 1000).to('neuron')\nnet",
    ],
    ids=["semicolon", "a name", "a name shown", "a view of a name", "a number", "little", "a module"],
)
def test_what_is_not_kept_by_the_notebook_alone_is_no_finding(ip: Any, cell: str) -> None:
    assert findings(ip, cell) == []


def test_value_of_an_earlier_cell_is_not_told_again(ip: Any) -> None:
    assert len(findings(ip, "mib(4)")) == 1
    assert findings(ip, "y = mib(4)") == []


def test_looking_is_for_cells_that_kept_something(ip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from neuron_lab import _notebook

    looked: list[object] = []
    monkeypatch.setattr(_notebook, "kept_by_history", lambda error: looked.append(error) or ())
    findings(ip, "x = mib(0) + 1; y = mib(4); del y")
    assert looked == []
    findings(ip, "x = mib(4)")
    assert len(looked) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_failed_function_keeps_its_variables(ip: Any) -> None:
    (finding,) = findings(ip, "def f():\n    big = mib(5)\n    raise ValueError\nf()")
    assert finding.code == "NRN053"
    assert finding.message == "only the notebook keeps 5 MiB (last traceback: big of f())"
    assert finding.fix == "%neuron memory --free lets go of it"


def test_what_did_not_fit_is_told_with_what_was_held(ip: Any) -> None:
    run(ip, "mine = mib(10)")
    number = ip.execution_count
    (finding,) = findings(ip, "mib(7)\nfirst = mib(20)\nsecond = mib(16)\nthird = mib(32)")
    assert (finding.code, finding.where) == ("NRN052", f"In[{number}] line 5")
    assert finding.message.startswith("no room for 32 MiB more: neuron:0 had ")
    assert f"20 MiB In[{number}] line 3 · 16 MiB line 4 · " in finding.message
    assert finding.message.endswith("from before")
    assert finding.fix.startswith("a smaller batch")
    text = neuron_lab.last().to_text()
    assert f"PARTIAL: stopped by OutOfMemoryError at In[{number}] line 5; what ran until then:" in text
    assert "NRN052" in text
    assert Report(loads(dumps(neuron_lab.last().recording))).findings == neuron_lab.last().findings


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_did_not_fit_because_the_notebook_keeps_so_much(ip: Any) -> None:
    run(ip, "mib(24)")
    number = ip.execution_count - 1
    (finding,) = findings(ip, "def step():\n    held = mib(16)\n    return mib(60)\nstep()")
    assert finding.code == "NRN052"
    assert finding.fix.startswith(f"%neuron memory --free gives back 40 MiB (Out[{number}] and 1 more); or a smaller")
    run(ip, "%neuron memory --free")
    assert findings(ip, "fits = mib(28)") == []  # filling it takes as much again


def test_first_of_all_and_also_when_the_program_goes_on(ip: Any) -> None:
    cell = "for n in (99, 98, 8):\n    try:\n        x = mib(n)\n    except torch.OutOfMemoryError:\n        pass"
    found = findings(ip, cell)
    assert [finding.code for finding in found] == ["NRN052"]
    assert found[0].message.startswith("no room for 98 MiB more (the last of 2 times)")
    assert not neuron_lab.last().summary.partial
    assert neuron_lab.last().findings[0].code == "NRN052"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_statement_is_told_as_well(ip: Any) -> None:
    run(ip, "def step():\n    held = mib(16)\n    return mib(60)")
    run(ip, "%neuron profile step()")
    finding = neuron_lab.last().findings[0]
    assert finding.code == "NRN052"
    assert "16 MiB (last traceback: held of step())" in finding.fix


@pytest.mark.parametrize("after", ["", "del x", "del x; y = mib(1)", "y = mib(9)"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_was_held_when_something_did_not_fit_is_in_the_peak(ip: Any, after: str) -> None:
    """Also when nothing else happened in the cell: its peak was told as 0 B."""
    import torch

    run(ip, "x = mib(4)")
    held = torch.neuron.memory_allocated()
    run(ip, f"%%neuron profile -q\ntry: mib(99)\nexcept torch.OutOfMemoryError: pass\n{after}")
    (curve,) = neuron_lab.last().report.curves
    assert curve.peak == sum(portion.bytes for portion in curve.portions) == held + (9 * MIB if "9" in after else 0)
    run(ip, "x = y = None")
