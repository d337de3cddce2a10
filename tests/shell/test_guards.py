"""On the emulated device: why torch.compile traced a function again, by the guard that failed and the line that called."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from torch._dynamo.callback import callback_handler
from traitlets.config import Config

import neuron_lab
from tests.emulated import neff_cache, nothing_stays_behind
from tests.shell.conftest import end

__all__ = ["neff_cache", "nothing_stays_behind"]

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"
    ),  # PyTorch's own import
    pytest.mark.filterwarnings(
        "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
    ),  # Dynamo's look
]

SETUP = """
import torch
from torch import nn
at = lambda *sizes: torch.ones(*sizes, device="neuron")
K = 2

@torch.compile(backend="neuron")
def f(x, n=1, *, wide=False):
    return x * n * K + wide

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2
    def forward(self, x):
        return x * self.scale

net = torch.compile(Net(), backend="neuron")
"""


@pytest.fixture
def ip() -> Iterator[Any]:
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    shell: Any = InteractiveShell.instance(config=config)
    torch._dynamo.reset()
    handlers = list(logging.getLogger("torch._dynamo").handlers)
    shell.run_cell(f"%load_ext neuron_lab\n{SETUP}", store_history=True)
    yield shell
    shell.run_cell("%neuron memory --free")
    shell.run_line_magic("unload_ext", "neuron_lab")
    assert not callback_handler.start_callbacks and not callback_handler.end_callbacks
    assert logging.getLogger("torch._dynamo").handlers == handlers
    torch._dynamo.reset()
    # Dynamo keeps the namespace and takes out itself what it put there; what the test put there goes now.
    for name in [name for name in shell.user_ns if not name.startswith("_")]:
        del shell.user_ns[name]
    end(shell)


def changed(ip: Any, cell: str) -> list[tuple[str, str]]:
    """(line, what the guard said) of every function traced again."""
    result = ip.run_cell(f"%%neuron profile -q\n{cell}", store_history=True)
    assert result.success
    frame = neuron_lab.last().graphs
    return [(row.where, row.changed) for row in frame.itertuples() if row.reasons]


@pytest.mark.parametrize(
    ("cell", "line", "text"),
    [
        ("f(at(4))\nf(at(6))", 3, "dim 0 of x: 4 → 6"),
        ("f(at(4))\nf(at(4, 4))", 3, "rank of x: 1 → 2"),
        ("f(at(4))\nf(at(4).to(torch.bfloat16))", 3, "dtype of x: float32 → bfloat16"),
        ("f(at(4))\n\nf(at(4).requires_grad_())", 4, "requires_grad of x: False → True"),
        ("for n in (2, 3):\n    f(at(4), n)", 3, "n == 2 no longer holds"),
        ("for flag in (True, False):\n    f(at(4), wide=flag)", 3, "wide == True no longer holds"),
        ("f(at(4))\nK = 5\nf(at(4))", 4, "global K == 2 no longer holds"),
        ("f(at(4))\nwith torch.no_grad():\n    f(at(4))", 4, "grad mode changed"),
        ("f(at(4))\nf(at(4).cpu())", 3, "device of x: neuron → cpu"),
        ("net(at(4))\nnet.scale = 3\nnet(at(4))", 4, "self.scale == 2 no longer holds"),
    ],
)
def test_what_changed_and_where(ip: Any, cell: str, line: int, text: str) -> None:
    assert changed(ip, cell) == [(f"In[2] line {line}", text)]
    again = neuron_lab.recompiles()
    assert f"In[2] line {line}" in again.text and text in again.text
    assert "torch.compile: 1 traced again" in again.text
    assert neuron_lab.last().graphs.fix.iloc[-1] in " ".join(again.text.split())


def test_the_limit_is_told_with_the_last_cause(ip: Any, caplog: pytest.LogCaptureFixture) -> None:
    found = changed(ip, "for size in range(3, 15):\n    f(at(size))")
    assert [text for _, text in found[:7]] == [f"dim 0 of x: {size} → {size + 1}" for size in range(3, 10)]
    (last,) = found[7:]
    assert last[1].startswith("recompile_limit of 8 reached, from here on it runs eagerly; last: dim 0 of x: 10 → 11")
    assert last[0].startswith("In[1] line ")  # of the function: Dynamo does not say who called
    told = neuron_lab.recompiles().text
    assert "raises the limit" in told and "torch.compile: 7 traced again" in told


def test_each_profile_has_its_own_and_a_warm_one_none(ip: Any) -> None:
    assert changed(ip, "f(at(4))") == []
    assert list(neuron_lab.last().graphs.function) == ["f"]
    assert changed(ip, "f(at(4))") == []
    assert neuron_lab.last().graphs.empty
    assert changed(ip, "torch._dynamo.reset()\nf(at(4))\nf(at(5))") == [("In[4] line 4", "dim 0 of x: 4 → 5")]


def test_more_than_dynamo_keeps_is_told(ip: Any) -> None:
    utils = torch._dynamo.utils
    utils.set_compilation_metrics_limit(3)
    try:
        assert len(changed(ip, "for n in range(5):\n    f(at(2), n)")) == 3
        assert "PyTorch keeps only the newest of these: there were more" in neuron_lab.recompiles().text
    finally:
        utils.set_compilation_metrics_limit(utils.DEFAULT_COMPILATION_METRICS_LIMIT)
