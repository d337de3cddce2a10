"""``lower``: one ATen call -> StableHLO and the plan to run it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from neuron_lab.emulator import clock

from ._fake import fake_tensors
from ._mlir import to_stablehlo, toolchain
from ._records import Leaf, LeafRef, Lowered, OpCall, Refused, Unlowerable
from ._registry import LIFTED
from ._schema import functional_form
from ._trace import trace


def lower(call: OpCall) -> Lowered:
    """Lower one call. Raises Unlowerable with a one-line reason; nothing else escapes.

    To be called from one thread at a time, with clean thread-local state. The leaves are specifications only.
    """
    started = clock.now_ns()
    with fake_tensors(call.default_dtype):
        traced = _guarded(call.op, lambda: trace(call))
    traced_at = clock.now_ns()
    text = _guarded(call.op, lambda: to_stablehlo(traced.graph))
    return Lowered(
        stablehlo=text,
        plan=traced.plan,
        fx=str(traced.graph),
        decomposed=traced.decomposed,
        trace_s=(traced_at - started) / 1e9,
        lower_s=(clock.now_ns() - traced_at) / 1e9,
    )


def _guarded(op: OpOverload, step: Callable[[], Any]) -> Any:
    name = f"{op._schema.name}.{op._overloadname}".removesuffix(".default")
    try:
        return step()
    except Unlowerable as reason:
        kind = Refused if isinstance(reason, Refused) else Unlowerable
        raise kind(f"{name}: {_one_line(reason)}") from reason
    except Exception as error:  # PyTorch and torch-mlir raise many types; each one means that the op stays on the CPU
        raise Unlowerable(f"{name}: {type(error).__name__}: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:240] if lines else "no message"


def start() -> None:
    """Import torch-mlir and what tracing needs, so that the first op's own times do not hold them."""
    toolchain()
    one = Leaf(torch.float32, (1,), (1,), None)
    lower(OpCall(torch.ops.aten.neg.default, (LeafRef(0),), {}, (one,), torch.float32))


@functools.cache
def lifts_numbers(op: OpOverload) -> tuple[bool, ...]:
    """For each schema argument of ``op``: whether its number is lifted to an input, else it is static."""
    form = None if op in LIFTED else functional_form(op)
    names = LIFTED.get(form.functional if form else op, frozenset())
    return tuple(argument.name in names for argument in op._schema.arguments)
