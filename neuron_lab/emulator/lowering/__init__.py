"""Lowering of one ATen call to StableHLO: the emulator's compiler front end."""

from __future__ import annotations

from ._layout import result_shape
from ._lower import lifts_numbers, lower, start
from ._records import ExecPlan, Leaf, LeafRef, Lowered, OpCall, Output, Unlowerable

__all__ = [
    "ExecPlan",
    "Leaf",
    "LeafRef",
    "Lowered",
    "OpCall",
    "Output",
    "Unlowerable",
    "lifts_numbers",
    "lower",
    "result_shape",
    "start",
]
