"""Graphs of torch.compile bear the name of the user's function, and stand on its lines."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import neuron_lab
from neuron_lab import device
from neuron_lab.emulator import dispatch, events
from neuron_lab.emulator._origin import Origin
from tests.emulated import DEVICE

pytestmark = pytest.mark.filterwarnings(
    "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"
)  # PyTorch's own import


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = torch.compile(function, backend="neuron", **options)
    return made


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(self: Any, *args: Any) -> Any:
        return function(self, *args)

    return wrapper


class Net(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sin() + 2

    def head(self, x: Tensor) -> Tensor:
        return x.cos() + 2


class Decorated(nn.Module):
    @wrapped
    def forward(self, x: Tensor) -> Tensor:
        return x.tan() + 2


def shifted(x: Tensor) -> Tensor:
    return x.exp() - 3


def moved(x: Tensor) -> Tensor:
    return x.exp() - 3


def broken(x: Tensor, flag: bool = True) -> Tensor:
    y = x + 1
    torch._dynamo.graph_break()

    z = y * 2
    if z.sum() > 1000:
        return z
    return z - 1 if flag else z


def made(program: Callable[[], object]) -> list[events.Compile]:
    """The graphs that it made or read."""
    before = len(events.history())
    program()
    return [event for event in events.history()[before:] if event.op.startswith("graph::")]


@pytest.mark.parametrize(
    ("program", "name", "function"),
    [
        (Net(), "Net", Net.forward),
        (Net().head, "Net_head", Net.head),
        (Decorated(), "Decorated", inspect.unwrap(Decorated.forward)),
        (nn.Sequential(nn.Softsign()), "Sequential", nn.Sequential.forward),
        (shifted, "shifted", shifted),
        (nn.functional.gelu, "gelu", None),
    ],
    ids=["module", "method", "decorated", "library", "function", "builtin"],
)
def test_a_graph_is_named_after_its_function(program: Any, name: str, function: Any) -> None:
    size = time.time_ns() % 1_000_000  # nothing lies on disk
    x = torch.ones(1, size + 1, device=DEVICE)
    call = compiled(program)
    called = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    (event,) = made(lambda: call(x))
    label, number, kind = event.op.removeprefix("graph::").rsplit("_", 2)
    assert (label, kind) == (name, "inference") and number.isdigit()
    account = neuron_lab.open_neff(event.neff).account
    assert account.function == (name if function is None else function.__qualname__)
    here = Path(__file__).name
    if function is not None and Path(function.__code__.co_filename).name == here:
        assert account.place == f"{here} line {function.__code__.co_firstlineno}"
    else:
        assert account.place == f"{here} line {called}"


@pytest.mark.parametrize(
    ("file", "place"),
    [
        (__file__, f"{Path(__file__).name} line 7"),
        ("<ipython-input-3-0a>", "a cell, line 7"),
        ("/tmp/ipykernel_9/0a.py", "a cell, line 7"),
        ("<eval_with_key>.3", ""),
        ("", ""),
    ],
)
def test_a_place_is_a_file_or_a_cell(file: str, place: str) -> None:
    assert Origin("f", file, 7, "f", 7).place == place


def test_numbers_count_the_graphs_of_one_name() -> None:
    ops = [made(lambda n=n: compiled(shifted)(torch.ones(n, device=DEVICE)))[0].op for n in (2, 3)]
    first, second = (int(op.rsplit("_", 2)[1]) for op in ops)
    assert second == first + 1


def test_a_name_of_the_user_s_stands_for_it() -> None:
    call = compiled(shifted, options={"model_name": "my_2_forward_model"})
    torch.neuron.reset_dynamo_metrics()
    (event,) = made(lambda: call(torch.ones(4, device=DEVICE)))
    assert event.op.startswith("graph::my_2_forward_model_")
    assert [graph.model_name for graph in torch.neuron.get_dynamo_metrics()] == ["my_2_forward_model"]


def test_an_equal_graph_of_another_function_is_the_same_neff() -> None:
    x = torch.ones(time.time_ns() % 1_000_000 + 1, device=DEVICE)
    (one,) = made(lambda: compiled(shifted)(x))
    (other,) = made(lambda: compiled(moved)(x))
    assert (one.neff, one.source, other.source) == (other.neff, "compiled", "disk")
    assert other.op.startswith("graph::moved_")
    stored = dispatch.store().get(one.neff)
    assert stored is not None and stored.op == one.op and stored.function == "shifted"


def test_after_a_break_a_graph_stands_where_the_program_goes_on() -> None:
    lines, start = inspect.getsourcelines(broken)
    at = {text.strip(): start + index for index, text in enumerate(lines)}
    call, x, begun = compiled(broken), torch.ones(3, device=DEVICE), time.time_ns()
    for _ in range(2):  # cold, then warm
        session = events.hook()
        session.start()
        assert call(x).tolist() == [3.0, 3.0, 3.0]
        log = session.stop()
        wheres = {row[9] for row in log.totals if row[0].startswith("graph::")}
        assert {(where[1], where[2]) for where in wheres} == {(start, "broken")}
        ends = at["return z - 1 if flag else z"]
        assert {where[3] for where in wheres} == {start, at["z = y * 2"], ends}
        broke = at["torch._dynamo.graph_break()"]
        assert broke not in {row[2][3] for row in log.line_peaks if row[2] is not None}
    traced, _ = device.graph_compiles(begun, time.time_ns())
    branch = at["if z.sum() > 1000:"]
    assert [row[1] for row in traced] == ["broken", f"broken after line {broke}", f"broken after line {branch}"]


def test_a_compiled_backward_stands_on_the_line_that_asked_for_it() -> None:
    fast = compiled(nn.Linear(4, 2).to(DEVICE))
    x = torch.ones(3, 4, device=DEVICE)
    fast(x).sum().backward()
    session = events.hook()
    session.start()
    loss = fast(x).sum()
    loss.backward()
    log = session.stop()
    lines, start = inspect.getsourcelines(test_a_compiled_backward_stands_on_the_line_that_asked_for_it)
    at = {text.strip(): start + index for index, text in enumerate(lines)}
    (where,) = (row[9] for row in log.totals if row[0].endswith("_backward"))
    assert where[3] == at["loss.backward()"]


def test_a_library_s_function_is_called_as_its_author_calls_it() -> None:
    begun = time.time_ns()
    compiled(nn.Sequential(nn.Softsign()))(torch.ones(3, device=DEVICE))
    traced, _ = device.graph_compiles(begun, time.time_ns())
    assert [(row[1], row[4][0]) for row in traced] == [("Sequential.forward", __file__)]
