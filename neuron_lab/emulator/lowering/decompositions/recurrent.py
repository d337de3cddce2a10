"""Fused LSTM and GRU cells, with the shapes of the CUDA kernels (aten/src/ATen/native/cuda/RNN.cu)."""

from __future__ import annotations

import torch
from torch import Tensor

from .._promotion import cast, computation_dtype
from .._registry import decompose

aten = torch.ops.aten


def _wide(tensor: Tensor) -> Tensor:
    return cast(tensor, computation_dtype(tensor.dtype))


def _biased(gates: Tensor, bias: Tensor | None) -> Tensor:
    return _wide(gates) if bias is None else torch.add(_wide(gates), _wide(bias))


def _parts(gates: Tensor, count: int) -> list[Tensor]:
    size = gates.size(-1) // count
    return [torch.narrow(gates, -1, i * size, size) for i in range(count)]


@decompose(aten._thnn_fused_lstm_cell.default, described=False)
def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    gates = torch.add(_biased(input_gates, input_bias), _biased(hidden_gates, hidden_bias))
    raw_in, raw_forget, raw_cell, raw_out = _parts(gates, 4)
    enter, forget, leave = torch.sigmoid(raw_in), torch.sigmoid(raw_forget), torch.sigmoid(raw_out)
    cell = torch.tanh(raw_cell)
    cy = torch.add(torch.mul(forget, _wide(cx)), torch.mul(enter, cell))
    hy = torch.mul(leave, torch.tanh(cy))
    workspace = torch.cat([enter, forget, cell, leave], -1)
    dtype = cx.dtype
    return cast(hy, dtype), cast(cy, dtype), cast(workspace, dtype)


@decompose(aten._thnn_fused_lstm_cell_backward_impl.default, described=False)
def lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    enter, forget, cell, leave = _parts(_wide(workspace), 4)
    zero = torch.zeros(cx.shape, dtype=enter.dtype)
    grad_h = zero if grad_hy is None else _wide(grad_hy)
    grad_c = zero if grad_cy is None else _wide(grad_cy)
    squashed = torch.tanh(_wide(cy))
    grad_leave = torch.mul(torch.mul(torch.mul(grad_h, squashed), torch.sub(1.0, leave)), leave)
    through = torch.mul(torch.mul(grad_h, leave), torch.sub(1.0, torch.mul(squashed, squashed)))
    grad_c = torch.add(grad_c, through)
    grad_enter = torch.mul(torch.mul(torch.mul(grad_c, cell), torch.sub(1.0, enter)), enter)
    grad_cell = torch.mul(torch.mul(grad_c, enter), torch.sub(1.0, torch.mul(cell, cell)))
    grad_forget = torch.mul(torch.mul(torch.mul(grad_c, _wide(cx)), torch.sub(1.0, forget)), forget)
    grad_gates = cast(torch.cat([grad_enter, grad_forget, grad_cell, grad_leave], -1), workspace.dtype)
    grad_cx = cast(torch.mul(grad_c, forget), cx.dtype)
    return grad_gates, grad_cx, torch.sum(grad_gates, [0]) if has_bias else None


@decompose(aten._thnn_fused_gru_cell.default, described=False)
def gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    in_reset, in_update, in_new = _parts(_biased(input_gates, input_bias), 3)
    hid_reset, hid_update, hid_new = _parts(_biased(hidden_gates, hidden_bias), 3)
    reset = torch.sigmoid(torch.add(in_reset, hid_reset))
    update = torch.sigmoid(torch.add(in_update, hid_update))
    new = torch.tanh(torch.add(in_new, torch.mul(reset, hid_new)))
    old = _wide(hx)
    hy = torch.add(new, torch.mul(update, torch.sub(old, new)))
    workspace = torch.cat([reset, update, new, old, hid_new], -1)
    return cast(hy, hx.dtype), cast(workspace, hx.dtype)


@decompose(aten._thnn_fused_gru_cell_backward.default, described=False)
def gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    reset, update, new, old, hid_new = _parts(_wide(workspace), 5)
    grad = _wide(grad_hy)
    grad_update = torch.mul(torch.mul(torch.mul(grad, torch.sub(old, new)), torch.sub(1.0, update)), update)
    grad_hx = cast(torch.mul(grad, update), grad_hy.dtype)
    grad_new = torch.mul(torch.mul(grad, torch.sub(1.0, update)), torch.sub(1.0, torch.mul(new, new)))
    grad_hid_new = torch.mul(grad_new, reset)
    grad_reset = torch.mul(torch.mul(torch.mul(grad_new, hid_new), torch.sub(1.0, reset)), reset)
    grad_input = cast(torch.cat([grad_reset, grad_update, grad_new], -1), workspace.dtype)
    grad_hidden = cast(torch.cat([grad_reset, grad_update, grad_hid_new], -1), workspace.dtype)
    if not has_bias:
        return grad_input, grad_hidden, grad_hx, None, None
    return grad_input, grad_hidden, grad_hx, torch.sum(grad_input, [0]), torch.sum(grad_hidden, [0])
