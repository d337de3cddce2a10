"""Convolution gradients, written with convolutions."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._promotion import cast, computation_dtype
from .._registry import decompose

aten = torch.ops.aten
Ints = Sequence[int]


def _full(values: Ints, rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


def fitted(tensor: Tensor, sizes: Sequence[int]) -> Tensor:
    """Cut or zero-pad the spatial dims of ``tensor`` to ``sizes``."""
    for dim, size in enumerate(sizes, start=2):
        if tensor.size(dim) > size:
            tensor = torch.narrow(tensor, dim, 0, size)
    missing = [size - tensor.size(dim) for dim, size in enumerate(sizes, start=2)]
    if any(missing):
        pad = [amount for extra in reversed(missing) for amount in (0, extra)]
        tensor = aten.constant_pad_nd.default(tensor, pad, 0)
    return tensor


def _input_gradient(
    grad: Tensor, weight: Tensor, sizes: Sequence[int], stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Tensor:
    """Adjoint of a plain convolution: a transposed one, extended to the input's size."""
    extra = []
    for d, size in enumerate(sizes):
        reached = (grad.size(d + 2) - 1) * stride[d] - 2 * padding[d] + dilation[d] * (weight.size(d + 2) - 1) + 1
        extra.append(size - reached)
    zeros = [0] * len(extra)
    result = aten.convolution.default(grad, weight, None, stride, padding, dilation, True, zeros, groups)
    if all(amount == 0 for amount in extra):
        return result
    if all(p == 0 for p in padding):
        return fitted(result, sizes)
    wide = aten.convolution.default(grad, weight, None, stride, zeros, dilation, True, zeros, groups)
    need = [size + p for size, p in zip(sizes, padding, strict=True)]
    wide = fitted(wide, [max(n, wide.size(d + 2)) for d, n in enumerate(need)])
    for d, size in enumerate(sizes):
        wide = torch.narrow(wide, d + 2, padding[d], size)
    return wide


def _weight_gradient(
    wide: Tensor, narrow: Tensor, kernel: Sequence[int], stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Tensor:
    """Gradient [groups * narrow channels, wide channels, kernel]: a convolution with batch and channels exchanged."""
    batch, channels = wide.shape[:2]
    per_group = channels // groups
    spatial = list(range(3, wide.dim() + 1))
    left = torch.reshape(wide, [batch, groups, per_group, *wide.shape[2:]])
    left = torch.reshape(left.permute([2, 1, 0, *spatial]), [per_group, groups * batch, *wide.shape[2:]])
    right = narrow.transpose(0, 1)
    zeros = [0] * len(kernel)
    found = aten.convolution.default(left, right, None, dilation, padding, stride, False, zeros, groups)
    return fitted(found.transpose(0, 1), kernel)


@decompose(aten.convolution.default)
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Tensor:
    """16-bit floats are accumulated in float32 and rounded once."""
    compute = computation_dtype(input.dtype)
    if compute == input.dtype and transposed and any(output_padding):
        return _padded_transposed(input, weight, bias, stride, padding, dilation, output_padding, groups)
    if compute == input.dtype:
        return NotImplemented
    wide = None if bias is None else cast(bias, compute)
    pair = (cast(input, compute), cast(weight, compute))
    geometry = (stride, padding, dilation, transposed, output_padding, groups)
    return cast(aten.convolution.default(*pair, wide, *geometry), input.dtype)


def _padded_transposed(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    output_padding: Ints,
    groups: int,
) -> Tensor:
    """torch-mlir confuses the dims of an output padding: here it is what the input's gradient of a longer input is."""
    rank = input.dim() - 2
    stride, padding, dilation, extra = (_full(v, rank) for v in (stride, padding, dilation, output_padding))
    sizes = [
        (input.size(d + 2) - 1) * stride[d] - 2 * padding[d] + dilation[d] * (weight.size(d + 2) - 1) + 1 + extra[d]
        for d in range(rank)
    ]
    result = _input_gradient(input, weight, sizes, stride, padding, dilation, groups)
    return result if bias is None else torch.add(result, torch.reshape(bias, [-1] + [1] * rank))


@decompose(aten.convolution_backward.default)
def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    rank = input.dim() - 2
    stride, padding, dilation = _full(stride, rank), _full(padding, rank), _full(dilation, rank)
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        if transposed:
            zeros = [0] * rank
            grad_input = aten.convolution.default(
                grad_output, weight, None, stride, padding, dilation, False, zeros, groups
            )
            grad_input = fitted(grad_input, input.shape[2:])
        else:
            grad_input = _input_gradient(grad_output, weight, input.shape[2:], stride, padding, dilation, groups)
    if output_mask[1]:
        pair = (grad_output, input) if transposed else (input, grad_output)
        grad_weight = _weight_gradient(*pair, weight.shape[2:], stride, padding, dilation, groups)
    if output_mask[2]:
        grad_bias = torch.sum(grad_output, [0, *range(2, grad_output.dim())])
    return grad_input, grad_weight, grad_bias
