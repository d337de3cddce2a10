"""Calls as text: what people read as a signature, and what the NEFF store hashes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from neuron_lab.emulator.lowering import Leaf, LeafRef, OpCall


def signature_of(name: str, call: OpCall) -> str:
    """The call as text: op, shapes, dtypes, layouts and static arguments, e.g. `aten::add.Tensor(float32[8, 8], int64~)`.

    `~` marks a Python number that became a 0-d tensor, `#` one that became an input; `{1, 0}` is a buffer order.
    """
    parts = [_text(value, call) for value in call.args]
    parts += [f"{key}={_text(value, call)}" for key, value in call.kwargs.items() if value is not None]
    return f"{name}({', '.join(parts)}) default={short(call.default_dtype)}"


def graph_signature(module: fx.GraphModule, leaves: Sequence[Leaf], default_dtype: torch.dtype) -> str:
    """The graph as text: inputs, the strides of its metadata that lowering reads, and its nodes."""
    inputs = ", ".join(map(leaf_text, leaves))
    output = next(node for node in module.graph.nodes if node.op == "output")
    read = [node.all_input_nodes[0] for node in module.graph.nodes if node.target is torch.ops.aten.as_strided.default]
    strides = ", ".join(str(_strides(node)) for node in (*output.all_input_nodes, *read))
    return f"graph({inputs}) strides={strides} default={short(default_dtype)}\n{module.graph}"


def _strides(node: fx.Node) -> list[int] | None:
    value = node.meta.get("val")
    return [int(stride) for stride in value.stride()] if isinstance(value, Tensor) else None


def _text(value: Any, call: OpCall) -> str:
    if isinstance(value, LeafRef):
        return leaf_text(call.leaves[value.index])
    if isinstance(value, list):
        return f"[{', '.join(_text(item, call) for item in value)}]"
    if isinstance(value, torch.dtype):
        return short(value)
    return re.sub(r"^torch\.", "", repr(value))


def leaf_text(leaf: Leaf) -> str:
    name = short(leaf.dtype)
    if leaf.number:
        return f"{name}#"
    if leaf.wrapped:
        return f"{name}~"
    layout = "" if leaf.layout is None else f"{{{', '.join(map(str, leaf.layout))}}}"
    return f"{name}{list(leaf.sizes)}{layout}"


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
