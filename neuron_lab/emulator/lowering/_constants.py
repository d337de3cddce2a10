"""Constant tensors are kept from torch-mlir, which folds what is computed from them, and folds some of it wrong: -1 becomes 2**64 - 1,
``trunc`` of 1 becomes -1, and a few ops end the process. It sees arguments; the lowered function gets the constants back.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ._island import type_of

aten = torch.ops.aten
_FORMATS = {torch.float64: "<d", torch.float32: "<f", torch.float16: "<e"}
_VALUES: dict[Any, Callable[[fx.Node], Any]] = {
    aten.full.default: lambda node: node.args[1],
    aten.full_like.default: lambda node: node.args[1],
    aten.scalar_tensor.default: lambda node: node.args[0],
    **dict.fromkeys((aten.zeros.default, aten.zeros_like.default), lambda node: 0),
    **dict.fromkeys((aten.ones.default, aten.ones_like.default), lambda node: 1),
}
"""Ops whose result is one number everywhere, and the number."""


def hidden(graph: fx.Graph) -> tuple[fx.Graph, list[str]]:
    """The graph with its constants as inputs behind the others, and each constant as StableHLO."""
    constants = [node for node in graph.nodes if node.target in _VALUES]
    if not constants:
        return graph, []
    changed = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    for node in inputs:
        copies[node] = changed.node_copy(node)
    for index, node in enumerate(constants):
        copies[node] = changed.placeholder(f"constant{index}")
        copies[node].meta["val"] = node.meta["val"]
    for node in graph.nodes:
        if node not in copies:
            copies[node] = changed.node_copy(node, copies.__getitem__)
    return changed, [_constant(node) for node in constants]


def restored(text: str, constants: list[str], inputs: int) -> str:
    """The text of a function whose arguments behind the first ``inputs`` are ``constants``, with these in its body."""
    if not constants:
        return text
    begin = text.index("{\n", text.index("func.func")) + 2
    head, body = text[:begin], text[begin:]
    for index in range(inputs, inputs + len(constants)):
        head, found = re.subn(rf"(, )?%arg{index}: tensor<[^>]*>", "", head)
        assert found == 1, head
    lines = "".join(f"    %arg{inputs + index} = {constant}\n" for index, constant in enumerate(constants))
    return head + lines + body


def _constant(node: fx.Node) -> str:
    value: torch.Tensor = node.meta["val"]
    return f"stablehlo.constant dense<{_literal(_VALUES[node.target](node), value.dtype)}> : {type_of(value)}"


def _literal(number: Any, dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return "true" if number else "false"
    if not dtype.is_floating_point:
        return str(int(number))
    # Bits are exact, and the only way to write infinity and NaN.
    rounded = torch.tensor(float(number), dtype=dtype).double().item()
    if dtype == torch.bfloat16:
        return f"0x{struct.unpack('<I', struct.pack('<f', rounded))[0] >> 16:04X}"
    packed = struct.pack(_FORMATS[dtype], rounded)
    return f"0x{packed[::-1].hex().upper()}"
