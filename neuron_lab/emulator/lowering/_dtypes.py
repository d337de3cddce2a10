"""Calls that CPU eager refuses for their dtype: they stay on the CPU, which raises its own error."""

from __future__ import annotations

import torch

from ._records import OpCall, Refused, Unlowerable

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
    _softmax_backward_data _log_softmax_backward_data binary_cross_entropy grid_sampler_3d igamma igammac
    _prelu_kernel round.decimals soft_margin_loss _batch_norm_with_update linalg_householder_product
    """.split()
)
"""Names, without overload unless only that one is meant; ``self`` must be a float."""

_COMPLEX_TOO = frozenset(
    """
    lerp _foreach_lerp silu std var var_mean std_mean linalg_vector_norm dist addcdiv _foreach_addcdiv sigmoid_backward
    tanh_backward linalg_householder_product
    """.split()
)
"""Of these, the ones that take complex numbers as well."""

_NO_BOOLEANS = frozenset(
    """
    mm bmm addmm addmv addbmm baddbmm addr mv dot vdot linear convolution avg_pool2d max_pool2d_with_indices
    max_pool3d_with_indices reflection_pad1d reflection_pad2d ceil floor round trunc relu threshold clamp clamp_min
    clamp_max topk argmax argmin trace median pow addcmul _foreach_addcmul _foreach_ceil _foreach_floor
    _foreach_round _foreach_trunc _foreach_clamp_max _foreach_clamp_min _foreach_maximum _foreach_minimum
    _foreach_pow bucketize searchsorted neg cumprod abs _foreach_abs nanmedian _trilinear mvlgamma index_reduce
    """.split()
)

_NO_BOOLEAN_OPERAND = frozenset("sub rsub _foreach_sub".split())

_NO_BOOLEAN_RESULT = frozenset("cumsum cumprod".split())
"""``dtype`` must not be bool."""

_NO_COMPLEX = frozenset(
    """
    argmax argmin avg_pool2d digamma i0 index_reduce lgamma mse_loss nansum polygamma xlogy
    """.split()
)
"""As all of the ``special_`` ops."""

_NO_HALVES = frozenset(
    """
    avg_pool3d _cdist_forward multi_margin_loss multilabel_margin_loss_forward
    cholesky cholesky_inverse cholesky_solve geqrf linalg_cholesky_ex linalg_householder_product linalg_inv_ex linalg_lu
    linalg_lu_factor_ex linalg_lu_solve linalg_qr linalg_solve_triangular _linalg_det _linalg_slogdet _linalg_solve_ex
    triangular_solve
    special_zeta special_ndtri special_log_ndtr special_erfcx special_bessel_j0 special_bessel_j1 special_bessel_y0
    special_bessel_y1 special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
    special_modified_bessel_k1 special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
    special_spherical_bessel_j0
    """.split()
)
"""No 16-bit floats."""


_PICKS_ONE_OF_EQUALS = frozenset({"topk", "kthvalue"})
"""Which of equal elements they tell the place of is up to the CPU's kernel; integers are often equal."""


def refuse_dtypes(call: OpCall) -> None:
    """Raise Refused for a dtype that the op does not take, Unlowerable for one that the whole lowering does not."""
    op, leaves = call.op, call.leaves
    asked = [value for value in (*call.args, *call.kwargs.values()) if isinstance(value, torch.dtype)]
    for dtype in (*(leaf.dtype for leaf in leaves), *asked):
        if dtype not in _SUPPORTED:
            raise Unlowerable(f"{_name(dtype)} tensors are not lowered")
    name = op._schema.name.partition("::")[2]
    name = name if name.startswith("__") else name.rstrip("_")
    tensors = [leaf for leaf in leaves if not (leaf.number or leaf.wrapped)]
    if not tensors:
        return
    reason = _refused(name, op._overloadname, tensors[0].dtype)
    boolean = any(leaf.dtype == torch.bool for leaf in leaves) or any(isinstance(v, bool) for v in call.args)
    if name in _NO_BOOLEAN_OPERAND and boolean:
        reason = "does not take booleans"
    if name in _NO_BOOLEAN_RESULT and torch.bool in asked:
        reason = "does not give booleans"
    if reason:
        raise Refused(reason)


def _refused(name: str, overload: str, first: torch.dtype) -> str:
    """Why the op does not take a first tensor of this dtype, or nothing."""
    floats_only = name in _FLOATS_ONLY or f"{name}.{overload}" in _FLOATS_ONLY
    if first.is_complex:
        refused = (floats_only and name not in _COMPLEX_TOO) or name in _NO_COMPLEX or name.startswith("special_")
        return f"does not take {_name(first)}" if refused else ""
    if first.is_floating_point:
        return f"does not take {_name(first)}" if first.itemsize == 2 and name in _NO_HALVES else ""
    if floats_only:
        return f"takes floats, not {_name(first)}"
    if name in _PICKS_ONE_OF_EQUALS:
        return "which of equal integers it picks is up to the CPU's kernel"
    return "does not take booleans" if first == torch.bool and name in _NO_BOOLEANS else ""


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
