"""Calls as C++ describes them, turned into what lowering takes: leaves, and references to them in the arguments."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch._ops import OpOverload

from neuron_lab.emulator.lowering import Leaf, LeafRef, OpCall

# Their index tensors may be on the host, as on every PyTorch device.
TAKES_HOST_TENSORS = frozenset(
    {
        "aten::index",
        "aten::index_put",
        "aten::index_put_",
        "aten::_index_put_impl_",
        "aten::_unsafe_index",
        "aten::_unsafe_index_put",
    }
    | {"aten::_pack_padded_sequence", "aten::_pad_packed_sequence"}
)
_MEMORY_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
_PLACEMENT = frozenset({"device", "layout", "pin_memory", "non_blocking"})


def _leaf(
    dtype: torch.dtype, sizes: tuple[int, ...], layout: tuple[int, ...] | None, wrapped: bool, number: bool
) -> Leaf:
    return Leaf(dtype, sizes, _strides(sizes, layout), layout, wrapped, number)


def _strides(sizes: tuple[int, ...], layout: tuple[int, ...] | None) -> tuple[int, ...]:
    """Logical strides of a dense buffer; dimensions that are not in it are expanded (0) or of size 1."""
    order = range(len(sizes)) if layout is None else layout
    strides = [0] * len(sizes)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= sizes[dim]
    for dim in reversed(range(len(sizes))):
        if sizes[dim] == 1 and layout is not None:
            strides[dim] = strides[dim + 1] * sizes[dim + 1] if dim + 1 < len(sizes) else 1
    return tuple(strides)


def call_of(op: OpOverload, arguments: list[Any], leaves: list[tuple[Any, ...]]) -> OpCall:
    """The call; a leaf is (dtype, sizes, layout, wrapped, number) as csrc/plan.cpp hands it over."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument, value in zip(op._schema.arguments, arguments, strict=True):
        converted = (
            _MEMORY_FORMATS[value] if argument.name == "memory_format" and value is not None else _with_refs(value)
        )
        if argument.kwarg_only:
            if argument.name not in _PLACEMENT:
                kwargs[argument.name] = converted
        else:
            args.append(converted)
    return OpCall(op, tuple(args), kwargs, tuple(_leaf(*leaf) for leaf in leaves), torch.get_default_dtype())


def _with_refs(value: Any) -> Any:
    if isinstance(value, tuple):
        return LeafRef(value[1])
    if isinstance(value, list):
        return [_with_refs(item) for item in value]
    return value


def indexes_by_mask(base: str, call: OpCall) -> bool:
    if base not in TAKES_HOST_TENSORS or len(call.args) < 2 or not isinstance(call.args[1], list):
        return False
    indices = [item for item in call.args[1] if isinstance(item, LeafRef)]
    return any(call.leaves[item.index].dtype in (torch.bool, torch.uint8) for item in indices)


def empty_parts_fit(call: OpCall) -> bool:
    """Whether every empty part is a plain `[0]`, which PyTorch lets be anywhere, or differs from the others in one dimension only."""
    sizes = [call.leaves[part.index].sizes for part in call.args[0]]
    full = next((size for size in sizes if 0 not in size), ())
    dim = (call.args[1] if len(call.args) > 1 else 0) % max(len(full), 1)
    others = {size[:dim] + size[dim + 1 :] for size in sizes if size != (0,)}
    return len(others) == 1


def without_empty_inputs(call: OpCall) -> OpCall:
    """Left out of a list, None as an argument."""

    def is_empty(value: Any) -> bool:
        return isinstance(value, LeafRef) and 0 in call.leaves[value.index].sizes

    def kept(value: Any) -> Any:
        if isinstance(value, list):
            return [item for item in value if not is_empty(item)]
        return None if is_empty(value) else value

    return dataclasses.replace(call, args=tuple(map(kept, call.args)))
