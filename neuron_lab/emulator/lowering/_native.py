"""ATen ops that reach torch-mlir as they are. Each one is compared with CPU eager in the tests.

Anything else must be rewritten into these: torch-mlir can crash, hang or be silently wrong outside this list.
"""

from __future__ import annotations

import functools

from torch._ops import OpOverload

_NATIVE = frozenset(
    """
    abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log1p neg reciprocal rsqrt round sigmoid
    sign sin sinh sqrt tan tanh trunc relu gelu log2 log10 logical_not bitwise_not exp2

    add.Tensor sub.Tensor mul.Tensor div.Tensor maximum minimum atan2 pow.Tensor_Tensor fmod.Tensor
    div.Tensor_mode eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor logical_and logical_or logical_xor
    bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor bitwise_left_shift.Tensor bitwise_right_shift.Tensor
    eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar where.self

    sum sum.dim_IntList amax amin max.dim min.dim argmax argmin prod prod.dim_int cumsum

    mm bmm convolution
    view _unsafe_view permute t transpose.int expand unsqueeze squeeze squeeze.dim slice.Tensor select.int
    cat stack gather index_select flip constant_pad_nd full zeros ones zeros_like ones_like full_like arange.start_step
    scalar_tensor broadcast_to repeat reshape

    scatter.src scatter_add sort sort.stable topk embedding
    _to_copy max_pool2d_with_indices
    """.split()
)


_BYTES = frozenset(
    """
    add.Tensor sub.Tensor mul.Tensor maximum minimum bitwise_not bitwise_and.Tensor bitwise_or.Tensor
    bitwise_xor.Tensor bitwise_left_shift.Tensor div.Tensor_mode where.self
    view _unsafe_view permute t transpose.int expand unsqueeze squeeze squeeze.dim slice.Tensor select.int
    cat stack gather index_select flip broadcast_to repeat reshape scatter.src embedding _to_copy
    """.split()
)
"""The ops that torch-mlir and XLA get right for unsigned bytes: the others are wrong, refused or crash."""


@functools.cache
def is_native(op: OpOverload) -> bool:
    """Whether torch-mlir lowers ``op`` correctly."""
    return _short(op) in _NATIVE


@functools.cache
def takes_bytes(op: OpOverload) -> bool:
    """Whether ``op`` is right for uint8 operands."""
    return _short(op) in _BYTES


def _short(op: OpOverload) -> str:
    """The name as in the lists above; empty outside ATen."""
    namespace, _, name = op._schema.name.partition("::")
    if namespace != "aten":
        return ""
    return name if op._overloadname == "default" else f"{name}.{op._overloadname}"
