"""From an op call to an FX graph over buffers, and the plan that goes with it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from . import decompositions as _decompositions
from ._dtypes import refuse_dtypes
from ._layout import buffer_shape, contiguous_strides, to_buffer, to_logical
from ._metadata import METADATA
from ._promotion import Number, cast, result_type
from ._recorder import Recorder
from ._records import ExecPlan, Leaf, LeafRef, OpCall, Output, Unlowerable
from ._registry import PROGRAMS, RULES, UNDESCRIBED
from ._schema import Form, bind, functional_form

_PLACEMENT = frozenset({"device", "layout", "pin_memory", "non_blocking"})
_decompositions.register()


@dataclass(frozen=True, slots=True)
class Trace:
    """A graph whose inputs are ``plan.inputs`` and whose outputs are ``plan.outputs``, all as buffers."""

    graph: fx.Graph
    plan: ExecPlan
    decomposed: bool


@functools.cache
def _torch_table() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions; where they end in prims, ours bring those back to ATen."""
    from torch._decomp import decomposition_table

    return dict(decomposition_table)


def trace(call: OpCall) -> Trace:
    """Trace ``call``; to be run with fake tensors. Raises Unlowerable, or whatever PyTorch raises for a bad call."""
    call = _standard(call)
    if torch.Tag.inplace_view in call.op.tags:
        raise Unlowerable("changes only the view of a tensor")
    refuse_dtypes(call)
    if torch.float16 in {leaf.dtype for leaf in call.leaves} and any(leaf.dtype.is_complex for leaf in call.leaves):
        raise Unlowerable("its result is complex32, which has no lowering")
    form = _form(call.op)
    arguments = {k: v for k, v in bind(call.op, call.args, call.kwargs).items() if k not in _PLACEMENT}
    if arguments.pop("generator", None) is not None:
        raise Unlowerable("takes a generator")
    expected = _expected(call, form, arguments)
    recorder = Recorder(_torch_table())
    buffers = [torch.empty(buffer_shape(leaf), dtype=leaf.dtype) for leaf in call.leaves]
    for index, buffer in enumerate(buffers):
        recorder.placeholder(f"arg{index}", buffer)
    with recorder:
        values = [_value(buffer, leaf) for buffer, leaf in zip(buffers, call.leaves, strict=True)]
        outcome = _run(call, form, _substitute(arguments, values))
        builder = _PlanBuilder(call, recorder, values)
        builder.writes_of(outcome, arguments)
        returns = builder.returns_of(outcome.returns, expected, arguments)
    return builder.finish(returns)


def _standard(call: OpCall) -> OpCall:
    """The op that every device knows in place of one that only out-of-tree devices receive."""
    aten = torch.ops.aten
    if call.op is aten.convolution_overrideable.default:
        return replace(call, op=aten.convolution.default)
    if call.op is aten.convolution_backward_overrideable.default:
        arguments = bind(call.op, call.args, call.kwargs)
        arguments["bias_sizes"] = [call.leaves[arguments["grad_output"].index].sizes[1]]
        return replace(call, op=aten.convolution_backward.default, args=(), kwargs=arguments)
    return call


def _form(op: OpOverload) -> Form:
    if op in PROGRAMS:
        return Form(op, (), False)
    form = functional_form(op)
    if form is None:
        raise Unlowerable("has no functional form")
    return form


def _value(buffer: Tensor, leaf: Leaf) -> Tensor | Number:
    tensor = to_logical(buffer, leaf)
    return Number(tensor) if leaf.wrapped or leaf.number else tensor


def _substitute(value: Any, leaves: list[Any]) -> Any:
    if isinstance(value, LeafRef):
        return leaves[value.index]
    if isinstance(value, (list, tuple)):
        return type(value)(_substitute(item, leaves) for item in value)
    if isinstance(value, dict):
        return {name: _substitute(item, leaves) for name, item in value.items()}
    return value


def _call(op: OpOverload, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call ``function`` with arguments placed as the schema of ``op`` wants them."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    gap = False
    for argument in op._schema.arguments:
        if argument.name not in arguments:
            gap = True
        elif argument.kwarg_only or gap:
            keywords[argument.name] = arguments[argument.name]
        else:
            positional.append(arguments[argument.name])
    return function(*positional, **keywords)


def _expected(call: OpCall, form: Form, arguments: dict[str, Any]) -> Any:
    """What CPU eager would return, as fake tensors; None when the functional op has no metadata function, or all results are written.

    Asked even then: the metadata function refuses what the CPU refuses.
    """
    if form.functional in UNDESCRIBED:
        return None
    tensors = [torch.empty_strided(leaf.sizes, leaf.strides, dtype=leaf.dtype) for leaf in call.leaves]
    samples: list[Any] = [
        _SAMPLES[leaf.dtype] if leaf.number else t for t, leaf in zip(tensors, call.leaves, strict=True)
    ]
    if any(leaf.wrapped for leaf in call.leaves):
        weak = [Number(t) if leaf.wrapped or leaf.number else t for t, leaf in zip(tensors, call.leaves, strict=True)]
        operands = [w for w in weak if not (isinstance(w, Tensor) and w.dtype == torch.bool)] or weak
        common = result_type(*operands)
        samples = [
            torch.empty((), dtype=common) if leaf.wrapped else s for s, leaf in zip(samples, call.leaves, strict=True)
        ]
    wanted = {name: value for name, value in arguments.items() if not (form.out_variant and name in form.mutated)}
    function = METADATA.get(form.functional, form.functional)
    results = _call(form.functional, function, _substitute(wanted, samples))
    if all(ret.alias_info is not None for ret in call.op._schema.returns):
        return None
    plain = len(call.op._schema.returns)
    return results if len(form.functional._schema.returns) <= plain else results[:plain]


_SAMPLES: dict[torch.dtype, Any] = {torch.float64: 1.5, torch.int64: 2, torch.bool: True, torch.complex128: 1.5 + 1j}
"""Stand-ins for lifted numbers when only metadata is asked for."""


@dataclass(slots=True)
class _Outcome:
    returns: list[Any]
    """Results that are not written to an argument, in order."""
    writes: dict[str, Any]


def _run(call: OpCall, form: Form, arguments: dict[str, Any]) -> _Outcome:
    program = PROGRAMS.get(call.op)
    if program is not None:
        done = _call(call.op, program, arguments)
        return _Outcome(list(done.returns), dict(done.writes))
    if form.out_variant:
        target = bind(call.op, call.args, call.kwargs)[form.mutated[0]]
        arguments = {name: value for name, value in arguments.items() if name not in form.mutated}
        if form.factory:
            arguments["dtype"] = call.leaves[target.index].dtype
    function: Callable[..., Any] = form.functional
    if _has_number(list(arguments.values())):
        if form.functional not in RULES:
            raise Unlowerable("takes a number that is not lifted")
        function = RULES[form.functional]
    results = _call(form.functional, function, arguments)
    if len(form.functional._schema.returns) == 1:
        results = [results]
    split = len(results) - len(form.mutated)
    return _Outcome(list(results[:split]), dict(zip(form.mutated, results[split:], strict=True)))


def _has_number(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_has_number(item) for item in value)
    return isinstance(value, Number)


class _PlanBuilder:
    """Collects executable results while the epilogue is recorded."""

    def __init__(self, call: OpCall, recorder: Recorder, values: list[Any]) -> None:
        self._call = call
        self._recorder = recorder
        self._values = values
        self._nodes: list[fx.Node] = []
        self._outputs: list[Output] = []
        self._writes: list[tuple[int, int]] = []
        self._resizes = any(argument.is_out for argument in call.op._schema.arguments)

    def writes_of(self, outcome: _Outcome, arguments: dict[str, Any]) -> None:
        for name, result in outcome.writes.items():
            target = arguments[name]
            if target is None:
                continue
            pairs = zip(target, result, strict=True) if isinstance(target, (list, tuple)) else [(target, result)]
            for ref, tensor in pairs:
                self._write(ref.index, tensor)

    def _write(self, index: int, result: Tensor) -> None:
        leaf = self._call.leaves[index]
        if not torch.can_cast(result.dtype, leaf.dtype):
            raise Unlowerable(f"the result {result.dtype} cannot be cast to the written tensor's {leaf.dtype}")
        if tuple(result.shape) != leaf.sizes and self._resizes:
            result = cast(result, leaf.dtype)
            self._writes.append((self._add(result, contiguous_strides(result.shape)), index))
            return
        if tuple(result.shape) != leaf.sizes:
            raise Unlowerable(f"the result {tuple(result.shape)} does not fit the written tensor {leaf.sizes}")
        if leaf.dtype.is_complex and result.dtype.is_floating_point and not self._resizes:
            raise Unlowerable("its results are real, which is refused in place")
        if result is not self._values[index]:
            self._writes.append((self._add(cast(result, leaf.dtype), leaf.strides), index))

    def _add(self, tensor: Tensor, strides: tuple[int, ...]) -> int:
        buffer = to_buffer(tensor, strides)
        if buffer is None:
            raise Unlowerable(f"the result strides {strides} of shape {tuple(tensor.shape)} are not dense")
        self._nodes.append(self._recorder.node(buffer))
        self._outputs.append(Output(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tuple(strides)))
        return len(self._nodes) - 1

    def returns_of(self, results: list[Any], expected: Any, arguments: dict[str, Any]) -> list[tuple[Any, ...]]:
        schema = self._call.op._schema
        remaining = iter(results)
        wanted = [expected] if len(schema.returns) == 1 else expected
        entries: list[tuple[Any, ...]] = []
        for position, ret in enumerate(schema.returns):
            if ret.alias_info is not None and ret.alias_info.is_write:
                entries.append(self._aliased(ret.alias_info.before_set, arguments))
            else:
                want = None if wanted is None else wanted[position]
                entries.append(self._entry(next(remaining), want))
        return entries

    def _aliased(self, names: set[str], arguments: dict[str, Any]) -> tuple[Any, ...]:
        for argument in self._call.op._schema.arguments:
            if argument.alias_info is not None and argument.alias_info.before_set == names:
                target = arguments[argument.name]
                if isinstance(target, (list, tuple)):
                    return ("list", tuple(("leaf", ref.index) for ref in target))
                return ("leaf", target.index)
        raise Unlowerable("a result aliases no argument")

    def _entry(self, result: Any, want: Any) -> tuple[Any, ...]:
        if result is None:
            return ("none",)
        if isinstance(result, (list, tuple)):
            wants = [None] * len(result) if want is None else want
            return ("list", tuple(self._entry(item, w) for item, w in zip(result, wants, strict=True)))
        if not isinstance(result, Tensor):
            return ("value", result)
        if not isinstance(want, Tensor):
            return ("out", self._add(result, contiguous_strides(result.shape)))
        if result.shape != want.shape:
            raise Unlowerable(f"the lowering gives shape {tuple(result.shape)}, the CPU {tuple(want.shape)}")
        if self._call.op not in PROGRAMS:
            result = cast(result, want.dtype)
        return ("out", self._add(result, tuple(want.stride())))

    def finish(self, returns: list[tuple[Any, ...]]) -> Trace:
        if not self._nodes:
            raise Unlowerable("has no tensor result")
        graph = self._recorder.graph
        graph.output(tuple(self._nodes))
        for node in reversed(graph.nodes):
            if node.op == "call_function" and not node.users:
                graph.erase_node(node)
        inputs = []
        for node in graph.nodes:
            if node.op == "placeholder":
                if node.users:
                    inputs.append(int(node.name.removeprefix("arg")))
                else:
                    graph.erase_node(node)
        plan = ExecPlan(tuple(inputs), tuple(self._outputs), tuple(self._writes), tuple(returns))
        return Trace(graph, plan, self._recorder.rewritten)
