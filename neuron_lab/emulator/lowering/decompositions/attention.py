"""Scaled dot product attention, in the form that an out-of-tree device receives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .._promotion import cast, computation_dtype
from .._records import Unlowerable
from .._registry import decompose

aten = torch.ops.aten


def _wide(tensor: Tensor) -> Tensor:
    return cast(tensor, computation_dtype(tensor.dtype))


def _repeated(tensor: Tensor, heads: int) -> Tensor:
    """Grouped query attention: every key and value head serves ``heads / own`` query heads."""
    own = tensor.size(1)
    if own == heads:
        return tensor
    batch, _, length, width = tensor.shape
    return torch.reshape(
        torch.unsqueeze(tensor, 2).expand([batch, own, heads // own, length, width]), [batch, heads, length, width]
    )


def _grouped(grad: Tensor, heads: int) -> Tensor:
    """Adjoint of ``_repeated``."""
    batch, total, length, width = grad.shape
    if total == heads:
        return grad
    return torch.sum(torch.reshape(grad, [batch, heads, total // heads, length, width]), [2])


def _scores(query: Tensor, key: Tensor, bias: Tensor | None, is_causal: bool, scale: float) -> Tensor:
    scores = torch.mul(torch.matmul(query, key.transpose(-2, -1)), scale)
    if bias is not None:
        scores = torch.add(scores, _wide(bias))
    if is_causal:
        rows, columns = scores.shape[-2:]
        allowed = torch.le(torch.arange(columns), torch.reshape(torch.arange(rows), [rows, 1]))
        scores = torch.where(allowed, scores, -math.inf)
    return scores


def _scale(query: Tensor, scale: float | None) -> float:
    return 1.0 / math.sqrt(query.size(-1)) if scale is None else scale


def _bias(attn_bias: Tensor | None) -> Tensor | None:
    """A boolean mask as the additive one that the kernels take."""
    if attn_bias is None or attn_bias.dtype != torch.bool:
        return attn_bias
    return torch.where(attn_bias, torch.zeros([], dtype=torch.float32), -math.inf)


@decompose(aten._safe_softmax.default)
def safe_softmax(self: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """Zeros where a row is -inf alone, decided on the rows' maxima: PyTorch's own looks at every score three times more."""
    result = self.dtype if dtype is None else dtype
    wide = _wide(cast(self, result))
    top = torch.amax(wide, [dim], True)
    weights = torch.exp(torch.sub(wide, torch.where(torch.eq(top, -math.inf), 0.0, top)))
    total = torch.sum(weights, [dim], True)
    return cast(torch.div(weights, torch.where(torch.eq(total, 0.0), 1.0, total)), result)


@decompose(aten._scaled_dot_product_fused_attention_overrideable.default)
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Tensor | int, ...]:
    """``logsumexp`` is float32 [batch, heads, queries]; the philox state is unused, dropout being refused."""
    if dropout_p:
        raise Unlowerable("dropout inside attention needs random numbers")
    heads = query.size(1)
    wide_key, wide_value = _repeated(_wide(key), heads), _repeated(_wide(value), heads)
    scores = _scores(_wide(query), wide_key, _bias(attn_bias), is_causal, _scale(query, scale))
    logsumexp = torch.logsumexp(scores, [-1])
    top = torch.unsqueeze(logsumexp, -1)
    weights = torch.where(torch.eq(top, -math.inf), 0.0, torch.exp(torch.sub(scores, top)))
    output = torch.matmul(weights, wide_value)
    none = torch.zeros([1], dtype=torch.int64)
    return (
        cast(output, query.dtype),
        logsumexp,
        none,
        none.clone(),
        query.size(2),
        key.size(2),
        torch.zeros([], dtype=torch.int64),
        torch.zeros([], dtype=torch.int64),
        torch.zeros([1], dtype=query.dtype),
    )


@decompose(aten._scaled_dot_product_fused_attention_overrideable_backward.default)
def attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    grad_input_mask: Sequence[bool],
    out: Tensor,
    logsumexp: Tensor,
    cum_seq_q: Tensor,
    cum_seq_k: Tensor,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Tensor,
    philox_offset: Tensor,
    *,
    scale: float | None = None,
) -> tuple[Tensor | None, ...]:
    if dropout_p:
        raise Unlowerable("dropout inside attention needs random numbers")
    factor = _scale(query, scale)
    heads = query.size(1)
    wide_query, grad = _wide(query), _wide(grad_out)
    wide_key, wide_value = _repeated(_wide(key), heads), _repeated(_wide(value), heads)
    scores = _scores(wide_query, wide_key, _bias(attn_bias), is_causal, factor)
    top = torch.unsqueeze(cast(logsumexp, scores.dtype), -1)
    weights = torch.where(torch.eq(top, -math.inf), 0.0, torch.exp(torch.sub(scores, top)))
    grad_value = _grouped(torch.matmul(weights.transpose(-2, -1), grad), value.size(1))
    grad_weights = torch.matmul(grad, wide_value.transpose(-2, -1))
    row = torch.sum(torch.mul(grad, _wide(out)), [-1], True)
    grad_scores = torch.mul(weights, torch.sub(grad_weights, row))
    grad_bias = None
    if attn_bias is not None and grad_input_mask[3]:
        grad_bias = cast(_summed_to(grad_scores, attn_bias), attn_bias.dtype)
    scaled = torch.mul(grad_scores, factor)
    grad_query = torch.matmul(scaled, wide_key)
    grad_key = _grouped(torch.matmul(scaled.transpose(-2, -1), wide_query), key.size(1))
    return cast(grad_query, query.dtype), cast(grad_key, key.dtype), cast(grad_value, value.dtype), grad_bias


def _summed_to(grad: Tensor, like: Tensor) -> Tensor:
    """Adjoint of broadcasting ``like`` to the shape of ``grad``."""
    extra = grad.dim() - like.dim()
    dims = [d for d in range(grad.dim()) if d < extra or (like.size(d - extra) == 1 and grad.size(d) != 1)]
    return torch.reshape(torch.sum(grad, dims), like.shape) if dims else grad
