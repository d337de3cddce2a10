"""The records that pass between dispatch, lowering and the executable cache."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Leaf:
    """One tensor, or one lifted number, that an op receives.

    Leaves are numbered in order of appearance in ``(args, kwargs)`` with lists flattened.
    """

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """Logical strides in elements; dense after dropping dims of size 1 or stride 0."""
    layout: tuple[int, ...] | None
    """None: plain contiguous, the buffer shape is ``sizes``. Otherwise the logical dims in physical order, slowest
    first, without dims of size 1 or stride 0; the buffer shape is ``[sizes[d] for d in layout]``."""
    wrapped: bool = False
    """A Python number that arrives as a 0-d tensor: weak in type promotion."""
    number: bool = False
    """A schema ``Scalar`` argument lifted to a 0-d input."""


@dataclass(frozen=True, slots=True)
class LeafRef:
    """Stands in args or kwargs where the tensor or number stood."""

    index: int


@dataclass(frozen=True, slots=True)
class OpCall:
    """One call of an ATen overload with its tensors replaced by specifications."""

    op: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: tuple[Leaf, ...]
    default_dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Output:
    """One executable result: a dense buffer in stride order."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


Returns = tuple[tuple[Any, ...], ...]
"""One entry per schema return: ("out", k) | ("leaf", j) | ("none",) | ("list", (entries...))."""


@dataclass(frozen=True, slots=True)
class ExecPlan:
    """How to feed the executable and what to do with its results."""

    inputs: tuple[int, ...]
    """Leaf index of every executable parameter; unused leaves are absent."""
    outputs: tuple[Output, ...]
    writes: tuple[tuple[int, int], ...]
    """(result k, leaf j): copy result k into leaf j's memory."""
    returns: Returns

    def to_json(self) -> str:
        """The plan as one JSON object."""
        return json.dumps(
            {
                "inputs": self.inputs,
                "outputs": [[out.dtype, out.sizes, out.strides] for out in self.outputs],
                "writes": self.writes,
                "returns": self.returns,
            }
        )

    @staticmethod
    def from_json(text: str) -> ExecPlan:
        """Read what ``to_json`` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        data = json.loads(text)
        return ExecPlan(
            inputs=tuple(data["inputs"]),
            outputs=tuple(Output(dtype, tuple(sizes), tuple(strides)) for dtype, sizes, strides in data["outputs"]),
            writes=tuple((k, j) for k, j in data["writes"]),
            returns=_tuples(data["returns"]),
        )


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Lowered:
    """The result of lowering one call."""

    stablehlo: str
    """Text of a ``builtin.module`` with ``@main``."""
    plan: ExecPlan
    fx: str
    """The traced graph, readable, as written to the NEFF."""
    decomposed: bool
    """True when the op was rewritten into other ops before torch-mlir saw it."""
    trace_s: float
    lower_s: float


class Unlowerable(Exception):
    """The op cannot become an emulated NEFF; the message is the reason, one line. It runs on the CPU instead."""


class Refused(Unlowerable):
    """The CPU's own kernel must have the call, for it is the one to raise."""
