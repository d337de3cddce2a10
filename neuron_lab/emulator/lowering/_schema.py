"""Functional forms of in-place and out= overloads, and what a schema mutates."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload


@dataclass(frozen=True, slots=True)
class Form:
    """The functional overload of an op, and which arguments its results are written to."""

    functional: OpOverload
    mutated: tuple[str, ...]
    """Names of the written arguments, in the order of the functional results. Empty for functional ops."""
    out_variant: bool
    factory: bool = False
    """The output's dtype must be passed to the functional overload."""


_OPTIONS = frozenset({"dtype", "layout", "device", "pin_memory"})
"""What a factory is told instead of an output."""


def _signature(op: OpOverload, *, skip_out: bool) -> list[tuple[str, str]]:
    return [(arg.name, str(arg.type)) for arg in op._schema.arguments if not (skip_out and arg.is_out)]


def _find(
    packet: torch._ops.OpOverloadPacket | None, wanted: list[tuple[str, str]], *, factory: bool = False
) -> OpOverload | None:
    if packet is None:
        return None
    for name in packet.overloads():  # type: ignore[no-untyped-call]
        candidate: OpOverload = getattr(packet, name)
        signature = _signature(candidate, skip_out=False)
        if factory:
            signature = [item for item in signature if item[0] not in _OPTIONS]
        if not candidate._schema.is_mutable and signature == wanted:
            return candidate
    return None


def _packet(namespace: str, name: str) -> torch._ops.OpOverloadPacket | None:
    packets = getattr(torch.ops, namespace)
    return getattr(packets, name) if hasattr(packets, name) else None


@functools.cache
def functional_form(op: OpOverload) -> Form | None:
    """The functional form of ``op``; None when PyTorch has none."""
    schema = op._schema
    if not schema.is_mutable:
        return Form(op, (), False)
    namespace, _, name = schema.name.partition("::")
    mutated = tuple(arg.name for arg in schema.arguments if arg.alias_info is not None and arg.alias_info.is_write)
    if any(arg.is_out for arg in schema.arguments):
        candidates = [_packet(namespace, name)]
        skip_out = True
    elif name.endswith("_"):
        candidates = [_packet(namespace, name[:-1])]
        skip_out = False
    else:
        candidates = [_packet(namespace, f"{name}_functional"), _packet(namespace, name)]
        skip_out = False
    wanted = _signature(op, skip_out=skip_out)
    for packet in candidates:
        found = _find(packet, wanted)
        if found is not None:
            return Form(found, mutated, skip_out)
    found = _find(candidates[0], wanted, factory=True) if skip_out else None
    return None if found is None else Form(found, mutated, True, factory=True)


def bind(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, without defaults."""
    arguments = op._schema.arguments
    positional = {arg.name: value for arg, value in zip(arguments, args, strict=False)}
    return {**positional, **kwargs}
