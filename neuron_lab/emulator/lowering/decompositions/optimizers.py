"""Fused optimizer steps, as the CPU kernels in aten/src/ATen/native/cpu/Fused*Kernel.cpp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._promotion import cast, computation_dtype
from .._registry import Program, program

aten = torch.ops.aten
Tensors = Sequence[Tensor]


@dataclass(frozen=True, slots=True)
class _Scaling:
    """Gradient scaling: ``found_inf`` of 1 leaves every tensor as it is."""

    grad_scale: Tensor | None
    found_inf: Tensor | None

    def unscaled(self, grad: Tensor) -> Tensor:
        if self.grad_scale is None:
            return grad
        return torch.div(grad, torch.reshape(cast(self.grad_scale, grad.dtype), []))

    def chosen(self, new: Tensor, old: Tensor) -> Tensor:
        new = cast(new, old.dtype)
        if self.found_inf is None:
            return new
        return torch.where(torch.reshape(torch.eq(self.found_inf, 1), []), old, new)

    def grads(self, grads: Tensors) -> list[Tensor]:
        """The unscaled gradients that the kernel writes back."""
        if self.grad_scale is None:
            return list(grads)
        wide = [cast(grad, computation_dtype(grad.dtype)) for grad in grads]
        return [self.chosen(self.unscaled(w), grad) for w, grad in zip(wide, grads, strict=True)]


def _wide(tensor: Tensor) -> Tensor:
    return cast(tensor, computation_dtype(tensor.dtype))


def _rate(lr: float | Tensor, dtype: torch.dtype) -> Any:
    return torch.reshape(cast(lr, dtype), []) if isinstance(lr, Tensor) else lr


def _adam(decoupled: bool) -> Callable[..., Program]:
    def run(
        self: Tensors,
        grads: Tensors,
        exp_avgs: Tensors,
        exp_avg_sqs: Tensors,
        max_exp_avg_sqs: Tensors,
        state_steps: Tensors,
        *,
        lr: float | Tensor,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: Tensor | None = None,
        found_inf: Tensor | None = None,
    ) -> Program:
        scaling = _Scaling(grad_scale, found_inf)
        writes: dict[str, list[Tensor]] = {"self": [], "exp_avgs": [], "exp_avg_sqs": [], "max_exp_avg_sqs": []}
        for index, param in enumerate(self):
            grad = scaling.unscaled(_wide(grads[index]))
            if maximize:
                grad = torch.neg(grad)
            value = _wide(param)
            rate = _rate(lr, value.dtype)
            if weight_decay and decoupled:
                value = torch.sub(value, torch.mul(value, rate * weight_decay))
            elif weight_decay:
                grad = torch.add(grad, torch.mul(value, weight_decay))
            mean, square = _wide(exp_avgs[index]), _wide(exp_avg_sqs[index])
            mean = torch.add(mean, torch.mul(torch.sub(grad, mean), 1 - beta1))
            square = torch.add(torch.mul(square, beta2), torch.mul(torch.mul(grad, grad), 1 - beta2))
            step = torch.reshape(cast(state_steps[index], torch.float64), [])
            correction1 = torch.sub(1.0, torch.pow(torch.full([], beta1, dtype=torch.float64), step))
            correction2 = torch.sqrt(torch.sub(1.0, torch.pow(torch.full([], beta2, dtype=torch.float64), step)))
            root = square
            if amsgrad:
                root = torch.maximum(_wide(max_exp_avg_sqs[index]), square)
                writes["max_exp_avg_sqs"].append(scaling.chosen(root, max_exp_avg_sqs[index]))
            denominator = torch.add(torch.div(torch.sqrt(root), cast(correction2, value.dtype)), eps)
            size = cast(
                torch.div(cast(rate, torch.float64) if isinstance(rate, Tensor) else rate, correction1), value.dtype
            )
            value = torch.sub(value, torch.mul(size, torch.div(mean, denominator)))
            writes["self"].append(scaling.chosen(value, param))
            writes["exp_avgs"].append(scaling.chosen(mean, exp_avgs[index]))
            writes["exp_avg_sqs"].append(scaling.chosen(square, exp_avg_sqs[index]))
        return Program((), {**writes, "grads": scaling.grads(grads)})

    return run


program(aten._fused_adam_.default, aten._fused_adam_.tensor_lr)(_adam(decoupled=False))
program(aten._fused_adamw_.default, aten._fused_adamw_.tensor_lr)(_adam(decoupled=True))


@program(aten._fused_sgd_.default, aten._fused_sgd_.tensor_lr)
def fused_sgd(
    self: Tensors,
    grads: Tensors,
    momentum_buffer_list: Tensors,
    *,
    weight_decay: float,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> Program:
    scaling = _Scaling(grad_scale, found_inf)
    params: list[Tensor] = []
    buffers: list[Tensor] = []
    for index, param in enumerate(self):
        grad = scaling.unscaled(_wide(grads[index]))
        if maximize:
            grad = torch.neg(grad)
        value = _wide(param)
        if weight_decay:
            grad = torch.add(grad, torch.mul(value, weight_decay))
        if momentum:
            buffer = grad
            if not is_first_step:
                old = _wide(momentum_buffer_list[index])
                buffer = torch.add(torch.mul(old, momentum), torch.mul(grad, 1 - dampening))
            buffers.append(scaling.chosen(buffer, momentum_buffer_list[index]))
            grad = torch.add(grad, torch.mul(buffer, momentum)) if nesterov else buffer
        value = torch.sub(value, torch.mul(grad, _rate(lr, value.dtype)))
        params.append(scaling.chosen(value, param))
    writes: dict[str, Tensor | list[Tensor]] = {"self": params, "grads": scaling.grads(grads)}
    if momentum:
        writes["momentum_buffer_list"] = buffers
    return Program((), writes)


@program(aten._fused_adagrad_.default)
def fused_adagrad(
    self: Tensors,
    grads: Tensors,
    state_sums: Tensors,
    state_steps: Tensors,
    *,
    lr: float,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> Program:
    scaling = _Scaling(grad_scale, found_inf)
    params: list[Tensor] = []
    sums: list[Tensor] = []
    for index, param in enumerate(self):
        grad = scaling.unscaled(_wide(grads[index]))
        if maximize:
            grad = torch.neg(grad)
        value = _wide(param)
        if weight_decay:
            grad = torch.add(grad, torch.mul(value, weight_decay))
        step = torch.reshape(cast(state_steps[index], torch.float64), [])
        rate = torch.div(lr, torch.add(torch.mul(torch.sub(step, 1.0), lr_decay), 1.0))
        total = torch.add(_wide(state_sums[index]), torch.mul(grad, grad))
        update = torch.div(grad, torch.add(torch.sqrt(total), eps))
        value = torch.sub(value, torch.mul(update, cast(rate, value.dtype)))
        params.append(scaling.chosen(value, param))
        sums.append(scaling.chosen(total, state_sums[index]))
    return Program((), {"self": params, "state_sums": sums, "grads": scaling.grads(grads)})
