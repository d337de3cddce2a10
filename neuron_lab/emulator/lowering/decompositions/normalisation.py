"""Layer, group, batch and RMS normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .._island import island
from .._promotion import cast, computation_dtype
from .._registry import Program, decompose, program
from .reductions import variance

aten = torch.ops.aten


def _wide(tensor: Tensor) -> Tensor:
    return cast(tensor, computation_dtype(tensor.dtype))


def _standardised(wide: Tensor, dims: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    spread, mean = variance(wide, dims, 0.0, True)
    rstd = torch.rsqrt(torch.add(spread, eps))
    return torch.mul(torch.sub(wide, mean), rstd), mean, rstd


@decompose(aten.native_layer_norm.default)
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    dims = list(range(input.dim() - len(normalized_shape), input.dim()))
    out, mean, rstd = _standardised(_wide(input), dims, eps)
    if weight is not None:
        out = torch.mul(out, _wide(weight))
    if bias is not None:
        out = torch.add(out, _wide(bias))
    return cast(out, input.dtype), mean, rstd


@decompose(aten.native_group_norm.default)
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    grouped = torch.reshape(_wide(input), [N, group, C // group * HxW])
    out, mean, rstd = _standardised(grouped, [2], eps)
    out = torch.reshape(out, input.shape)
    channel = [1, C] + [1] * (input.dim() - 2)
    if weight is not None:
        out = torch.mul(out, torch.reshape(_wide(weight), channel))
    if bias is not None:
        out = torch.add(out, torch.reshape(_wide(bias), channel))
    return cast(out, input.dtype), torch.reshape(mean, [N, group]), torch.reshape(rstd, [N, group])


Batch = tuple[Tensor, Tensor, Tensor]


def _batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running: tuple[Tensor | None, Tensor | None],
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Batch, dict[str, Tensor | list[Tensor]]]:
    wide = _wide(input)
    channel = [1, input.size(1)] + [1] * (input.dim() - 2)
    dims = [0, *range(2, input.dim())]
    writes: dict[str, Tensor | list[Tensor]] = {}
    if training:
        spread, mean = variance(wide, dims, 0.0, False)
        total = input.numel() // input.size(1)
        unbiased = torch.mul(spread, total / (total - 1)) if total > 1 else torch.mul(spread, math.nan)
        for name, old, new in (("running_mean", running[0], mean), ("running_var", running[1], unbiased)):
            if old is not None:
                mixed = torch.add(torch.mul(_wide(old), 1 - momentum), torch.mul(new, momentum))
                writes[name] = cast(mixed, old.dtype)
    else:
        assert running[0] is not None and running[1] is not None
        mean, spread = _wide(running[0]), _wide(running[1])
    invstd = torch.rsqrt(torch.add(spread, eps))
    scale = invstd if weight is None else torch.mul(invstd, _wide(weight))
    out = torch.mul(torch.sub(wide, torch.reshape(mean, channel)), torch.reshape(scale, channel))
    if bias is not None:
        out = torch.add(out, torch.reshape(_wide(bias), channel))
    is_mixed = any(param is not None and param.dtype == wide.dtype for param in (weight, bias, *running))
    saved = wide.dtype if is_mixed else input.dtype
    if training:
        return (cast(out, input.dtype), cast(mean, saved), cast(invstd, saved)), writes
    nothing = torch.zeros([0], dtype=saved)
    return (cast(out, input.dtype), nothing, nothing), writes


@program(aten.native_batch_norm.default, aten._native_batch_norm_legit.default)
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Program:
    running = (running_mean, running_var)
    return Program(*_batch_norm(input, weight, bias, running, training, momentum, eps))


@decompose(aten._native_batch_norm_legit_functional.default)
def functional_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor | list[Tensor], ...]:
    running = (running_mean, running_var)
    batch, writes = _batch_norm(input, weight, bias, running, training, momentum, eps)
    return (*batch, writes.get("running_mean", running_mean), writes.get("running_var", running_var))


@decompose(aten._native_batch_norm_legit.no_stats)
def batch_norm_no_stats(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> Batch:
    return _batch_norm(input, weight, bias, (None, None), True, momentum, eps)[0]


@decompose(aten._native_batch_norm_legit_no_training.default)
def batch_norm_inference(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> Batch:
    return _batch_norm(input, weight, bias, (running_mean, running_var), False, momentum, eps)[0]


@program(aten._batch_norm_with_update.default)
def batch_norm_with_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> Program:
    results, writes = _batch_norm(input, weight, bias, (running_mean, running_var), True, momentum, eps)
    reserve = island("%r0 = stablehlo.constant dense<0> : tensor<0xui8>", [], ([0], torch.uint8))
    return Program((*results, reserve), writes)


@decompose(aten._fused_rms_norm.default)
def fused_rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    dims = list(range(input.dim() - len(normalized_shape), input.dim()))
    wide = _wide(input)
    epsilon = torch.finfo(wide.dtype).eps if eps is None else eps
    rstd = torch.rsqrt(torch.add(torch.mean(torch.mul(wide, wide), dims, True), epsilon))
    out = torch.mul(wide, rstd)
    if weight is not None:
        out = torch.mul(out, _wide(weight))
    return cast(out, input.dtype), rstd


@decompose(aten._weight_norm_interface_backward.default)
def weight_norm_backward(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """``w = v * g / norm(v)`` with the norm over every dim but ``dim``."""
    grad, v, g = _wide(grad_w), _wide(saved_v), _wide(saved_g)
    norms = torch.reshape(_wide(saved_norms), g.shape)
    dims = [d for d in range(v.dim()) if d != dim % v.dim()]
    along = torch.sum(torch.mul(grad, v), dims, True)
    unit = torch.div(along, torch.mul(norms, norms))
    grad_v = torch.mul(torch.div(g, norms), torch.sub(grad, torch.mul(v, unit)))
    return cast(grad_v, saved_v.dtype), cast(torch.div(along, norms), saved_g.dtype)
