"""``lower_graph``: a whole ATen graph -> one StableHLO module."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from neuron_lab.emulator import clock

from ._fake import fake_tensors
from ._island import empty_constant
from ._layout import buffer_shape, contiguous_strides, physical_order, to_buffer, to_logical
from ._mlir import to_stablehlo, to_torch_dialect
from ._recorder import Recorder
from ._records import ExecPlan, Leaf, Lowered, Output, Unlowerable
from ._trace import _torch_table

_PLACEMENT = frozenset({"device", "layout", "pin_memory", "non_blocking"})
_LAZY: dict[Any, Any] = {  # views of PyTorch's that leave the work to their readers; here a tensor is its values
    torch.ops.aten._conj.default: torch.conj_physical,
    torch.ops.aten._neg_view.default: torch.neg,
}


class UnlowerableNode(Unlowerable):
    """One node of the graph cannot become a part of the module; ``node`` is its name, the message the reason."""

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(reason)
        self.node = node


def always_eager(node: fx.Node) -> str | None:
    """Why this node cannot be a part of a module, as far as its target tells; None when it may."""
    if node.op != "call_function" or node.target is operator.getitem:
        return None
    if not isinstance(node.target, torch._ops.OpOverload):
        return "it is no ATen op"
    if torch.Tag.nondeterministic_seeded in node.target.tags:
        return "random numbers are drawn on the host"
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    if any(free_unbacked_symbols(part.meta.get("val")) for part in (node, *node.all_input_nodes)):
        return "a size or number of it depends on the data"
    if node.target is torch.ops.aten.constant_pad_nd.default and not _pads_in_range(node.args):
        return "a number does not fit the dtype"  # the CPU's error; no other op comes as far as here with one
    return "it has side effects" if node.is_impure() else None


def _has_other_dtype(result: Any, promised: Any) -> bool:
    """Whether the program has been told of another dtype than what was lowered has.

    Sizes are not compared: of a batch norm in evaluation PyTorch promises empty statistics, which nothing reads.
    """
    return isinstance(result, Tensor) and isinstance(promised, Tensor) and result.dtype != promised.dtype


def _pads_in_range(arguments: Sequence[Any]) -> bool:
    dtype, number = arguments[0].meta["val"].dtype, arguments[2] if len(arguments) > 2 else 0
    if dtype == torch.bool or dtype.is_complex or not math.isfinite(number):
        return True
    most = (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).max
    return abs(number) <= most or number == -most - 1


def lower_graph(module: fx.GraphModule, leaves: Sequence[Leaf], default_dtype: torch.dtype) -> Lowered:
    """Lower a functional ATen graph whose placeholders are ``leaves``, all tensors.

    Results take the strides of the nodes' metadata where those are dense. Raises UnlowerableNode when one node is the cause,
    Unlowerable for the graph as a whole. To be called as ``lower`` is.
    """
    started = clock.now_ns()
    with fake_tensors(default_dtype):
        graph, plan = _trace(module, leaves)
    traced = clock.now_ns()
    text = to_stablehlo(graph)
    return Lowered(text, plan, str(module.graph), True, (traced - started) / 1e9, (clock.now_ns() - traced) / 1e9)


def torch_dialect(module: fx.GraphModule, leaves: Sequence[Leaf], default_dtype: torch.dtype) -> str | None:
    """The graph as it is before StableHLO; None when part of it is written in StableHLO. To be called as ``lower`` is."""
    with fake_tensors(default_dtype):
        graph, _ = _trace(module, leaves)
    return to_torch_dialect(graph)


def _trace(module: fx.GraphModule, leaves: Sequence[Leaf]) -> tuple[fx.Graph, ExecPlan]:
    recorder = Recorder(_torch_table())
    buffers = [torch.empty(buffer_shape(leaf), dtype=leaf.dtype) for leaf in leaves]
    for index, buffer in enumerate(buffers):
        if buffer.numel():
            recorder.placeholder(f"arg{index}", buffer)
        else:  # it has no memory that could be handed over
            (buffers[index],) = recorder.island(f"%r0 = {empty_constant(buffer)}", [], [(buffer.shape, buffer.dtype)])
    output = next(node for node in module.graph.nodes if node.op == "output")
    replay = _Replay(module)
    outputs: list[Output] = []
    nodes: list[fx.Node] = []
    returns: list[tuple[Any, ...]] = []
    with recorder:
        logical = [to_logical(buffer, leaf) for buffer, leaf in zip(buffers, leaves, strict=True)]
        results = replay.run(*logical)
        for node, result in zip(output.args[0], results, strict=True):
            if not isinstance(result, Tensor):
                returns.append(("none",) if result is None else ("value", int(result)))
                continue
            strides = _strides(node, result)
            dense = to_buffer(result, strides)
            assert dense is not None
            nodes.append(recorder.node(dense))
            outputs.append(Output(str(result.dtype).removeprefix("torch."), tuple(result.shape), strides))
            returns.append(("out", len(outputs) - 1))
    recorder.graph.output(tuple(nodes))
    inputs = _drop_unused(recorder.graph)
    return recorder.graph, ExecPlan(inputs, tuple(outputs), (), tuple(returns))


def _drop_unused(graph: fx.Graph) -> tuple[int, ...]:
    """Erase dead nodes; gives the indices of the leaves that are left."""
    for node in reversed(graph.nodes):
        if node.op == "call_function" and not node.users:
            graph.erase_node(node)
    kept = []
    for node in list(graph.nodes):
        if node.op == "placeholder":
            if node.users:
                kept.append(int(node.name.removeprefix("arg")))
            else:
                graph.erase_node(node)
    return tuple(kept)


def _strides(node: Any, result: Tensor) -> tuple[int, ...]:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if isinstance(value, Tensor) and tuple(value.shape) == tuple(result.shape):
        strides = tuple(int(stride) for stride in value.stride())
        if 0 not in result.shape and physical_order(tuple(result.shape), strides) is not None:
            return strides
    return contiguous_strides(result.shape)


class _Replay(fx.Interpreter):
    """Runs the graph's nodes on fake CPU tensors, and knows at which one it failed."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False  # it would append the node and its source to every message

    def run_node(self, n: fx.Node) -> Any:
        if (reason := always_eager(n)) is not None:
            raise UnlowerableNode(n.name, reason)
        if n.target is torch.ops.aten.as_strided.default:
            return self._as_strided(n)
        try:
            result = super().run_node(n)
        except UnlowerableNode:
            raise
        except Exception as error:  # PyTorch raises many types; each one means that this node stays out of the module
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise UnlowerableNode(n.name, lines[0][:240]) from error
        if _has_other_dtype(result, n.meta.get("val")):
            made = n.all_input_nodes[0] if n.target is operator.getitem else n
            raise UnlowerableNode(made.name, f"its lowering gives {result.dtype}, PyTorch {n.meta['val'].dtype}")
        return result

    def _as_strided(self, n: fx.Node) -> Any:
        """Reads memory, so what lies in it goes by the strides of the metadata: the replay's own may differ.

        One that cannot be lowered keeps the whole graph eager: what another part hands over is laid out in its own way.
        """
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        source, like = args[0], n.all_input_nodes[0].meta["val"]
        memory = to_buffer(source, tuple(map(int, like.stride())))
        if memory is None:
            raise Unlowerable("as_strided of a tensor with gaps")
        return torch.ops.aten.as_strided.default(memory.contiguous(), *args[1:], **kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, torch._ops.OpOverload):
            kwargs = {name: value for name, value in kwargs.items() if name not in _PLACEMENT}
            if target is torch.ops.aten.cat.default:
                # An empty key/value cache; an empty input has no buffer that could be handed over. Its dtype counts all the same.
                dtype = functools.reduce(torch.promote_types, (part.dtype for part in args[0]))
                parts = [part for part in args[0] if part.numel()] or args[0]
                args = ([part.to(dtype) for part in parts], *args[1:])
            if target in _LAZY:
                return _LAZY[target](*args)
            if target is torch.ops.aten.view.default:
                # What is a view of the program's tensor need not be one of the replay's: strides may differ, values do not.
                return torch.reshape(*args)
        return target(*args, **kwargs)
