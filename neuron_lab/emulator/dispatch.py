"""The eager road's slow half: what an op's first call needs. The fast half, a warm call, is in C++ and never comes here."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import fx
from torch._ops import OpOverload

from neuron_lab.emulator import _artifacts, _fallback, clock, compiler, events
from neuron_lab.emulator._calls import (
    TAKES_HOST_TENSORS,
    call_of,
    empty_parts_fit,
    indexes_by_mask,
    without_empty_inputs,
)
from neuron_lab.emulator._indices import DIVIDES, index_rules
from neuron_lab.emulator._origin import Origin
from neuron_lab.emulator._signature import graph_signature, short, signature_of
from neuron_lab.emulator._worker import Worker
from neuron_lab.emulator.cache import NeffStore, Port, StoredNeff, default_root, fingerprint, key_of
from neuron_lab.emulator.lowering import ExecPlan, Leaf, Lowered, OpCall, Refused, Unlowerable

__all__ = ["describe_op", "graph_plan", "make_plan", "reset_store", "store"]

_log = logging.getLogger(__name__)

# Numbered as `Route` and `Kind` in csrc/dispatch.h and csrc/events.h.
COMPILE, HOST, FALLBACK = 0, 1, 2
KIND_COMPILED, KIND_FALLBACK, KIND_HOST, KIND_EMPTY, KIND_DECOMPOSED = 0, 1, 2, 3, 4

_RANDOM = "random numbers are drawn on the host"
_SIZE = "its result's size depends on the data"
# Seeded by tag, but deterministic in the form that reaches the device (dropout_p = 0, or the mask drawn before).
_SEEDED_BY_TAG_ONLY = frozenset(
    {
        "aten::native_dropout",
        "aten::_scaled_dot_product_fused_attention_overrideable",
        "aten::_scaled_dot_product_efficient_attention",
    }
)
# TorchNeuron runs these natively and synchronises to learn the size (csrc/aten of its April 2026 snapshot).
_NATIVE_BUT_SIZED_BY_DATA = frozenset({"aten::nonzero", "aten::masked_select", "aten::repeat_interleave"})
# Their composite kernels come back to the op: a copy between dtypes is `_to_copy`.
_COMPOSED_OF_THEMSELVES = frozenset({"aten::_to_copy"})
# Their number becomes an element: the CPU raises for one that does not fit the dtype.
_NUMBER_IS_ELEMENT = frozenset(
    "fill full masked_fill index_fill scatter constant_pad_nd clamp clamp_min clamp_max".split()
)
# Between dtypes; TorchNeuron casts to and from 64 bits on the CPU.
_CASTS = frozenset({"aten::_to_copy", "aten::copy_", "aten::to"})
# A part without elements, or a bag of each index that the forward did not need.
_SKIPS_EMPTY_INPUTS = frozenset(
    {"aten::cat", "aten::_embedding_bag_backward", "aten::_embedding_bag_per_sample_weights_backward"}
)

# Elements from which an op's loops are optimised: compiling takes 20 to 40 ms longer, a call of gelu or exp a fifth of the time.
_LARGE = 1 << 18

_worker = Worker()
_store: NeffStore | None = None
_store_root: object = None


def store() -> NeffStore:
    """The disk cache the environment asks for now."""
    global _store, _store_root
    root = default_root()
    if _store is None or root != _store_root:
        _store, _store_root = NeffStore(root), root
    return _store


def reset_store() -> None:
    """Forget the opened directory and its counts."""
    global _store
    _store = None


def overload(name: str, overload_name: str) -> OpOverload:
    """The OpOverload of `aten::add` + `Tensor`."""
    namespace, _, base = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), base)
    found: OpOverload = getattr(packet, overload_name or "default")
    return found


class OpDescription(NamedTuple):
    """How calls of one overload are served; csrc/run.cpp reads the fields in this order."""

    route: int
    reason: str
    lifted: list[bool]
    takes_host_tensors: bool
    skips_empty_inputs: bool
    full_name: str
    index_rules: list[tuple[object, ...]]
    number_is_element: bool
    divides: bool
    casts: bool


def describe_op(name: str, overload_name: str) -> OpDescription:
    """How calls of this overload are served."""
    op = overload(name, overload_name)
    full = f"{name}.{overload_name}" if overload_name else name
    route, reason = _route(op, name)
    from neuron_lab.emulator.lowering import lifts_numbers

    lifted = list(lifts_numbers(op)) if route == COMPILE else [False] * len(op._schema.arguments)
    base = name.removeprefix("aten::").removesuffix("_")
    return OpDescription(
        route=route,
        reason=reason,
        lifted=lifted,
        takes_host_tensors=name in TAKES_HOST_TENSORS,
        skips_empty_inputs=name in _SKIPS_EMPTY_INPUTS,
        full_name=full,
        index_rules=index_rules(op),
        number_is_element=base in _NUMBER_IS_ELEMENT,
        divides=base in DIVIDES,
        casts=name in _CASTS,
    )


def _route(op: OpOverload, name: str) -> tuple[int, str]:
    if torch.Tag.nondeterministic_seeded in op.tags and name not in _SEEDED_BY_TAG_ONLY:
        return FALLBACK, _RANDOM
    if name in _NATIVE_BUT_SIZED_BY_DATA and torch.Tag.dynamic_output_shape in op.tags:
        return HOST, _SIZE
    if torch.Tag.dynamic_output_shape in op.tags and name not in TAKES_HOST_TENSORS:
        return FALLBACK, _SIZE
    if torch.Tag.data_dependent_output in op.tags:
        return FALLBACK, "its result is a host value that depends on the data"
    return COMPILE, ""


def make_plan(name: str, arguments: list[Any], leaves: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The plan for one signature, as csrc/run.cpp reads it.

    (kind, launch, inputs, results, writes, returns, neff key, reason, keep); `keep` is False when the cause may pass.
    """
    base, _, overload_name = name.partition(".")
    op = overload(base, overload_name)
    call = call_of(op, arguments, leaves)
    if indexes_by_mask(base, call):
        return _unplanned(KIND_HOST, "a mask's index has a size that depends on the data")
    signature = signature_of(name, call)
    if base in _SKIPS_EMPTY_INPUTS:
        joined = base == "aten::cat" and len({leaf.dtype for leaf in call.leaves}) > 1
        if joined and any(0 in leaf.sizes for leaf in call.leaves):
            return _unplanned(KIND_EMPTY, "an empty part decides the dtype")
        if base == "aten::cat" and not empty_parts_fit(call):
            return _unplanned(KIND_FALLBACK, "an empty part has another size than the rest")  # the CPU's error
        call = without_empty_inputs(call)
    try:
        plan, launch, key = _worker.run(
            signature,
            lambda: _obtain(_Unit(name, signature, call.leaves, functools.partial(_lower, call), _tier(call.leaves))),
        )
    except (Unlowerable, compiler.CompileError) as error:
        reason = str(error).removeprefix(f"{name}: ")
        composed = not isinstance(error, Refused) and base not in _COMPOSED_OF_THEMSELVES
        if composed and torch._C._dispatch_has_kernel_for_dispatch_key(op._name, "CompositeExplicitAutograd"):
            return _unplanned(KIND_DECOMPOSED, reason)
        _fallback.allow(name, signature, error)
        _log.info("%s runs on the CPU: %s", signature, reason)
        return _unplanned(KIND_FALLBACK, reason)
    except (OSError, MemoryError) as error:
        return _unplanned(KIND_FALLBACK, f"compiling failed this time: {error}", keep=False)
    if plan is None:
        return _unplanned(KIND_EMPTY, "no elements")
    return _planned(plan, launch, key)


def graph_plan(
    name: str, module: fx.GraphModule, leaves: Sequence[Leaf], origin: Origin | None = None
) -> tuple[Any, ...]:
    """The plan for a whole graph, in the same form; neither its name nor its origin is a part of the key.

    Raises Unlowerable (UnlowerableNode when one node is the cause) or CompileError.
    """
    from neuron_lab.emulator.lowering import lower_graph

    dtype = torch.get_default_dtype()
    signature = graph_signature(module, leaves, dtype)
    preserve = functools.partial(_preserve, name, module, leaves, dtype) if _artifacts.are_wanted() else None
    lower = functools.partial(lower_graph, module, leaves, dtype)
    unit = _Unit(name, signature, tuple(leaves), lower, compiler.Tier.GRAPH, origin, preserve)
    plan, launch, key = _worker.run(f"{name}\n{signature}", lambda: _obtain(unit))
    if plan is None:
        raise Unlowerable("no result has an element")
    return _planned(plan, launch, key)


def _preserve(
    name: str, module: fx.GraphModule, leaves: Sequence[Leaf], dtype: torch.dtype, stored: StoredNeff, key: str
) -> None:
    from neuron_lab.emulator.lowering import torch_dialect

    _start_toolchain()
    raw = torch_dialect(module, leaves, dtype)
    stored = replace(stored, op=name)  # on disk it may lie under the name of an equal graph
    _artifacts.preserve(name.removeprefix("graph::"), str(module.graph), stored, key, raw)


def _planned(plan: ExecPlan, launch: Any, key: str) -> tuple[Any, ...]:
    results = [
        (getattr(torch, out.dtype), out.sizes, out.strides, _buffer_shape(out.sizes, out.strides))
        for out in plan.outputs
    ]
    return KIND_COMPILED, launch, list(plan.inputs), results, list(plan.writes), list(plan.returns), key, "", True


def _unplanned(kind: int, reason: str, *, keep: bool = True) -> tuple[Any, ...]:
    return kind, None, [], [], [], [], "", reason, keep


@dataclass(frozen=True, slots=True)
class _Unit:
    """One thing to compile: an op call or a graph."""

    name: str
    signature: str
    leaves: tuple[Leaf, ...]
    lower: Callable[[], Lowered]
    tier: compiler.Tier
    origin: Origin | None = None
    preserve: Callable[[StoredNeff, str], None] | None = None
    """What is done with the NEFF and its key besides."""


def _tier(leaves: Sequence[Leaf]) -> compiler.Tier:
    elements = sum(math.prod(leaf.sizes) for leaf in leaves)
    return compiler.Tier.LARGE if elements >= _LARGE else compiler.Tier.EAGER


def _lower(call: OpCall) -> Lowered:
    from neuron_lab.emulator.lowering import lower

    return lower(call)


def settle() -> None:
    """Wait until nothing is compiled that was asked for before."""
    _worker.settle()


def _obtain(unit: _Unit) -> tuple[ExecPlan | None, Any, str]:
    """On the compile thread: the executable, from disk or compiled now."""
    _start_runtime()
    key, disk = key_of(unit.signature, unit.tier), store()
    started = clock.now_ns()
    stored = disk.get(key)
    if stored is not None:
        try:
            executable = compiler.load(stored.executable, unit.tier)
            plan = ExecPlan.from_json(stored.plan_json)
        except (compiler.CompileError, KeyError, TypeError, ValueError):
            disk.discard(key)
        else:
            spent = clock.now_ns() - started
            event = events.Compile(unit.name, key, "disk", started, 0, 0, spent, unit.signature)
            events.compiled(event, len(stored.executable))
            _start_library(stored.stablehlo)
            if unit.preserve is not None:
                unit.preserve(stored, key)
            return plan, _launcher(executable, plan), key
    return _compile(unit, key, disk)


def _compile(unit: _Unit, key: str, disk: NeffStore) -> tuple[ExecPlan | None, Any, str]:
    _start_toolchain()
    with events.compiling(unit.name):
        return _compile_now(unit, key, disk)


def _compile_now(unit: _Unit, key: str, disk: NeffStore) -> tuple[ExecPlan | None, Any, str]:
    started = clock.now_ns()
    lowered = unit.lower()
    if lowered.plan.outputs and all(0 in out.sizes for out in lowered.plan.outputs):
        return None, None, ""
    begun = clock.now_ns()
    executable = compiler.compile(lowered.stablehlo, unit.tier)
    cost, serialized = executable.cost, executable.serialize()
    compile_ns = clock.now_ns() - begun
    stored = StoredNeff(
        op=unit.name,
        function=unit.origin.function if unit.origin is not None else "",
        place=unit.origin.place if unit.origin is not None else "",
        signature=unit.signature,
        stablehlo=lowered.stablehlo,
        plan_json=lowered.plan.to_json(),
        executable=serialized,
        fx=lowered.fx,
        trace_s=lowered.trace_s,
        lower_s=lowered.lower_s,
        compile_s=compile_ns / 1e9,
        tier=unit.tier,
        inputs=tuple(_port(unit.leaves[index]) for index in lowered.plan.inputs),
        outputs=tuple(Port(out.dtype, out.sizes) for out in lowered.plan.outputs),
        flops=cost.flops,
        bytes_accessed=cost.bytes_accessed,
        temporary_bytes=cost.temporary_bytes,
    )
    disk.put(key, stored)
    if unit.preserve is not None:
        unit.preserve(stored, key)
    trace_ns, lower_ns = int(lowered.trace_s * 1e9), int(lowered.lower_s * 1e9)
    event = events.Compile(unit.name, key, "compiled", started, trace_ns, lower_ns, compile_ns, unit.signature)
    events.compiled(event, len(stored.executable))
    _start_library(stored.stablehlo)
    return lowered.plan, _launcher(executable, lowered.plan), key


@functools.cache
def _start_runtime() -> None:
    """Make the XLA client and hand the shim what imports arrays."""
    from neuron_lab.emulator import shim

    started = clock.now_ns()
    client = compiler.client()
    from jaxlib import _jax

    shim().set_runtime(_jax.dlpack_managed_tensor_to_buffer, client.local_devices()[0])
    fingerprint()
    events.started(started, clock.now_ns())


@functools.cache
def _start_toolchain() -> None:
    """Import torch-mlir and parse its pipelines: only a process that really compiles pays for it."""
    from neuron_lab.emulator.lowering import start

    started = clock.now_ns()
    start()
    events.started(started, clock.now_ns())


def _start_library(stablehlo: str) -> None:
    if "stablehlo.dot" in stablehlo or "stablehlo.convolution" in stablehlo:
        _start_products()


@functools.cache
def _start_products() -> None:
    started = clock.now_ns()
    compiler.start_products()
    events.started(started, clock.now_ns())


def _launcher(executable: compiler.Executable, plan: ExecPlan) -> Any:
    shapes = [(_buffer_shape(out.sizes, out.strides), compiler.numpy_dtype(out.dtype)) for out in plan.outputs]
    return compiler.launcher(executable, len(plan.inputs), shapes)


def _port(leaf: Leaf) -> Port:
    return Port(short(leaf.dtype), leaf.sizes)


def _buffer_shape(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    from neuron_lab.emulator.lowering import result_shape

    return result_shape(sizes, strides)
