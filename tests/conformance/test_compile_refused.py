"""Values that the CPU refuses - an index out of range, a whole number divided by 0 - raise its error in a compiled graph too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.utils import counters

from neuron_lab.emulator import dynamo
from tests.emulated import DEVICE, fresh_dynamo  # noqa: F401  # a fixture

Program = Callable[[Tensor, Tensor], Any]
TABLE = torch.arange(12.0).reshape(4, 3)

# On a table of four rows of three.
INDEXED: dict[str, Program] = {
    "x[i]": lambda x, i: x[i],
    "x[:, i]": lambda x, i: x[:, i] * 2,
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "embedding": lambda x, i: F.embedding(i, x),
    "index_select": lambda x, i: x.index_select(-1, i),
    "take": lambda x, i: x.take(i * 4),
    "scatter": lambda x, i: x.scatter(1, i[:, None], 1.0),
    "index_add": lambda x, i: x.index_add(1, i, x[:, : len(i)]),
    "index_put": lambda x, i: x.index_put((i, i), x[0, 0]),
    "an index made on the way": lambda x, i: x[(i + 1) * (x.sum() > 0)],
    "the only result is empty": lambda x, i: x[i][:, :0],
    "cross_entropy": lambda x, i: F.cross_entropy(x[: len(i)], i),
    "nll_loss with a class left out": lambda x, i: F.nll_loss(x[: len(i)], i, ignore_index=5),
    "bags": lambda x, i: F.embedding_bag(i, x, torch.tensor([0, 1], device=x.device)),
    "offsets of bags": lambda x, i: F.embedding_bag(torch.tensor([1, 2, 0], device=x.device), x, i),
}
INDICES = ([0, 2], [0, 1], [1, 2, 2], [0, 9], [-9, 0], [-1, 0], [0, 5], [0, 3])
DIVIDED: dict[str, Program] = {
    "//": lambda x, i: i // (i - 2),
    "%": lambda x, i: 7 % i,
    "fmod": lambda x, i: torch.fmod(i, i),
    "by a number": lambda x, i: i // 0,
    "numbers with a fraction": lambda x, i: (x // 0, i / i),
}


def _outcome(program: Program, *arguments: Tensor) -> Any:
    try:
        result = program(*arguments)
    except Exception as error:
        return type(error), str(error)
    return [value.cpu() for value in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("program", [*INDEXED.values(), *DIVIDED.values()], ids=[*INDEXED, *DIVIDED])
def test_a_compiled_graph_raises_where_the_cpu_does(program: Program) -> None:
    compiled = torch.compile(program, backend="neuron")
    table = TABLE.to(DEVICE)
    outcomes = []
    for index in INDICES:
        expected = _outcome(program, TABLE, torch.tensor(index))
        outcomes.append(expected)
        found = _outcome(compiled, table, torch.tensor(index, device=DEVICE))
        if isinstance(expected, tuple):
            assert found == expected, index
        else:
            torch.testing.assert_close(found, expected, equal_nan=True)
    assert counters["neuron"]["compiled_graphs"] > 0
    assert any(isinstance(outcome, tuple) for outcome in outcomes) or program is DIVIDED["numbers with a fraction"]


def test_the_error_has_a_note_of_the_line_and_writes_nothing() -> None:
    def program(total: Tensor, x: Tensor, i: Tensor) -> Tensor:
        total.add_(1)
        return x[i] * 2  # here

    total = torch.zeros(2, device=DEVICE)
    compiled = torch.compile(program, backend="neuron", fullgraph=True)
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 0 with size 4") as caught:
        compiled(total, TABLE.to(DEVICE), torch.tensor([4, 0], device=DEVICE))
    (note,) = caught.value.__notes__
    assert "test_compile_refused.py" in note and "return x[i] * 2  # here" in note
    assert total.tolist() == [0, 0]
    compiled(total, TABLE.to(DEVICE), torch.tensor([3, 0], device=DEVICE))
    assert total.tolist() == [1, 1]


def test_a_backward_looks_too_and_host_inputs_are_taken() -> None:
    x = TABLE.clone().requires_grad_()
    compiled = torch.compile(lambda x, i: (x[i] * torch.arange(3.0)).sum(), backend="neuron")
    compiled(x, torch.tensor([3, 3])).backward()
    assert x.grad is not None and x.grad.tolist() == [[0.0] * 3] * 3 + [[0.0, 2.0, 4.0]]
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        compiled(x, torch.tensor([4, 0]))


@pytest.mark.parametrize(("dtype", "number"), [(torch.int8, 300), (torch.int8, -129), (torch.float16, 1e6)])
def test_a_number_that_does_not_fit_is_not_cut(dtype: torch.dtype, number: float) -> None:
    compiled = torch.compile(lambda x: F.pad(x + 1, (1, 1), value=number), backend="neuron")
    with pytest.raises(RuntimeError, match=r"cannot be converted to type .* without overflow"):
        compiled(torch.zeros(3, dtype=dtype, device=DEVICE))


@pytest.mark.parametrize(("dtype", "number"), [(torch.int8, -128), (torch.uint8, 255), (torch.float16, -float("inf"))])
def test_a_number_that_fits_is_compiled(dtype: torch.dtype, number: float) -> None:
    def padded(x: Tensor) -> Tensor:
        return F.pad(x + 1, (1, 1), value=number)

    x = torch.zeros(3, dtype=dtype)
    assert torch.compile(padded, backend="neuron")(x.to(DEVICE)).tolist() == padded(x).tolist()


def test_a_graph_without_such_an_op_has_no_more_results(monkeypatch: pytest.MonkeyPatch) -> None:
    results: list[int] = []
    launch = dynamo._launch

    def counting(graph: Any, *inputs: Tensor) -> list[Any]:
        found = launch(graph, *inputs)
        results.append(len(found))
        return found

    monkeypatch.setattr(dynamo, "_launch", counting)
    i = torch.tensor([1, 2], device=DEVICE)
    torch.compile(lambda x: (x * 2, x / 0), backend="neuron")(TABLE.to(DEVICE))
    torch.compile(lambda x, i: (x[i], i * 2), backend="neuron")(TABLE.to(DEVICE), i)
    assert results == [2, 3]
