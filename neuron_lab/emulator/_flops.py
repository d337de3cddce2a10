"""PyTorch's FlopCounterMode counts matrix products by op, and the backward of `linear` is an op of its own on this device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import flop_counter

__all__ = ["install"]


def install() -> None:
    """Count `aten::linear_backward` as the two products that it stands for; it was counted as nothing."""
    if torch.ops.aten.linear_backward not in flop_counter.flop_registry:
        register: Any = flop_counter.register_flop_formula
        register(torch.ops.aten.linear_backward)(_linear_backward)


def _linear_backward(
    input: Sequence[int],
    gradient: Sequence[int],
    weight: Sequence[int],
    output_mask: Sequence[bool],
    *,
    out_shape: Any = None,
    **_: Any,
) -> int:
    product = 2 * math.prod(gradient) * weight[-1]
    return product * sum(output_mask[:2])
