"""Activations whose parameters are ``Scalar`` arguments, and a few others."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._promotion import Operand, as_tensor, cast, computation_dtype
from .._registry import decompose, rule
from .numbers import tensor_of

aten = torch.ops.aten


def _wide(tensor: Tensor) -> Tensor:
    return cast(tensor, computation_dtype(tensor.dtype))


@rule(aten.threshold.default, lifts="threshold value")
@decompose(aten.threshold.default)
def threshold(self: Tensor, threshold: Operand, value: Operand) -> Tensor:
    return torch.where(torch.le(self, tensor_of(threshold, self.dtype)), tensor_of(value, self.dtype), self)


@rule(aten.threshold_backward.default, lifts="threshold")
@decompose(aten.threshold_backward.default)
def threshold_backward(grad_output: Tensor, self: Tensor, threshold: Operand) -> Tensor:
    below = torch.le(self, tensor_of(threshold, self.dtype))
    return torch.where(below, torch.zeros([], dtype=grad_output.dtype), grad_output)


@rule(aten.hardtanh.default, lifts="min_val max_val")
@decompose(aten.hardtanh.default)
def hardtanh(self: Tensor, min_val: Operand = -1, max_val: Operand = 1) -> Tensor:
    low, high = tensor_of(min_val, self.dtype), tensor_of(max_val, self.dtype)
    return torch.minimum(torch.maximum(self, low), high)


@rule(aten.hardtanh_backward.default, lifts="min_val max_val")
@decompose(aten.hardtanh_backward.default)
def hardtanh_backward(grad_output: Tensor, self: Tensor, min_val: Operand, max_val: Operand) -> Tensor:
    wide = _wide(self)
    low, high = tensor_of(min_val, wide.dtype), tensor_of(max_val, wide.dtype)
    outside = torch.logical_or(torch.le(wide, low), torch.ge(wide, high))
    return torch.where(outside, torch.zeros([], dtype=grad_output.dtype), grad_output)


@rule(aten.leaky_relu.default, lifts="negative_slope")
@decompose(aten.leaky_relu.default)
def leaky_relu(self: Tensor, negative_slope: Operand = 0.01) -> Tensor:
    wide = _wide(self)
    return cast(
        torch.where(torch.gt(wide, 0), wide, torch.mul(wide, as_tensor(negative_slope, wide.dtype))), self.dtype
    )


@rule(aten.leaky_relu_backward.default, lifts="negative_slope")
@decompose(aten.leaky_relu_backward.default)
def leaky_relu_backward(grad_output: Tensor, self: Tensor, negative_slope: Operand, self_is_result: bool) -> Tensor:
    grad = _wide(grad_output)
    scaled = torch.mul(grad, as_tensor(negative_slope, grad.dtype))
    return cast(torch.where(torch.gt(self, 0), grad, scaled), grad_output.dtype)


@rule(aten.elu.default, lifts="alpha scale input_scale")
@decompose(aten.elu.default)
def elu(self: Tensor, alpha: Operand = 1, scale: Operand = 1, input_scale: Operand = 1) -> Tensor:
    wide = _wide(self)
    dtype = wide.dtype
    scaling: Any = as_tensor(scale, dtype)
    negative = torch.mul(
        torch.mul(torch.expm1(torch.mul(wide, as_tensor(input_scale, dtype))), as_tensor(alpha, dtype)), scaling
    )
    return cast(torch.where(torch.le(wide, 0), negative, torch.mul(wide, scaling)), self.dtype)


@rule(aten.elu_backward.default, lifts="alpha scale input_scale")
@decompose(aten.elu_backward.default)
def elu_backward(
    grad_output: Tensor,
    alpha: Operand,
    scale: Operand,
    input_scale: Operand,
    is_result: bool,
    self_or_result: Tensor,
) -> Tensor:
    grad, value = _wide(grad_output), _wide(self_or_result)
    dtype = grad.dtype
    slope: Any = as_tensor(alpha, dtype)
    outer: Any = as_tensor(scale, dtype)
    inner: Any = as_tensor(input_scale, dtype)
    if is_result:
        factor = torch.mul(torch.add(value, torch.mul(tensor_of(slope, dtype), outer)), inner)
    else:
        exponential = torch.exp(torch.mul(value, inner))
        factor = torch.mul(torch.mul(torch.mul(exponential, slope), outer), inner)
    negative = torch.mul(grad, factor)
    return cast(torch.where(torch.le(value, 0), negative, torch.mul(grad, outer)), grad_output.dtype)


@rule(aten.softplus.default, lifts="beta threshold")
@decompose(aten.softplus.default)
def softplus(self: Tensor, beta: Operand = 1, threshold: Operand = 20) -> Tensor:
    wide = _wide(self)
    steep: Any = as_tensor(beta, wide.dtype)
    scaled = torch.mul(wide, steep)
    curve = torch.div(torch.log1p(torch.exp(scaled)), steep)
    return cast(torch.where(torch.gt(scaled, tensor_of(threshold, wide.dtype)), wide, curve), self.dtype)


@rule(aten.softplus_backward.default, lifts="beta threshold")
@decompose(aten.softplus_backward.default)
def softplus_backward(grad_output: Tensor, self: Tensor, beta: Operand, threshold: Operand) -> Tensor:
    grad = _wide(grad_output)
    scaled = torch.mul(_wide(self), as_tensor(beta, grad.dtype))
    power = torch.exp(scaled)
    curve = torch.div(torch.mul(grad, power), torch.add(power, 1.0))
    return cast(torch.where(torch.gt(scaled, tensor_of(threshold, grad.dtype)), grad, curve), grad_output.dtype)


@rule(aten.hardshrink.default, lifts="lambd")
@decompose(aten.hardshrink.default)
def hardshrink(self: Tensor, lambd: Operand = 0.5) -> Tensor:
    inside = _inside(self, lambd)
    return torch.where(inside, torch.zeros([], dtype=self.dtype), self)


def _inside(value: Tensor, lambd: Operand) -> Tensor:
    bound = tensor_of(lambd, value.dtype)
    return torch.logical_and(torch.ge(value, torch.neg(bound)), torch.le(value, bound))


@rule(aten.hardshrink_backward.default, lifts="lambd")
@decompose(aten.hardshrink_backward.default)
def hardshrink_backward(grad_out: Tensor, self: Tensor, lambd: Operand) -> Tensor:
    return torch.where(_inside(self, lambd), torch.zeros([], dtype=grad_out.dtype), grad_out)


@rule(aten.softshrink.default, lifts="lambd")
@decompose(aten.softshrink.default)
def softshrink(self: Tensor, lambd: Operand = 0.5) -> Tensor:
    bound = tensor_of(lambd, self.dtype)
    shrunk = torch.where(torch.gt(self, bound), torch.sub(self, bound), torch.mul(self, 0))
    return torch.where(torch.lt(self, torch.neg(bound)), torch.add(self, bound), shrunk)


@rule(aten.softshrink_backward.default, lifts="lambd")
@decompose(aten.softshrink_backward.default)
def softshrink_backward(grad_output: Tensor, self: Tensor, lambd: Operand) -> Tensor:
    return torch.where(_inside(self, lambd), torch.zeros([], dtype=grad_output.dtype), grad_output)


@decompose(aten.gelu.default)
def gelu(self: Tensor, *, approximate: str = "none") -> Tensor:
    wide = _wide(self)
    if wide is self:
        return NotImplemented
    return cast(aten.gelu.default(wide, approximate=approximate), self.dtype)


@decompose(aten.silu.default)
def silu(self: Tensor) -> Tensor:
    wide = _wide(self)
    return cast(torch.div(wide, torch.add(torch.exp(torch.neg(wide)), 1.0)), self.dtype)


@decompose(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    """The slope is a sixth in float32, for float64 too, as in the CPU's kernel."""
    inside = torch.logical_and(torch.gt(self, -3.0), torch.lt(self, 3.0))
    grad = torch.mul(_wide(grad_output), _SIXTH)
    return cast(torch.where(inside, grad, torch.zeros([], dtype=grad.dtype)), grad_output.dtype)


_SIXTH = 0.1666666716337204


@decompose(aten.sigmoid_backward.default)
def sigmoid_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    grad, value = _wide(grad_output), _wide(output)
    slope = torch.conj_physical(torch.mul(torch.sub(1.0, value), value))
    return cast(torch.mul(grad, slope), grad_output.dtype)


@decompose(aten.tanh_backward.default)
def tanh_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    grad, value = _wide(grad_output), _wide(output)
    slope = torch.conj_physical(torch.sub(1.0, torch.mul(value, value)))
    return cast(torch.mul(grad, slope), grad_output.dtype)
