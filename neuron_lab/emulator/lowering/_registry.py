"""Where decompositions, number rules and programs register themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor
from torch._ops import OpOverload

Function = TypeVar("Function", bound=Callable[..., Any])
_NUMBERS = ("number", "Optional[number]", "List[number]")

DECOMPOSITIONS: dict[OpOverload, Callable[..., Any]] = {}
"""Rewrites of an op into other ops: same arguments and results as the op; NotImplemented keeps the op as it is."""

RULES: dict[OpOverload, Callable[..., Any]] = {}
"""Like decompositions, but any number of the call may be a Number."""

LIFTED: dict[OpOverload, frozenset[str]] = {}
"""Names of the ``Scalar`` arguments that a rule accepts as Number."""

PROGRAMS: dict[OpOverload, Callable[..., Program]] = {}
"""Ops with effects that their schema or its functional form does not describe."""


COMPLEX: dict[OpOverload, Callable[..., Any]] = {}
"""Like decompositions, for calls with a complex tensor."""

UNDESCRIBED: set[OpOverload] = set()
"""Decomposed ops without a usable metadata function for CPU tensors: their results are contiguous."""


@dataclass(frozen=True, slots=True)
class Program:
    """Results of an op that also writes to its arguments."""

    returns: tuple[Tensor | None, ...]
    writes: dict[str, Tensor | list[Tensor]]
    """New value by argument name."""


def decompose(*ops: OpOverload, described: bool = True) -> Callable[[Function], Function]:
    """Register a decomposition for ``ops``; ``described`` tells whether fake tensors know their results."""

    def register(function: Function) -> Function:
        for op in ops:
            DECOMPOSITIONS[op] = function
            if not described:
                UNDESCRIBED.add(op)
        return function

    return register


def on_complex(*ops: OpOverload) -> Callable[[Function], Function]:
    """Register a decomposition for the calls of ``ops`` with a complex tensor."""

    def register(function: Function) -> Function:
        for op in ops:
            COMPLEX[op] = function
        return function

    return register


def rule(*ops: OpOverload, lifts: str = "") -> Callable[[Function], Function]:
    """Register a number rule for ``ops``; ``lifts`` names the ``Scalar`` arguments, separated by spaces."""

    def register(function: Function) -> Function:
        for op in ops:
            RULES[op] = function
            names = {arg.name for arg in op._schema.arguments if str(arg.type) in _NUMBERS}
            LIFTED[op] = frozenset(lifts.split()) & names
        return function

    return register


def program(*ops: OpOverload, lifts: str = "") -> Callable[[Function], Function]:
    """Register a program for ``ops``; ``lifts`` names the ``float`` arguments that it accepts as Number."""

    def register(function: Function) -> Function:
        for op in ops:
            PROGRAMS[op] = function
            names = {arg.name for arg in op._schema.arguments if str(arg.type) == "float"}
            LIFTED[op] = frozenset(lifts.split()) & names
        return function

    return register
