"""What a compiled graph must not give a value for, because the CPU raises there: an index out of range, a whole number divided by 0.

XLA clamps the one and has a number for the other. csrc/bounds.cpp looks before an eager op runs; in a graph most such operands are
made on the way, so the executable itself tells whether it met one, and the graph's ops then raise what they raise in eager.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from neuron_lab.emulator._attach import DEVICE
from neuron_lab.emulator._indices import DIVIDES, IndexRule, index_rules

__all__ = ["eagerly", "is_set", "telling"]

_aten = torch.ops.aten


def telling(part: fx.GraphModule) -> fx.GraphModule:
    """`part` with one more result, a boolean: whether it met what the CPU refuses. `part` itself where it cannot."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    results: Any = graph.graph_copy(part.graph, copies)
    met = [
        graph.call_function(_aten.any.default, (doubt,))
        for node in part.graph.nodes
        for doubt in _doubts(graph, node, copies)
    ]
    if not met:
        return part
    graph.output((*results, functools.reduce(functools.partial(_call, graph, _aten.logical_or.default), met)))
    return fx.GraphModule({}, graph)


def is_set(flag: Tensor) -> bool:
    """Read from the device's memory, which is the host's: `.item()` would be an op of the program's."""
    return ctypes.c_bool.from_address(flag.data_ptr()).value


def eagerly(part: fx.GraphModule, inputs: Sequence[Tensor]) -> list[Any]:
    """The results of the ops one by one; raises the error of the one that is refused, with a note of the program's lines."""
    device = next((value.device for value in inputs if value.device.type != "cpu"), DEVICE)
    results: list[Any] = list(_Eagerly(part, device).run(*(value.to(device) for value in inputs)))
    return results


class _Eagerly(fx.Interpreter):
    def __init__(self, part: fx.GraphModule, device: torch.device | str) -> None:
        super().__init__(part)
        self.extra_traceback = False  # it would change the message
        self._device = device

    def run_node(self, n: fx.Node) -> Any:
        try:
            return super().run_node(n)
        except Exception as error:
            if lines := n.meta.get("stack_trace"):
                error.add_note(f"In the compiled program, most recent call last:\n{lines.rstrip()}")
            raise

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if "device" in kwargs:  # a graph is on one device
            kwargs = {**kwargs, "device": self._device}
        return super().call_function(target, args, kwargs)


def _call(graph: fx.Graph, op: Any, *args: Any) -> fx.Node:
    return graph.call_function(op, args)


def _doubts(graph: fx.Graph, node: fx.Node, copies: dict[fx.Node, fx.Node]) -> Iterator[fx.Node]:
    """Boolean tensors, made in `graph` of what `node` takes: true where the CPU refuses it."""
    if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
        return
    given = _arguments(node, node.target)
    if _divides_whole_numbers(node, node.target):
        yield _zeros(graph, given[1], copies)
    for row in index_rules(node.target):
        rule = IndexRule(*row)  # type: ignore[arg-type]
        for index, size, negative in _indices(rule, given):
            if index.meta["val"].dtype in (torch.int32, torch.int64) and index.meta["val"].numel():
                if rule.offsets:
                    yield from _bad_offsets(graph, copies[index], index.meta["val"].numel(), size)
                else:
                    ignored = given[rule.ignore_argument] if rule.ignore_argument >= 0 else None
                    yield _outside(graph, copies[index], -size if negative else 0, size, ignored)


def _arguments(node: fx.Node, op: torch._ops.OpOverload) -> list[Any]:
    return [
        node.args[place] if place < len(node.args) else node.kwargs.get(argument.name, argument.default_value)
        for place, argument in enumerate(op._schema.arguments)
    ]


def _divides_whole_numbers(node: fx.Node, op: torch._ops.OpOverload) -> bool:
    value = node.meta.get("val")
    divides = op._schema.name.partition("::")[2] in DIVIDES
    return divides and isinstance(value, Tensor) and not value.dtype.is_floating_point and not value.dtype.is_complex


def _zeros(graph: fx.Graph, divisor: Any, copies: dict[fx.Node, fx.Node]) -> fx.Node:
    if isinstance(divisor, fx.Node):
        return _call(graph, _aten.eq.Scalar, copies[divisor], 0)
    return graph.call_function(_aten.full.default, ([1], divisor == 0), {"dtype": torch.bool})


def _indices(rule: IndexRule, given: Sequence[Any]) -> Iterator[tuple[fx.Node, int, bool]]:
    """(index, the size it goes into, whether it may count from the end), as csrc/bounds.cpp finds them."""
    index, of = given[rule.index], given[rule.of].meta["val"]
    if isinstance(index, (list, tuple)):  # x[i, :, j]: entry d indexes dimension d
        yield from ((item, of.shape[dim], True) for dim, item in enumerate(index) if item is not None)
    elif not isinstance(index, fx.Node):
        return
    elif rule.offsets or rule.flat:
        yield index, of.numel(), rule.flat
    elif rule.size_argument >= 0:
        size = given[rule.size_argument]
        yield index, math.prod(size) if isinstance(size, (list, tuple)) else size, rule.negative
    else:
        dim = given[rule.dim_argument] if rule.dim_argument >= 0 else rule.dim
        yield index, of.shape[dim] if of.dim() else 1, rule.negative


def _outside(graph: fx.Graph, index: fx.Node, low: int, size: int, ignored: int | None) -> fx.Node:
    outside = _call(
        graph,
        _aten.logical_or.default,
        _call(graph, _aten.lt.Scalar, index, low),
        _call(graph, _aten.ge.Scalar, index, size),
    )
    if ignored is None:
        return outside
    return _call(graph, _aten.logical_and.default, outside, _call(graph, _aten.ne.Scalar, index, ignored))


def _bad_offsets(graph: fx.Graph, offsets: fx.Node, count: int, size: int) -> Iterator[fx.Node]:
    """Where bags begin in a list of `size` entries: the first at 0, none before the one in front of it."""
    slices = functools.partial(_call, graph, _aten.slice.Tensor, offsets, 0)
    yield _call(graph, _aten.ne.Scalar, slices(0, 1), 0)
    yield _call(graph, _aten.gt.Scalar, offsets, size)
    if count > 1:
        yield _call(graph, _aten.lt.Tensor, slices(1, count), slices(0, count - 1))
