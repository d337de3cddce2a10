"""Calls that CPU eager refuses for their dtype: they stay on the CPU, which raises its own error."""

from __future__ import annotations

import torch

from ._records import OpCall, Unlowerable

_SUPPORTED = frozenset(
    {
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.bfloat16,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    }
)

_FLOATS_ONLY = frozenset(
    """
    _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d avg_pool3d
    _foreach_frac frac _log_softmax _softmax _native_batch_norm_legit native_batch_norm native_layer_norm
    native_group_norm _fused_rms_norm _upsample_nearest_exact1d _upsample_nearest_exact2d upsample_bicubic2d
    _upsample_bilinear2d_aa _upsample_bicubic2d_aa upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_trilinear3d celu elu glu grid_sampler_2d
    hardshrink softshrink hardsigmoid hardswish huber_loss hypot leaky_relu lerp _foreach_lerp log_sigmoid_forward
    logaddexp logaddexp2 max_pool2d_with_indices_backward max_unpool2d max_unpool3d mish multi_margin_loss
    multilabel_margin_loss_forward nll_loss_forward nll_loss2d_forward silu gelu smooth_l1_loss softplus std var
    var_mean std_mean linalg_vector_norm dist addcdiv _foreach_addcdiv sigmoid_backward tanh_backward _cdist_forward
    """.split()
)
"""Names without overload; ``self`` must be a float."""

_COMPLEX_TOO = frozenset(
    """
    lerp _foreach_lerp silu std var var_mean std_mean linalg_vector_norm dist addcdiv _foreach_addcdiv sigmoid_backward
    tanh_backward
    """.split()
)
"""Of these, the ones that take complex numbers as well."""

_NO_BOOLEANS = frozenset(
    """
    mm bmm addmm addmv addbmm baddbmm addr mv dot vdot linear convolution avg_pool2d max_pool2d_with_indices
    max_pool3d_with_indices reflection_pad1d reflection_pad2d ceil floor round trunc relu threshold clamp clamp_min
    clamp_max topk argmax argmin trace median pow addcmul _foreach_addcmul _foreach_ceil _foreach_floor
    _foreach_round _foreach_trunc _foreach_clamp_max _foreach_clamp_min _foreach_maximum _foreach_minimum
    _foreach_pow _foreach_sub sub rsub bucketize searchsorted neg cumprod
    """.split()
)


_PICKS_ONE_OF_EQUALS = frozenset({"topk", "kthvalue"})
"""Which of equal elements they tell the place of is up to the CPU's kernel; integers are often equal."""


def refuse_dtypes(call: OpCall) -> None:
    """Raise Unlowerable for a dtype that the op, or the whole lowering, does not take."""
    op, leaves = call.op, call.leaves
    asked = [value for value in (*call.args, *call.kwargs.values()) if isinstance(value, torch.dtype)]
    for dtype in (*(leaf.dtype for leaf in leaves), *asked):
        if dtype not in _SUPPORTED:
            raise Unlowerable(f"{_name(dtype)} tensors are not lowered")
    tensors = [leaf for leaf in leaves if not (leaf.number or leaf.wrapped)]
    if not tensors:
        return
    name = op._schema.name.partition("::")[2]
    name = name if name.startswith("__") else name.rstrip("_")
    first = tensors[0].dtype
    takes_complex = first.is_complex and name in _COMPLEX_TOO
    if name in _FLOATS_ONLY and not first.is_floating_point and not takes_complex:
        raise Unlowerable(f"takes floats, not {_name(first)}")
    if name in _PICKS_ONE_OF_EQUALS and not first.is_floating_point:
        raise Unlowerable("which of equal integers it picks is up to the CPU's kernel")
    if name in _NO_BOOLEANS and first == torch.bool:
        raise Unlowerable("does not take booleans")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
