"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._island import repeat
from .._promotion import Number, Operand, as_tensor, cast, computation_dtype
from .._records import Unlowerable
from .._registry import decompose, rule

aten = torch.ops.aten


def _is(value: Operand, number: int) -> bool:
    return not isinstance(value, (Number, Tensor)) and value == number


def _mix(self: Tensor, product: Tensor, beta: Operand, alpha: Operand, dtype: torch.dtype) -> Tensor:
    """``beta * self + alpha * product``; a zero beta hides NaN and infinity in ``self``, as in BLAS."""
    if not _is(alpha, 1):
        product = torch.mul(product, as_tensor(alpha, product.dtype))
    if _is(beta, 0):
        return cast(product.clone(), dtype)
    bias = cast(self, product.dtype)
    if isinstance(beta, Number):
        factor = beta.to(product.dtype)
        bias = torch.where(torch.eq(factor, 0), torch.zeros([], dtype=product.dtype), torch.mul(bias, factor))
    elif not _is(beta, 1):
        bias = torch.mul(bias, as_tensor(beta, product.dtype))
    return cast(torch.add(bias, product), dtype)


def _wide(*tensors: Tensor) -> list[Tensor]:
    return [cast(tensor, computation_dtype(tensor.dtype)) for tensor in tensors]


def _plain(tensor: Tensor, beta: Operand, alpha: Operand) -> bool:
    return _is(beta, 1) and _is(alpha, 1) and computation_dtype(tensor.dtype) == tensor.dtype


@rule(aten.addmm.default, lifts="beta alpha")
@decompose(aten.addmm.default)
def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
    return _mix(self, torch.mm(*_wide(mat1, mat2)), beta, alpha, self.dtype)


@rule(aten.addmv.default, lifts="beta alpha")
@decompose(aten.addmv.default)
def addmv(self: Tensor, mat: Tensor, vec: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
    return _mix(self, torch.mv(*_wide(mat, vec)), beta, alpha, self.dtype)


@rule(aten.baddbmm.default, lifts="beta alpha")
@decompose(aten.baddbmm.default)
def baddbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
    return _mix(self, torch.bmm(*_wide(batch1, batch2)), beta, alpha, self.dtype)


@rule(aten.addbmm.default, lifts="beta alpha")
@decompose(aten.addbmm.default)
def addbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
    product = torch.sum(torch.bmm(*_wide(batch1, batch2)), [0])
    return _mix(self, cast(product, _wide(self)[0].dtype), beta, alpha, self.dtype)


@rule(aten.addr.default, lifts="beta alpha")
@decompose(aten.addr.default)
def addr(self: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
    left, right = _wide(vec1, vec2)
    return _mix(self, torch.mul(torch.reshape(left, [-1, 1]), right), beta, alpha, self.dtype)


@decompose(aten.mv.default)
def mv(self: Tensor, vec: Tensor) -> Tensor:
    return torch.reshape(torch.mm(self, torch.reshape(vec, [-1, 1])), [self.size(0)])


@decompose(aten.dot.default, aten.vdot.default)
def dot(self: Tensor, tensor: Tensor) -> Tensor:
    """A sum, which is added up in parts: XLA's product adds one by one, which loses four digits over a million elements."""
    product = torch.mul(*_wide(self, tensor))
    return cast(torch.sum(product, [0], dtype=product.dtype), self.dtype)


@decompose(aten.linear.default)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rows = torch.reshape(input, [-1, input.size(-1)])
    if weight.dim() == 1:
        product = torch.mv(rows, weight)
    else:
        left, right = _wide(rows, weight)
        product = torch.mm(left, right.t())
    if bias is not None:
        product = torch.add(product, cast(bias, product.dtype))
    return torch.reshape(cast(product, input.dtype), [*input.shape[:-1], *weight.shape[:-1]])


@decompose(aten.linear_backward.default)
def linear_backward(
    self: Tensor, grad_output: Tensor, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    matrix = torch.reshape(
        weight, [-1, weight.size(-1)]
    )  # a weight of one dim has one output feature, and no dim for it
    rows = torch.reshape(self, [-1, self.size(-1)])
    grads = torch.reshape(grad_output, [-1, matrix.size(0)])
    grad_input = torch.reshape(torch.mm(grads, torch.conj_physical(matrix)), self.shape) if output_mask[0] else None
    grad_weight = torch.mm(grads.t(), torch.conj_physical(rows)) if output_mask[1] else None
    if grad_weight is not None and weight.dim() == 1:
        grad_weight = torch.reshape(grad_weight, weight.shape)
    return grad_input, grad_weight, torch.sum(grads, [0]) if output_mask[2] else None


@decompose(aten._trilinear.default)
def trilinear(
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    """The product of three tensors, each given dims of size 1 where told, summed over ``sumdim``."""
    factors = []
    for tensor, dims in zip((i1, i2, i3), (expand1, expand2, expand3), strict=True):
        wide = cast(tensor, computation_dtype(tensor.dtype))
        for dim in dims:
            wide = torch.unsqueeze(wide, dim)
        factors.append(wide)
    product = torch.mul(torch.mul(factors[0], factors[1]), factors[2])
    return cast(torch.sum(product, list(sumdim)), i1.dtype)


@decompose(aten.linalg_matrix_exp.default)
def matrix_exp(self: Tensor) -> Tensor:
    """Taylor's series of a matrix of norm below one, squared as often as the largest needs; in float64."""
    if self.dtype not in (torch.float32, torch.float64):
        raise Unlowerable("the exponential of a complex or 16-bit matrix")
    size = self.size(-1)
    flat = torch.reshape(cast(self, torch.float64), [-1, size, size])
    norms = torch.sum(torch.abs(flat), [1])
    norm = torch.amax(torch.where(torch.isfinite(norms), norms, torch.ones([], dtype=norms.dtype)), [0, 1])
    rounds = torch.ceil(torch.log2(torch.clamp(norm, min=1.0)))
    scaled = torch.div(flat, torch.exp2(rounds))
    one = cast(torch.eq(torch.reshape(torch.arange(size), [-1, 1]), torch.arange(size)), flat.dtype)
    total = one.expand(flat.shape).clone()
    for term in range(_TERMS, 0, -1):
        total = torch.add(torch.div(torch.bmm(scaled, total), float(term)), one)
    (total,) = repeat(lambda _, power: [torch.bmm(power, power)], cast(rounds, torch.int64), [total])
    return cast(torch.reshape(total, self.shape), self.dtype)


_TERMS = 18
"""1 / 19! is 8e-18: below the last bit of a double."""
