"""Where a graph is cut."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import fx

from neuron_lab.emulator._parts import split, with_last_steps

aten = torch.ops.aten


def calls(gm: fx.GraphModule) -> list[str]:
    """The outer graph: eager nodes by name, parts by the names of what is in them."""
    found = []
    for node in gm.graph.nodes:
        if node.op == "call_module":
            part = getattr(gm, node.target)
            found.append("+".join(n.name for n in part.graph.nodes if n.op == "call_function"))
        elif node.op == "call_function" and node.target is not operator.getitem:
            found.append(node.name)
    return found


def made(lines: str) -> fx.GraphModule:
    """A graph of one `name = source source` a line, each node the sum of its sources; `x` and `y` are the inputs."""
    graph = fx.Graph()
    nodes = {name: graph.placeholder(name) for name in ("x", "y")}
    for line in lines.split(";"):
        name, _, sources = line.partition("=")
        left, right = (nodes[source] for source in sources.split())
        nodes[name.strip()] = graph.create_node("call_function", aten.add.Tensor, (left, right), name=name.strip())
    graph.output((*nodes.values(),)[-2:])
    return fx.GraphModule({}, graph)


@pytest.mark.parametrize(
    ("program", "eager", "expected"),
    [
        pytest.param("a = x y; b = a a", "", ["a+b"], id="one part when nothing is eager"),
        pytest.param("a = x x; r = a a; b = r r", "r", ["a", "r", "b"], id="cut where it stands"),
        pytest.param("r = x x; a = r r; s = y y; b = a s", "rs", ["r", "s", "a+b"], id="no cut that is not needed"),
        pytest.param("a = x x; r = a y; s = y y; b = s s; c = b r", "rs", ["a", "r", "s", "b+c"], id="kept in order"),
        pytest.param(
            "a = x x; b = a a; r = b b; c = y y; s = c c; d = r s", "rs", ["a+b+c", "r", "s", "d"], id="late branch"
        ),
        pytest.param("w = y y; a = x x; r = a a; b = r w", "r", ["a", "r", "w+b"], id="of inputs alone: at its use"),
    ],
)
def test_parts_and_eager_nodes(program: str, eager: str, expected: list[str]) -> None:
    gm = made(program)
    cut = split(gm, set(eager))
    assert calls(cut) == expected
    x, y = torch.tensor(1.0), torch.tensor(10.0)
    assert cut(x, y) == gm(x, y)


def test_what_an_eager_node_returns_several_of_is_taken_outside() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    pair = graph.create_node("call_function", aten.max.dim, (x, 0), name="pair")
    value = graph.call_function(operator.getitem, (pair, 0))
    graph.output((graph.create_node("call_function", aten.add.Tensor, (value, value), name="total"),))
    gm = fx.GraphModule({}, graph)
    cut = split(gm, {"pair"})
    assert calls(cut) == ["pair", "total"]
    assert cut(torch.tensor([1.0, 5.0])) == gm(torch.tensor([1.0, 5.0]))


def test_results_that_share_memory_are_made_of_one_at_the_end() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(aten.add.Tensor, (x, x))
    y.meta["val"] = torch.zeros(2, 3)
    pair = graph.call_function(aten.split.Tensor, (y, 1))
    first = graph.call_function(operator.getitem, (pair, 0))
    turned = graph.call_function(aten.t.default, (graph.call_function(aten.t.default, (x,)),))
    alone = graph.call_function(aten.view.default, (graph.call_function(aten.mul.Tensor, (x, x)), (6,)))
    graph.output((y, first, turned, alone, graph.call_function(aten.neg.default, (first,))))
    names = with_last_steps(graph, to_host=False)
    gm = fx.GraphModule({}, graph)
    cut = split(gm, names)
    assert calls(cut)[0].split("+")[0] == "add_tensor" and len(names) == 4
    given = torch.arange(6.0).reshape(2, 3)
    y, first, turned, alone, negative = cut(given)
    assert first._is_view() and first.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert turned.untyped_storage().data_ptr() == given.untyped_storage().data_ptr()
    assert torch.equal(alone, (given * given).view(6)) and torch.equal(negative, -(given * 2)[:1])


def test_what_the_program_has_on_the_host_is_copied_there_at_the_end() -> None:
    graph = fx.Graph()
    x, given = graph.placeholder("x"), graph.placeholder("given")
    x.meta["val"], given.meta["val"] = torch.zeros(2, device="meta"), torch.zeros(2)
    here = graph.call_function(aten._to_copy.default, (x,), {"device": torch.device("cpu")})
    first = graph.call_function(aten.select.int, (here, 0, 0))
    double = graph.call_function(aten.mul.Tensor, (given, 2))
    for node in (here, first, double):
        node.meta["val"] = torch.zeros(2)
    graph.output((here, first, double, given))
    names = with_last_steps(graph, to_host=True)
    *results, _ = next(node for node in graph.nodes if node.op == "output").args[0]
    assert names == {node.name for node in results[:2]} and results[2] is double
    assert results[0].args == (here,) and results[0].kwargs == {"device": torch.device("cpu")}
    assert results[1].target is aten.select.int and results[1].args[0] is results[0]


def test_constants_stay_outside() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(aten.add.Tensor, (x, graph.get_attr("constant"))),))
    gm = fx.GraphModule({"constant": torch.tensor(2.0)}, graph)
    assert split(gm, set())(torch.tensor(1.0)) == (torch.tensor(3.0),)
