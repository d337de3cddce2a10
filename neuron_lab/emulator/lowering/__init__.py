"""Lowering of one ATen call to StableHLO: the emulator's compiler front end."""

from __future__ import annotations

from ._graph import UnlowerableNode, always_eager, lower_graph, torch_dialect
from ._layout import contiguous_strides, leaf_of, result_shape
from ._lower import lifts_numbers, lower, start
from ._records import ExecPlan, Leaf, LeafRef, Lowered, OpCall, Output, Refused, Unlowerable

__all__ = [
    "ExecPlan",
    "Leaf",
    "LeafRef",
    "Lowered",
    "OpCall",
    "Output",
    "Refused",
    "Unlowerable",
    "UnlowerableNode",
    "always_eager",
    "contiguous_strides",
    "leaf_of",
    "lifts_numbers",
    "lower",
    "lower_graph",
    "result_shape",
    "start",
    "torch_dialect",
]
