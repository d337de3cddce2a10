"""Cuts a graph into parts: around the nodes that must run as eager ops, in the program's order, and before what it hands out last."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._prims_common import is_non_overlapping_and_dense_or_false as is_dense
from torch.utils import _pytree as pytree

__all__ = ["split", "with_last_steps"]


def with_last_steps(graph: fx.Graph, to_host: bool) -> set[str]:
    """What is left to do with results becomes nodes at the end, of which this gives the names: views, and copies to the host.

    A result that shares memory with an input or another one is a view. A part gives each result memory of its own: a write to one
    would not be seen by the other. With `to_host`, what the program has on the host is copied there, for parts run on the device. Only
    what comes of host inputs alone stays, as those are copied to the device.
    """
    output = next(node for node in graph.nodes if node.op == "output")
    roots = {node: _root(node) for node in output.all_input_nodes}
    count = Counter(roots.values())
    copies: dict[fx.Node, fx.Node] = {}
    replaced: dict[fx.Node, fx.Node] = {}
    with graph.inserting_before(output):
        if to_host:
            for root in count.keys() & _made_on_the_host(graph):
                copies[root] = _copied_to_the_host(graph, root)
        for node, root in roots.items():
            shared = root.op == "placeholder" or (count[root] > 1 and is_dense(root.meta["val"]))
            if root in copies or (node is not root and shared):
                replaced[node] = _repeated(graph, node, root, copies)
    output.args = fx.map_arg(output.args, lambda node: replaced.get(node, node))
    for node in reversed(list(graph.nodes)):
        if node in copies and not node.users:
            graph.erase_node(node)
    return {copy.name for copy in copies.values()}


def _made_on_the_host(graph: fx.Graph) -> set[fx.Node]:
    """What the program copied there from the device or made there, and what comes of that; not what host inputs alone are behind."""
    found: dict[fx.Node, str] = {}
    for node in graph.nodes:
        behind = {found[source] for source in node.all_input_nodes}
        devices = {
            value.device.type for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)
        }
        if devices - {"cpu"}:
            found[node] = "on the device"
        elif behind & {"on the device", "copied"}:
            found[node] = "copied"
        elif node.op == "placeholder" or "given" in behind:
            found[node] = "given"
        else:
            found[node] = "made"
    return {node for node, kind in found.items() if kind in ("copied", "made")}


def _copied_to_the_host(graph: fx.Graph, node: fx.Node) -> fx.Node:
    copy = graph.call_function(torch.ops.aten._to_copy.default, (node,), {"device": torch.device("cpu")})
    copy.meta = dict(node.meta)
    return copy


def _root(node: fx.Node) -> fx.Node:
    """What `node` is a view of, perhaps itself."""
    while True:
        source = node.args[0] if node.args else None
        if not isinstance(source, fx.Node) or not _is_view(source if _takes_one_of_several(node) else node):
            return node
        node = source


def _is_view(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _repeated(graph: fx.Graph, node: fx.Node, root: fx.Node, copies: dict[fx.Node, fx.Node]) -> fx.Node:
    if node is root:
        return copies.get(root, root)
    if node not in copies:
        source = node.args[0]
        assert isinstance(source, fx.Node)
        _repeated(graph, source, root, copies)
        copies[node] = graph.node_copy(node, lambda original: copies.get(original, original))
    return copies[node]


def split(gm: fx.GraphModule, eager: Collection[str]) -> fx.GraphModule:
    """`gm` as calls of parts, with the nodes named in `eager` between them in their own order.

    That order decides which random numbers each draws and what a write is seen by, so data flow alone must not. Nodes keep
    their metadata and, as `original`, their name.
    """
    stages = _stages(gm.graph, eager)
    outer = fx.Graph()
    owned: dict[str, Any] = {}
    known: dict[fx.Node, fx.Node] = {}
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            known[node] = _copy(outer, node, known)
        if node.op == "get_attr":
            owned[node.target] = operator.attrgetter(node.target)(gm)
    for stage in stages:
        for node in stage.eager:
            known[node] = _copy(outer, node, known)
        if results := [node for node in stage.part if any(user not in stage.members for user in node.users)]:
            _call_part(outer, owned, stage.part, results, known)
    output = next(node for node in gm.graph.nodes if node.op == "output")
    _copy(outer, output, known)
    return fx.GraphModule(owned, outer)


@dataclass(slots=True)
class _Stage:
    """Eager nodes, then one part."""

    eager: list[fx.Node] = field(default_factory=list)
    part: list[fx.Node] = field(default_factory=list)

    @property
    def members(self) -> set[fx.Node]:
        return set(self.part)


def _stages(graph: fx.Graph, eager: Collection[str]) -> list[_Stage]:
    number: dict[fx.Node, int] = {}
    outside: set[fx.Node] = set()
    calls = [node for node in graph.nodes if node.op not in ("placeholder", "get_attr", "output")]
    last = 0
    for node in calls:
        inputs = [source for source in node.all_input_nodes if source in number]
        if node.name in eager or (_takes_one_of_several(node) and node.all_input_nodes[0] in outside):
            outside.add(node)
            # A part is open as long as no eager node needs what it gives.
            last += any(number[source] == last and source not in outside for source in inputs)
            number[node] = last
        else:
            number[node] = max((number[source] for source in inputs), default=0)
    _sink(calls, number, outside)
    stages = [_Stage() for _ in range(last + 1)]
    for node in calls:
        (stages[number[node]].eager if node in outside else stages[number[node]].part).append(node)
    return stages


def _sink(calls: Sequence[fx.Node], number: dict[fx.Node, int], outside: set[fx.Node]) -> None:
    """What is made of the graph's inputs alone moves to its first use, instead of being carried from the first part on.

    What only the caller uses stays: it would make a part of its own behind the views.
    """
    free: set[fx.Node] = set()
    for node in calls:
        several = any(_takes_one_of_several(user) for user in node.users)
        if node not in outside and not several and not any(s in number and s not in free for s in node.all_input_nodes):
            free.add(node)
    for node in reversed(calls):
        if node in free:
            number[node] = min(
                (number[user] - (user in outside) for user in node.users if user in number), default=number[node]
            )


def _takes_one_of_several(node: fx.Node) -> bool:
    return node.target is operator.getitem


def _copy(graph: fx.Graph, node: fx.Node, known: dict[fx.Node, fx.Node]) -> fx.Node:
    copy = graph.node_copy(node, known.__getitem__)
    copy.meta = {**node.meta, "original": node.name}
    return copy


def _call_part(
    outer: fx.Graph,
    owned: dict[str, Any],
    nodes: Sequence[fx.Node],
    results: Sequence[fx.Node],
    known: dict[fx.Node, fx.Node],
) -> None:
    """Make a part of `nodes` and call it in `outer`; `known` then has the places of its results."""
    graph = fx.Graph()
    inside: dict[fx.Node, fx.Node] = {}
    sources = list(_sources(nodes))
    for source in sources:
        inside[source] = graph.placeholder(source.name)
        inside[source].meta = dict(source.meta)
    for node in nodes:
        inside[node] = _copy(graph, node, inside)
    graph.output(tuple(inside[node] for node in results))
    name = f"part_{sum(node.op == 'call_module' for node in outer.nodes)}"
    owned[name] = fx.GraphModule({}, graph)
    call = outer.call_module(name, tuple(known[source] for source in sources))
    for index, node in enumerate(results):
        known[node] = outer.call_function(operator.getitem, (call, index))
        known[node].meta = dict(node.meta)


def _sources(nodes: Sequence[fx.Node]) -> Iterator[fx.Node]:
    seen = set(nodes)
    for node in nodes:
        for source in node.all_input_nodes:
            if source not in seen:
                seen.add(source)
                yield source
