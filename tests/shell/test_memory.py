"""`%neuron memory` on the emulated device: names of live tensors, and letting go of what the notebook keeps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from tests.emulated import neff_cache, nothing_stays_behind
from tests.shell.conftest import end

__all__ = ["neff_cache", "nothing_stays_behind"]


@pytest.fixture
def ip(capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell: Any = InteractiveShell.instance(config=config)
    shell.run_cell("%load_ext neuron_lab\nimport torch\nfrom torch import nn")
    yield shell
    shell.run_cell("%neuron memory --free")
    shell.run_line_magic("unload_ext", "neuron_lab")
    shell.reset()
    end(shell)


def run(ip: Any, cell: str) -> Any:
    return ip.run_cell(cell, store_history=True)


def names(ip: Any) -> dict[str, str]:
    """First name of every block to its kind."""
    from neuron_lab import memory

    return {item.names[0]: item.kind for item in memory().holdings if item.names}


def test_variables_modules_optimizer_and_containers_have_their_names(ip: Any) -> None:
    run(
        ip,
        "net = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).to('neuron')\n"
        "opt = torch.optim.Adam(net.parameters())\n"
        "x = torch.ones(2, 4, device='neuron')\n"
        "state = {'best': [torch.ones(5, device='neuron')]}\n"
        "loss = net(x).sum(); loss.backward(); opt.step()",
    )
    found = names(ip)
    assert found["net.0.weight"] == "parameters"
    assert found["net.0.weight.grad"] == "gradients"
    assert found["opt.state[net.0.weight]['exp_avg']"] == "optimizer state"
    assert found["x"] == "other"
    assert found["state['best'][0]"] == "other"
    assert found["loss"] == "activations"


def test_objects_that_fail_when_looked_at_and_names_that_are_none(ip: Any) -> None:
    run(
        ip,
        "class Liar:\n"
        "    @property\n"
        "    def __class__(self): raise RuntimeError('no class')\n"
        "class Broken(dict):\n"
        "    def items(self): raise RuntimeError('no items')\n"
        "liar, broken = Liar(), Broken(kept=torch.ones(5, device='neuron'))\n"
        "globals()[1] = liar",
    )
    assert names(ip) == {"broken['kept']": "other"}
    assert run(ip, "%neuron memory --free").success
    run(ip, "del globals()[1]")


def test_views_of_one_block_are_one_holding(ip: Any) -> None:
    run(ip, "base = torch.ones(6, device='neuron'); part = base[:2]")
    from neuron_lab import memory

    (item,) = [item for item in memory().holdings if "base" in item.names]
    assert set(item.names) == {"base", "part"}
    assert (item.bytes, item.shape) == (24, (6,))


def test_what_a_graph_keeps_is_named_after_the_result(ip: Any) -> None:
    run(ip, "w = torch.ones(30, 30, device='neuron', requires_grad=True)\nlosses = []")
    run(
        ip,
        "for _ in range(3):\n    h = (w * 2).tanh()\n    hidden = h * h\n    losses.append((hidden * hidden).sum())\ndel h, hidden",
    )
    assert {name: kind for name, kind in names(ip).items() if name.startswith("graph")} == {
        f"graph of losses[{index}]": "activations" for index in range(3)
    }
    run(
        ip,
        "state = w\nfor _ in range(3000):\n    state = state * 1\nstates = [state * 1 for _ in range(1500)]\ndel state",
    )
    begun = time.process_time()
    names(ip)
    assert time.process_time() - begun < 3  # the shared part of 1500 graphs is walked once


def test_out_is_named_and_freed_and_variables_stay(ip: Any) -> None:
    run(ip, "mine = torch.ones(3, device='neuron')")
    run(ip, "torch.ones(1000, device='neuron')")
    assert "Out[2]" in names(ip)
    before = ip.user_ns["torch"].neuron.memory_allocated()
    page = run(ip, "%neuron memory --free").result
    assert page.freed >= 4000
    assert ip.user_ns["torch"].neuron.memory_allocated() <= before - 4000
    assert "Out[2]" not in names(ip)
    assert "mine" in names(ip)
    assert ip.user_ns["mine"].shape == (3,)


def test_semicolon_shows_nothing(ip: Any) -> None:
    run(ip, "torch.ones(1000, device='neuron')")
    result = run(ip, "%neuron memory --free;")
    assert result.success and result.result is None
    assert "Out[2]" not in names(ip)


def test_users_own_underscore_stays(ip: Any) -> None:
    run(ip, "_ = torch.ones(7, device='neuron')\n_9 = torch.ones(8, device='neuron')")
    assert run(ip, "%neuron memory --free").success
    assert ip.user_ns["_"].shape == (7,)
    assert ip.user_ns["_9"].shape == (8,)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_last_traceback_is_named_and_freed(ip: Any) -> None:
    run(ip, "def f():\n    big = torch.ones(5000, device='neuron')\n    raise ValueError")
    run(ip, "f()")
    found = names(ip)
    assert "last traceback: big of f()" in found
    page = run(ip, "%neuron memory --free").result
    assert page.freed >= 20_000
    assert "last traceback: big of f()" not in names(ip)


def test_text_and_html(ip: Any) -> None:
    run(ip, "many = {f'k{n}': torch.ones(n, device='neuron') for n in range(1, 60)}")
    page = run(ip, "page = %neuron memory\npage").result
    bundle = page._repr_mimebundle_()
    lines = bundle["text/plain"].splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) <= 40
    assert "many['k59']" in bundle["text/plain"]
    assert lines[-1].startswith("… 39 more (")
    assert "k59" in bundle["text/html"]
    assert page.frame.name.tolist()[0].startswith("many")


def test_a_list_that_grows_is_one_row_and_comes_first(ip: Any) -> None:
    run(ip, "one = torch.ones(100, device='neuron')\nkept, two = [], [one * 2, one * 3]")
    run(ip, "for n in range(4):\n    kept.append(torch.ones(10 * n + 50, device='neuron'))")
    page = run(ip, "page = %neuron memory\npage").result
    first, *others = page.to_text().splitlines()[3:]
    assert first.split() == "kept[…], 4× 1.02 KiB other 4 shapes".split()
    assert sorted(line.split()[0] for line in others) == ["one", "two[0]", "two[1]"]
    assert "kept[…], 4×" in page.to_html()


def test_looking_changes_nothing(ip: Any) -> None:
    run(ip, "x = torch.ones(3, device='neuron')")
    before = set(ip.user_ns)
    for _ in range(2):
        names(ip)
    assert set(ip.user_ns) == before


def test_mistake_is_one_line(ip: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert not run(ip, "%neuron memory --nope").success
    assert "unrecognized arguments: --nope" in capsys.readouterr().err
