"""`neuron_lab.compare` on the emulated device: what it finds, what it refuses, and that nothing is left behind."""

from __future__ import annotations

import copy
import gc
import itertools
import os
import random
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._dynamo import utils

import neuron_lab
from neuron_lab import UsageProblem, _compare, device
from neuron_lab._pace import Pace
from neuron_lab.emulator import compiler, dispatch
from tests.emulated import DEVICE, neff_cache, nothing_stays_behind  # noqa: F401  # fixtures

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"
    ),  # PyTorch's own import
    pytest.mark.filterwarnings(
        "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
    ),  # Dynamo's look
]


@pytest.fixture(autouse=True)
def few_first_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compare, "_FIRST_CALLS", 2)


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    return nn.Sequential(*layers).to(DEVICE)


def held(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}


def test_a_model_is_measured_both_ways() -> None:
    model, x = network(), torch.randn(5, 4, device=DEVICE)
    ticks = iter(range(0, 10**12, 1_000_000))
    found = neuron_lab.compare(model, x, rounds=6, clock=lambda: next(ticks))
    trial = found.trial
    assert trial.label == "Sequential" and trial.emulated
    assert trial.eager.warm_ns == trial.compiled.warm_ns and set(trial.eager.warm_ns) == {1_000_000}
    assert len(trial.eager.warm_ns) >= 6
    assert trial.compiled.made >= 2 and trial.compiled.compile_ns > 0 and trial.compiled.neffs < trial.eager.neffs
    assert trial.graphs == 1 and not trial.breaks
    rows = {row.name: row for row in trial.outputs}
    assert {"result", "1.running_mean", "1.running_var", "1.num_batches_tracked"} == rows.keys()
    assert all(row.max_abs < 1e-5 for row in rows.values())
    assert trial.eager.peak_bytes > 0 and found.break_even is None


class Halved(Pace):
    """A machine that was at half its speed all the time."""

    def slowness(self, begun: int, ended: int) -> float | None:
        return 2.0


def test_times_are_as_without_other_work_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compare, "Pace", Halved)
    monkeypatch.setattr(_compare._Bench, "real", True)
    ticks = itertools.count(0, 1_000_000)
    model, x = network().eval(), torch.randn(5, 4, device=DEVICE)
    found = neuron_lab.compare(model, x, rounds=5, clock=lambda: next(ticks))
    trial = found.trial
    assert {*trial.eager.warm_ns, *trial.compiled.warm_ns, trial.eager.cold_ns, trial.reload_ns} == {500_000}
    assert trial.slowness == 2.0 and "slowed calls 2.00×" in found.to_text()


def test_a_clock_of_ones_own_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compare, "Pace", Halved)
    monkeypatch.setattr(Halved, "slowness", lambda *_: None)
    monkeypatch.setattr(Halved, "__enter__", lambda _: pytest.fail("measures the machine"))
    took = itertools.cycle([400_000, 100_000, 100_000, 300_000, 100_000])
    now = 0

    def clock() -> int:
        nonlocal now
        now += next(took)
        return now

    model, x = network().eval(), torch.randn(5, 4, device=DEVICE)
    trial = neuron_lab.compare(model, x, rounds=20, clock=clock).trial
    assert len(trial.eager.warm_ns) == len(trial.compiled.warm_ns) == 20  # all that were asked for, in batches of 5
    assert set(trial.eager.warm_ns) == {400_000, 100_000, 300_000} and trial.slowness is None


def test_the_collector_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = network().eval(), torch.randn(5, 4, device=DEVICE)
    neuron_lab.compare(model, x, rounds=5)
    assert gc.get_freeze_count() == 0 and gc.isenabled()
    gc.freeze()
    try:
        kept = gc.get_freeze_count()
        neuron_lab.compare(model, x, rounds=5)
        assert gc.get_freeze_count() > kept // 2  # some have died
    finally:
        gc.unfreeze()


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_NEURONX_NEFF_CACHE_DIR", str(tmp_path))
    model, x = network(), torch.randn(6, 4, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    compiled = torch.compile(model[0], backend="neuron")
    compiled(x)
    files, before = sorted(tmp_path.rglob("*")), held(model)
    reasons, counters = list(utils.graph_break_reasons), copy.deepcopy(utils.counters)
    host, python = torch.get_rng_state(), random.getstate()
    loaded = device.loaded_neffs()

    @torch.compiler.disable
    def noise() -> float:
        return random.random()

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), torch.ones(6, 3, device=DEVICE)) + noise()
        loss.backward()
        optimizer.step()
        return loss

    with torch.enable_grad():
        found = neuron_lab.compare(step, rounds=5)
    assert {"result", "0.weight", "0.weight.grad"} <= set(found.outputs["name"])
    assert found.trial.breaks
    assert sorted(tmp_path.rglob("*")) == files and os.environ["TORCH_NEURONX_NEFF_CACHE_DIR"] == str(tmp_path)
    assert device.loaded_neffs() == loaded and any(neff.op.startswith("graph::") for neff in loaded)
    assert torch.equal(torch.get_rng_state(), host) and random.getstate() == python
    for name, tensor in held(model).items():
        assert torch.equal(tensor, before[name]), name
    assert all(parameter.grad is None for parameter in model.parameters()) and not optimizer.state
    assert utils.graph_break_reasons == reasons and utils.counters == counters
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(x)
    assert torch.is_grad_enabled() and torch.get_default_device() == torch.device("cpu")


def test_a_first_call_is_cold_even_where_the_program_has_run_before() -> None:
    model, x = network().eval(), torch.randn(5, 4, device=DEVICE)
    model(x)
    history = device.compile_history()
    ticks = iter(range(0, 10**12, 1_000_000))
    trial = neuron_lab.compare(model, x, rounds=5, clock=lambda: next(ticks)).trial
    assert trial.eager.made == trial.eager.neffs > 0 and trial.compiled.made == 1
    assert trial.eager.cold_runs == trial.compiled.cold_runs == 2
    assert device.compile_history() == history
    with neuron_lab.profile() as again:
        model(x)
    assert not again.summary.neffs_compiled and not again.summary.neffs_loaded


def test_gradients_of_a_loss() -> None:
    model, x = network().eval(), torch.randn(5, 4, device=DEVICE)
    model[0].weight.grad = torch.ones(8, 4, device=DEVICE)
    found = neuron_lab.compare(lambda: model(x).square().mean(), train=True, rounds=5, label="loss")
    rows = found.outputs.set_index("name")
    assert {"0.weight.grad", "3.bias.grad", "result"} <= set(rows.index)
    assert (rows["max_abs"] < 1e-5).all()
    assert model[0].weight.grad is not None and bool((model[0].weight.grad == 1).all())
    assert "graph::" not in found.to_text()


def test_graph_breaks_are_told_with_their_lines() -> None:
    x = torch.ones(3, device=DEVICE)

    def program(x: Tensor) -> Tensor:
        y = x + 1
        if y.sum() > 0:
            y = y * 2
        print(end="")
        return y + 1

    for _ in range(2):  # the first leaves nothing that keeps Dynamo from the second
        trial = neuron_lab.compare(program, x, rounds=5).trial
        branch, printed = trial.breaks
        assert "test_compare_on_device.py line" in branch.where and "branch" in branch.reason.lower()
        assert "builtin" in printed.reason
        assert trial.graphs == trial.compiled.made == 3


def _counts() -> Callable[[], Tensor]:
    calls: list[int] = []

    def program() -> Tensor:
        calls.append(1)
        return torch.ones(2, device=DEVICE) * len(calls)

    return program


def _grows() -> nn.Module:
    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lines = 0
            self.register_buffer("kept", torch.ones(0, 2, device=DEVICE))

        def forward(self) -> Tensor:
            self.lines += 1
            self.kept = torch.cat([self.kept, torch.ones(self.lines, 2, device=DEVICE)])
            return self.kept

    return Cache()


def _is_compiled() -> Callable[[], object]:
    compiled = torch.compile(lambda x: x * 3 + 1, backend="neuron")
    return lambda: compiled(torch.ones(2, device=DEVICE))


def _is_lazy() -> Callable[[], object]:
    layer = nn.LazyLinear(3)
    return lambda: layer(torch.ones(2, 2, device=DEVICE))


REFUSED: dict[str, tuple[Callable[[], Callable[[], object]], bool, str]] = {
    "state": (_counts, False, "two eager calls give different values of result"),
    "growth": (_grows, False, "two eager calls give different values of"),
    "compiled": (_is_compiled, False, "the program is compiled already, an eager call of it ran graph::"),
    "lazy": (_is_lazy, False, "a lazy module has no parameters before its first call"),
    "host": (lambda: lambda: torch.ones(2) + 1, False, "nothing ran on the device"),
    "no loss": (lambda: lambda: torch.ones(2, device=DEVICE), True, "train needs a loss"),
    "no value": (lambda: lambda: None, True, "train needs a loss.*NoneType .a cell gives the value of its last line"),
    "kinds": (
        lambda: lambda: torch.ones(2 if torch.compiler.is_compiling() else 3, device=DEVICE) + 1,
        False,
        r"result is torch.float32 \[3\] eager, torch.float32 \[2\] compiled",
    ),
}


@pytest.mark.parametrize(("make", "train", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_compared_is_refused(
    make: Callable[[], Callable[[], object]], train: bool, message: str
) -> None:
    state = torch.get_rng_state()
    with pytest.raises(UsageProblem, match=f"not comparable: {message}"):
        neuron_lab.compare(make(), train=train, rounds=5)
    assert torch.equal(torch.get_rng_state(), state)


def test_an_interrupt_while_it_compiles_leaves_nothing_to_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    x = torch.ones(3, 7, device=DEVICE)
    started, really = threading.Event(), compiler.compile

    def slow(*arguments: Any) -> Any:
        started.set()
        time.sleep(0.5)
        return really(*arguments)

    def program() -> Tensor:
        monkeypatch.setattr(compiler, "compile", slow)
        threading.Thread(target=lambda: started.wait() and signal.raise_signal(signal.SIGINT)).start()
        return x.tan()

    history = device.compile_history()
    with pytest.raises(KeyboardInterrupt):
        neuron_lab.compare(program, rounds=5)
    dispatch.settle()
    assert device.compile_history() == history
    assert list(tmp_path.iterdir()) == []


def test_a_result_is_no_program() -> None:
    with pytest.raises(UsageProblem, match=r"was given a Tensor: write compare\(model, x\), not compare\(model\(x\)\)"):
        neuron_lab.compare(torch.ones(2, device=DEVICE))  # type: ignore[arg-type]


def test_a_buffer_that_is_replaced_and_an_input_that_is_resized_are_as_before() -> None:
    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(2, device=DEVICE))
            self.register_buffer("last", None)

        def forward(self, x: Tensor) -> Tensor:
            self.mean = self.mean * 0.9 + x[:2]
            self.last = x * 2
            return self.mean.sum()

    model, x = Mean(), torch.ones(4, device=DEVICE)
    mean = model.mean
    rows = neuron_lab.compare(model, x, rounds=5).outputs
    assert set(rows["name"]) == {"result", "mean", "last"} and (rows["max_abs"] < 1e-6).all()
    assert model.mean is mean and bool((mean == 0).all()) and model.last is None

    @torch.compiler.disable
    def resized() -> Tensor:
        return x.resize_(2, 3).zero_() + 1

    neuron_lab.compare(resized, rounds=5)
    assert x.shape == (4,) and bool((x == 1).all())


def test_a_graph_from_before_can_still_go_backward() -> None:
    model, x = nn.Linear(4, 3).to(DEVICE), torch.ones(2, 4, device=DEVICE)
    expected = torch.autograd.grad(model(x).square().sum(), model.weight)[0].cpu()
    loss = model(x).square().sum()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def program() -> Tensor:
        optimizer.zero_grad()
        current = model(x).square().sum()
        current.backward()
        optimizer.step()
        return current

    neuron_lab.compare(program, rounds=5)
    loss.backward()
    assert torch.equal(model.weight.grad.cpu(), expected)
    stale = model(x).square().sum()
    program()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        stale.backward()


def test_names_of_the_program_may_hold_themselves_or_nothing_yet() -> None:
    x, loop = torch.ones(4, device=DEVICE), {}
    loop["itself"] = [loop]

    def program() -> Tensor:
        return x * len(loop) if loop else later  # noqa: F821

    assert neuron_lab.compare(program, rounds=5).trial.graphs == 1
    later = x
    del later


def test_dynamo_leaves_no_names_in_the_program_s_globals() -> None:
    names: dict[str, object] = {"x": torch.ones(4, device=DEVICE)}
    exec("def program(): return x * 2", names)
    found = neuron_lab.compare(names["program"], rounds=5)  # type: ignore[arg-type]
    assert found.trial.graphs == 1
    torch.ones(1, device=DEVICE) + 1  # the device holds the code that ran its latest op
    gc.collect()
    assert not [name for name in names if name.startswith(("__compiled_fn", "__builtins_dict"))]


def test_nor_after_a_graph_break_each_time_it_is_compared() -> None:
    names: dict[str, Any] = {"x": torch.ones(4, device=DEVICE), "torch": torch}
    exec(
        "def inner(x):\n    y = x + 1\n    torch._dynamo.graph_break()\n    return y * 2\ndef program(): return inner(x)",
        names,
    )
    for _ in range(2):
        assert neuron_lab.compare(names["program"], rounds=5).trial.graphs == 2
        assert not [name for name in names if name.startswith(("__compiled_fn", "__resume_at"))]
    fast = torch.compile(names["inner"], backend="neuron")
    assert fast(names["x"]).tolist() == [4.0] * 4
    neuron_lab.compare(names["program"], rounds=5)
    graphs = utils.counters["stats"]["unique_graphs"]
    assert fast(names["x"]).tolist() == [4.0] * 4 and utils.counters["stats"]["unique_graphs"] == graphs


def test_what_only_begins_when_called_is_refused() -> None:
    async def later() -> Tensor:
        return torch.ones(2, device=DEVICE)

    def one_by_one() -> Iterator[Tensor]:
        yield torch.ones(2, device=DEVICE)

    for program in (later, one_by_one):
        with pytest.raises(UsageProblem, match="runs nothing yet"):
            neuron_lab.compare(program)


@pytest.mark.parametrize("rounds", [4, 7.5, "20"])
def test_rounds_that_are_too_few_or_no_number(rounds: Any) -> None:
    with pytest.raises(UsageProblem, match=re.escape(f"rounds={rounds!r} is no whole number from 5 on")):
        neuron_lab.compare(lambda: None, rounds=rounds)


def test_an_error_of_the_program_passes_through_and_state_is_put_back() -> None:
    model = network()
    before = held(model)

    def program() -> None:
        with torch.no_grad():
            model[0].weight.zero_()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        neuron_lab.compare(program)
    assert torch.equal(model[0].weight.cpu(), before["0.weight"])
