"""Fake tensors of the device get the sizes and strides that its ops give: those of the CPU.

PyTorch decides some layouts, and what a bag of embeddings keeps for its backward, by the device's name. A wrong layout is not seen
in the values, but a dropout draws its mask in the order of memory, and a program may look at strides or take a view that they allow.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from neuron_lab.emulator import _attach

__all__ = ["install"]

_aten = torch.ops.aten
_BY_DEVICE = frozenset(
    {
        _aten._embedding_bag.default,
        _aten._embedding_bag_forward_only.default,
        _aten.convolution.default,
        _aten.convolution_backward.default,
        _aten.pixel_shuffle.default,
        _aten.pixel_unshuffle.default,
    }
)


def install() -> None:
    """Let fake tensors of the device go through the CPU's rules for these ops."""
    from torch._subclasses import fake_impls

    # First: PyTorch has a rule of its own for convolutions.
    fake_impls.op_implementations_checks.insert(0, (_BY_DEVICE.__contains__, _as_on_the_cpu))


def _as_on_the_cpu(mode: Any, op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    device = next(value.device for value in pytree.tree_leaves((args, kwargs)) if isinstance(value, Tensor))
    if device.type != _attach.DEVICE:
        return NotImplemented
    with mode:
        args, kwargs = pytree.tree_map_only(Tensor, lambda tensor: _like(tensor, torch.device("cpu")), (args, kwargs))
        return pytree.tree_map_only(Tensor, lambda tensor: _like(tensor, device), op(*args, **kwargs))


def _like(tensor: Tensor, device: torch.device) -> Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)
