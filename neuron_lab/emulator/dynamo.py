"""`torch.compile(backend="neuron")`: each AOTAutograd graph becomes one emulated NEFF, in the cache that eager ops use.

A node that cannot be a part of the module (random numbers, a size that depends on data, an op without lowering) splits the
graph there: it runs as an eager op between the compiled parts.
"""

from __future__ import annotations

import functools
import logging
import operator
import os
import sys
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from neuron_lab._scopes import is_user_file
from neuron_lab.emulator import _refused, compiler, dispatch
from neuron_lab.emulator._attach import DEVICE
from neuron_lab.emulator._compile_default import tensors
from neuron_lab.emulator._origin import Origin, origin_of
from neuron_lab.emulator._parts import split, with_last_steps
from neuron_lab.emulator.api import native, neuron
from neuron_lab.emulator.lowering import Leaf, Unlowerable, UnlowerableNode

__all__ = ["callers", "neuron_backend"]

_log = logging.getLogger(__name__)
_DYNAMIC = "Dynamic shapes detected in the model, but torch-neuronx requires static shapes."
_NO_COPIES = "TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY"
_made: Counter[str] = Counter()  # graphs, by the name of their function
callers: deque[tuple[int, str, str, tuple[str, int, str, int]]] = deque(maxlen=256)
"""(time.time_ns(), Dynamo's number of the compile, the compiled function, (file, first line, function, line)): the user's lines that
made Dynamo compile.

Dynamo's own record of the stack leaves out a function's direct caller, and the name of a library's function.
"""


def neuron_backend(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """The Dynamo backend. `options` may have `model_name`, which the graphs are then called by.

    Raises RuntimeError for dynamic shapes, with TorchNeuron's text, and TypeError for options of another type.
    """
    from torch._dynamo import config
    from torch._dynamo.backends.common import aot_autograd

    if mode not in (None, "default"):
        warnings.warn(f"Neuron backend does not support mode='{mode}', falling back to default mode.", stacklevel=2)
    chosen = _model_name(options)
    if not config.assume_static_by_default:
        raise RuntimeError(f"{_DYNAMIC} Compile with dynamic=False.")
    caller = _user_line()
    origin = origin_of(gm, caller)
    _note_caller(origin, caller)
    _specialise(example_inputs)
    model = chosen or (origin.name if origin is not None else "graph")
    name = f"{model}_{_made[model]}"
    _made[model] += 1
    core = _core(gm, example_inputs)
    compile_as = {kind: _Compiler(name, kind, origin, core) for kind in ("forward", "backward", "inference")}
    backend = aot_autograd(
        fw_compiler=compile_as["forward"],
        bw_compiler=compile_as["backward"],
        inference_compiler=compile_as["inference"],
        keep_inference_input_mutations=_sets_data(gm),
    )
    compiled: Callable[..., Any] = backend(gm, example_inputs)
    hosted = [index for index, value in enumerate(example_inputs) if isinstance(value, Tensor) and _wants_grad(value)]
    if os.environ.get(_NO_COPIES) == "1":
        compiled = _without_host_inputs(compiled)
    elif hosted:
        compiled = _with_gradients_to_the_host(compiled, hosted, core)
    return compiled if origin is None else origin.at_its_line(compiled)


def _sets_data(gm: fx.GraphModule) -> bool:
    """Whether the program has an `x.data = y`: AOTAutograd has no step after the graph that would do it."""
    return any(node.target is Tensor.set_ for node in gm.graph.nodes)


def _model_name(options: dict[str, Any] | None) -> str:
    """ "" when the program chooses none."""
    if not isinstance(options, dict | None):
        raise TypeError(f"options of the neuron backend are a dict, not {options!r}")
    given = dict(options or {})
    name = given.pop("model_name", "")
    if not isinstance(name, str):
        raise TypeError(f"the option model_name is a string, not {name!r}")
    if given:
        unknown = ", ".join(sorted(map(str, given)))
        warnings.warn(
            f"Neuron backend does not support the options {unknown}, ignoring them; it has model_name.", stacklevel=3
        )
    return name


def _user_line() -> tuple[str, int, str, int] | None:
    """(file, first line, function, line) of the innermost frame of the user's."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    code = frame.f_code
    return code.co_filename, code.co_firstlineno, code.co_name, frame.f_lineno


def _note_caller(origin: Origin | None, caller: tuple[str, int, str, int] | None) -> None:
    from torch._guards import CompileContext

    number = CompileContext.current_compile_id()
    if number is not None and caller is not None:
        callers.append((time.time_ns(), str(number), "" if origin is None else origin.function, caller))


def _without_host_inputs(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled`, which otherwise copies host tensors to the device, with TorchNeuron's error for the first of them."""

    def call(*inputs: Any) -> Any:
        for index, value in enumerate(inputs):
            if isinstance(value, Tensor) and value.device.type == "cpu":
                raise RuntimeError(f"Input tensor at index {index} is on cpu device; {_NO_COPIES}=1 forbids to copy it")
        return compiled(*inputs)

    return call


def _wants_grad(value: Tensor) -> bool:
    return value.device.type == "cpu" and value.requires_grad


def _core(gm: fx.GraphModule, inputs: Sequence[Any]) -> torch.device:
    """The core of a graph's parts: that of its first tensor on the device. Nodes on other cores run as eager ops.

    Without a number it is the core that is current at each call.
    """
    given = next((value.device for value in tensors(gm, inputs) if value.device.type == DEVICE), None)
    if given is None or (given.index == neuron.current_device() and not _any_on_device(inputs)):
        return torch.device(DEVICE)
    return given


def _any_on_device(values: Sequence[Any]) -> bool:
    return any(isinstance(value, Tensor) and value.device.type == DEVICE for value in values)


def _with_gradients_to_the_host(
    compiled: Callable[..., Any], hosted: Sequence[int], core: torch.device
) -> Callable[..., Any]:
    """`compiled`, whose inputs at the places `hosted` are copied where autograd sees it: their gradients are due on the host."""

    def call(*inputs: Any) -> Any:
        given = list(inputs)
        versions = {}
        for index in hosted:
            given[index] = inputs[index].to(core)
            versions[index] = given[index]._version
        result = compiled(*given)
        for index, version in versions.items():
            if given[index]._version != version:  # the program wrote to its input
                inputs[index].copy_(given[index])
        return result

    return call


def _specialise(inputs: Sequence[Any]) -> None:
    """Guard on the very sizes: after a second shape Dynamo tries a symbolic one, but every shape has a NEFF of its own.

    Raises RuntimeError for a size that the program marked as dynamic, and for jagged tensors.
    """
    from torch._guards import TracingContext
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    if any(isinstance(value, Tensor) and value.is_nested for value in inputs):
        raise RuntimeError(
            f"{_DYNAMIC} A jagged tensor has sizes that depend on its data: pass its values() and offsets(), or leave this "
            "part out with torch.compiler.disable."
        )
    tracing = TracingContext.try_get()
    contexts: Any = {} if tracing is None else tracing.tensor_to_context
    for value in inputs:
        constraints = getattr(contexts.get(value), "constraint_sizes", ()) if isinstance(value, Tensor) else ()
        if any(
            wish is not None and not wish.warn_only for wish in constraints
        ):  # Dynamo's own tries may fail, with a warning
            raise RuntimeError(f"{_DYNAMIC} Remove mark_dynamic.")
        if isinstance(value, Tensor | torch.SymInt) and free_unbacked_symbols(value):
            raise RuntimeError(f"{_DYNAMIC} Remove mark_unbacked.")
        if isinstance(value, torch.SymInt):
            int(value)
        elif isinstance(value, Tensor):
            for size in (*value.shape, *value.stride()):
                int(size)


class _Compiler:
    """Compiles the graphs of one kind: forward, backward or inference."""

    def __init__(self, name: str, kind: str, origin: Origin | None, core: torch.device) -> None:
        self._name = name
        self._kind = kind
        self._origin = origin
        self._core = core

    def __call__(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        from torch._functorch._aot_autograd.utils import make_boxed_func

        boxed: Callable[..., Any] = make_boxed_func(
            _compile(gm, self._name, self._kind, self._origin, self._core).forward
        )
        return boxed


def _compile(gm: fx.GraphModule, model: str, kind: str, origin: Origin | None, core: torch.device) -> fx.GraphModule:
    """`gm` with everything that lowers replaced by compiled parts."""
    name = f"{model}_{kind}"

    _draw_again_from_the_host(gm)
    _copy_between_cores(gm)
    # A gradient goes where autograd wants it: to the copy of a host input.
    last = with_last_steps(gm.graph, to_host=kind != "backward")
    # Known before anything is lowered: found one at a time, each would cost the parts before it again.
    refused = {
        node.name: reason
        for node in gm.graph.nodes
        if node.name not in last and (reason := _always_eager(node, core)) is not None
    }
    for node_name, reason in refused.items():
        _refuse(gm, node_name, reason, name)
    for _ in range(len(gm.graph.nodes)):
        candidate = split(gm, refused.keys() | last)
        try:
            return _with_compiled_parts(candidate, name, origin, core)
        except UnlowerableNode as error:
            original = _original(candidate, error.node)
            if original in refused:
                raise
            _refuse(gm, original, str(error), name)
            refused[original] = str(error)
    return gm


def _always_eager(node: fx.Node, core: torch.device) -> str | None:
    from neuron_lab.emulator.lowering import always_eager

    number = neuron.current_device() if core.index is None else core.index
    if (
        node.op == "call_function"
        and node.target is not operator.getitem
        and _cores(node, *node.all_input_nodes) - {number}
    ):
        return f"the parts of the graph are on core {number}"
    return always_eager(node)


def _cores(*nodes: fx.Node) -> set[int | None]:
    values = pytree.tree_leaves([node.meta.get("val") for node in nodes])
    return {value.device.index for value in values if _any_on_device([value])}


def _copy_between_cores(gm: fx.GraphModule) -> None:
    """The op that stands for `to.copy_(source)` computes, and so takes tensors of one core."""
    for node in gm.graph.nodes:
        if node.target is torch.ops.aten.copy.default and len(_cores(*node.all_input_nodes)) > 1:
            node.target = _copied
    gm.recompile()


def _copied(to: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    made = torch.empty_strided(to.size(), to.stride(), dtype=to.dtype, device=to.device)
    return made.copy_(source, non_blocking)


def _draw_again_from_the_host(gm: fx.GraphModule) -> None:
    """What a recomputed region draws again comes from the host's stream, as all that the device draws.

    PyTorch's two operators for it know the devices they serve by name.
    """
    from torch._prims import rng_prims

    ours = {
        rng_prims.run_and_save_rng_state: _run_and_save_state,
        rng_prims.run_with_rng_state: _run_with_state,
    }
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target in ours:
            node.target = ours[node.target]
    gm.recompile()


def _run_and_save_state(op: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Tensor, Any]:
    return torch.get_rng_state(), op(*args, **kwargs)


def _run_with_state(state: Tensor, op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    current = torch.get_rng_state()
    torch.set_rng_state(state)
    try:
        return op(*args, **kwargs)
    finally:
        torch.set_rng_state(current)


def _refuse(gm: fx.GraphModule, node_name: str, reason: str, name: str) -> None:
    node = next(node for node in gm.graph.nodes if node.name == node_name)
    lines = str(node.meta.get("stack_trace", "")).splitlines()
    place = [line.strip() for line in lines if line.strip() and set(line.strip()) != {"^"}]
    text = f"{name}: {node.target} runs as an eager op between two parts of the graph: {reason}"
    if os.environ.get("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION") == "1":
        where = f", from `{place[-1]}`" if place else ""
        raise RuntimeError(f"{text}{where}; TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=1 forbids it")
    _log.info(text)


def _original(candidate: fx.GraphModule, name: str) -> str:
    for part in candidate.children():
        if isinstance(part, fx.GraphModule):
            for node in part.graph.nodes:
                if node.name == name and "original" in node.meta:
                    return str(node.meta["original"])
    return name


def _with_compiled_parts(
    candidate: fx.GraphModule, name: str, origin: Origin | None, core: torch.device
) -> fx.GraphModule:
    parts = [node for node in candidate.graph.nodes if node.op == "call_module"]
    for index, node in enumerate(parts):
        part = getattr(candidate, node.target)
        label = name if len(parts) == 1 else f"{name}_{index}"
        values = [argument.meta["val"] for argument in node.args]
        compiled = _compile_part(part, values, label, origin)
        if compiled is not None:
            if core.index is not None and not _any_on_device(values):  # nothing that it takes tells the core
                compiled = _on(core, compiled)
            delattr(candidate, node.target)
            setattr(candidate, node.target, compiled)  # no module: calling one takes as long as a small executable
    candidate.recompile()
    return candidate


def _on(core: torch.device, compiled: Callable[..., Any]) -> Callable[..., Any]:
    def call(*inputs: Tensor) -> Any:
        with neuron.device(core):
            return compiled(*inputs)

    return call


def _launch(graph: Any, *inputs: Tensor) -> list[Any]:
    return native.execute_compiled_graph(graph, inputs)  # by its name at each launch: a recorder may stand before it


def _launch_and_look(graph: Any, part: fx.GraphModule, *inputs: Tensor) -> list[Any]:
    *results, refused = _launch(graph, *inputs)
    return _refused.eagerly(part, inputs) if _refused.is_set(refused) else results


def _compile_part(
    part: fx.GraphModule, values: Sequence[Any], label: str, origin: Origin | None
) -> Callable[..., Any] | None:
    """A part of a graph as one executable; None when the compiler refuses the part as a whole, which then runs op by op."""
    from torch._dynamo.utils import counters

    from neuron_lab.emulator import shim

    if not all(isinstance(value, Tensor) for value in values):
        raise Unlowerable("a part takes something that is not a tensor")
    leaves = [_leaf(value) for value in values]
    telling = _refused.telling(part)
    try:
        answer = dispatch.graph_plan(f"graph::{label}", telling, leaves, origin)
    except UnlowerableNode:
        raise
    except (Unlowerable, compiler.CompileError) as error:
        _log.info("%s runs op by op: %s", label, error)
        return None
    counters["neuron"]["compiled_graphs"] += 1
    counters["neuron"]["graphs_with_collectives"] += 0  # there are none; TorchNeuron has the key
    graph = shim().make_graph(f"graph::{label}", [(leaf.dtype, leaf.sizes, leaf.layout) for leaf in leaves], answer)
    return functools.partial(_launch, graph) if telling is part else functools.partial(_launch_and_look, graph, part)


def _leaf(value: Tensor) -> Leaf:
    """How the part takes a tensor. One that is expanded is taken whole: what a part before this one hands over is."""
    from neuron_lab.emulator.lowering import contiguous_strides, leaf_of

    sizes, strides = tuple(map(int, value.shape)), tuple(map(int, value.stride()))
    if any(step == 0 and size > 1 for size, step in zip(sizes, strides, strict=True)):
        strides = contiguous_strides(sizes)
    return leaf_of(value.dtype, sizes, strides)
