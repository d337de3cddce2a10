"""In which module and phase a call ran."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import neuron_lab
from neuron_lab._scopes import name_modules
from tests.emulated import DEVICE, recorded


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu() + x


class Net(nn.Module):
    """Blocks in a list, the first called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x: Tensor) -> Tensor:
        for block in (*self.blocks, self.blocks[0]):
            x = block(x)
        return x


@pytest.fixture
def net() -> Net:
    return Net().to(DEVICE)


@pytest.fixture
def x() -> Tensor:
    return torch.ones(2, 2, device=DEVICE)


def calls(work: Callable[[], Any]) -> dict[tuple[str | None, str, str], int]:
    """Calls by module, phase and op without "aten::"."""
    found: dict[tuple[str | None, str, str], int] = {}
    for row in recorded(work).totals:
        key = (row[10], row[11], row[0].removeprefix("aten::"))
        found[key] = found.get(key, 0) + row[4]
    return found


def modules(work: Callable[[], Any]) -> set[str | None]:
    return {module for module, _, _ in calls(work)}


def phases(work: Callable[[], Any]) -> set[str]:
    return {phase for _, phase, _ in calls(work)}


def test_nested_modules_and_one_called_twice(net: Net, x: Tensor) -> None:
    with torch.no_grad():
        found = calls(lambda: net(x))
    assert found == {
        ("Net.blocks.0.linear", "forward", "linear"): 2,
        ("Net.blocks.0", "forward", "relu"): 2,
        ("Net.blocks.0", "forward", "add.Tensor"): 2,
        ("Net.blocks.1.linear", "forward", "linear"): 1,
        ("Net.blocks.1", "forward", "relu"): 1,
        ("Net.blocks.1", "forward", "add.Tensor"): 1,
    }


def test_what_runs_in_no_module(net: Net, x: Tensor) -> None:
    assert calls(lambda: (net.blocks[0].linear.weight.detach() + x, (lambda: x + x)())) == {
        (None, "forward", "add.Tensor"): 2
    }


def test_a_function_called_by_a_module(x: Tensor) -> None:
    class Deep(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return self.down(x, 8)

        def down(self, x: Tensor, depth: int) -> Tensor:
            return self.down(x, depth - 1) if depth else torch.nn.functional.relu(x)

    assert modules(lambda: Deep()(x)) == {"Deep"}


def test_a_part_called_alone_has_its_own_name(net: Net, x: Tensor) -> None:
    assert modules(lambda: net.blocks[1](x)) == {"Block", "Block.linear"}


def test_a_module_of_nobody_inside_another(x: Tensor) -> None:
    loose = Block().to(DEVICE)

    class Outer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return loose(x) * 2

    assert modules(lambda: Outer()(x)) == {"Outer", "Block", "Block.linear"}


def test_phases_of_a_training_step(net: Net, x: Tensor) -> None:
    optimizer = torch.optim.Adam(net.parameters())

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        net(x).sum().backward()
        optimizer.step()

    step()
    found = calls(step)
    assert found[None, "backward", "linear_backward"] == 3
    assert found["Net.blocks.0.linear", "forward", "linear"] == 2
    assert {op for module, phase, op in found if phase == "optimizer" and module is None} >= {
        "zero_",
        "_foreach_lerp_.Scalar",
        "_foreach_addcdiv_.ScalarList",
    }
    assert {op for _, phase, op in found if op.startswith("_foreach")} and all(
        phase == "optimizer" for _, phase, op in found if op.startswith("_foreach")
    )


def test_the_sum_of_gradients_is_backward(x: Tensor) -> None:
    w = x.clone().requires_grad_()
    y = w * 2
    loss = (y + y.exp()).sum()
    found = calls(loss.backward)
    assert {phase for _, phase, op in found if op.startswith("add")} == {"backward"}


def test_a_closure_of_an_optimizer_is_forward_and_backward(net: Net, x: Tensor) -> None:
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = net(x).cosh().sum()
        loss.backward()
        return loss

    found = calls(lambda: optimizer.step(closure))
    assert {phase for _, phase, op in found if op in ("cosh", "linear")} == {"forward"}
    assert {phase for _, phase, op in found if op == "linear_backward"} == {"backward"}
    assert "optimizer" in {phase for _, phase, _ in found}


def test_an_optimizer_of_the_users_own(net: Net, x: Tensor) -> None:
    class Own(torch.optim.Optimizer):
        def __init__(self, parameters: Iterator[nn.Parameter]) -> None:
            super().__init__(parameters, {})

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.sub_(parameter.grad)

    optimizer = Own(net.parameters())
    net(x).sum().backward()
    assert phases(optimizer.step) == {"optimizer"}


def test_checkpointing_runs_a_module_in_the_backward(net: Net, x: Tensor) -> None:
    y = checkpoint(net.blocks[0], x.clone().requires_grad_(), use_reentrant=False).sum()
    found = calls(y.backward)
    assert found["Block.linear", "backward", "linear"] == 1


def test_an_exception_in_a_forward_leaves_the_module(net: Net, x: Tensor) -> None:
    class Failing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ArithmeticError(str((x + x).shape))

    def work() -> None:
        with pytest.raises(ArithmeticError):
            Failing()(x)
        x.exp()

    assert calls(work) == {("Failing", "forward", "add.Tensor"): 1, (None, "forward", "exp"): 1}


def test_copies_have_their_module_too(x: Tensor) -> None:
    class Reader(nn.Module):
        def forward(self, x: Tensor) -> float:
            return x.sum().item()

    (row,) = recorded(lambda: Reader()(x)).copy_totals
    assert row[-2:] == ("Reader", "forward")


def test_a_profile_by_module(net: Net, x: Tensor) -> None:
    net(x).sum().backward()
    with neuron_lab.profile(by="module") as p:
        net(x).sum().backward()
    rows = p.modules.set_index(["module", "phase"])
    assert rows.loc[("Net.blocks.0.linear", "forward"), "calls"] == 2
    assert rows.loc[("", "backward"), "calls"] > 3
    assert rows.calls.sum() == p.summary.op_calls
    text = p.to_text()
    assert "Net.blocks.0.linear" in text and "forward " in text and "· backward " in text


def test_a_session_keeps_no_module_alive(x: Tensor) -> None:
    gone: list[bool] = []

    def work() -> None:
        block = Block().to(DEVICE)
        block(x)
        reference = weakref.ref(block)
        del block
        gc.collect()
        gone.append(reference() is None)

    assert modules(work) >= {"Block", "Block.linear"} and gone == [True]


def test_modules_made_anew_share_their_path(x: Tensor) -> None:
    with torch.no_grad():
        found = calls(lambda: [Block().to(DEVICE)(x) for _ in range(20)])
    assert found["Block.linear", "forward", "linear"] == 20


def test_a_module_that_cannot_be_named_has_no_path(x: Tensor) -> None:
    class Nameless(nn.Module):
        def named_modules(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("no names")

        def forward(self, x: Tensor) -> Tensor:
            return x + x

    assert modules(lambda: Nameless()(x)) == {None}


def test_nested_sessions_agree(net: Net, x: Tensor) -> None:
    inner: list[set[str | None]] = []
    outer = modules(lambda: inner.append(modules(lambda: net(x))))
    assert inner == [outer] and "Net.blocks.1.linear" in outer


@pytest.mark.parametrize(
    "compiled",
    [lambda net: torch.compile(net, backend="neuron"), lambda net: net.compile(backend="neuron") or net],
    ids=["wrapped", "in place"],
)
def test_a_compiled_module_has_the_path_of_the_module(net: Net, x: Tensor, compiled: Callable[[Any], Any]) -> None:
    torch._dynamo.reset()
    fast = compiled(net)
    with torch.no_grad():
        assert modules(lambda: fast(x)) == {"Net"}


def test_names_of_a_compiled_part() -> None:
    net = Net()
    net.blocks[0] = torch.compile(net.blocks[0], backend="neuron")
    names = {path for _, path in name_modules([net])}
    assert "Net.blocks.0.linear" in names and not any("_orig_mod" in name for name in names)


def test_a_path_with_no_letters_of_utf_8() -> None:
    net = nn.Sequential()
    net.add_module("\ud800", nn.ReLU())
    x = torch.ones(2, device=DEVICE)
    with neuron_lab.profile() as p:
        net(x)
    assert p.modules.module.tolist() == ["Sequential.?"]
