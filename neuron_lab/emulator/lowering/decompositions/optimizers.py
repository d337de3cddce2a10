"""Fused optimizer steps, as the CPU kernels in aten/src/ATen/native/cpu/Fused*Kernel.cpp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._island import each
from .._promotion import Number, cast, computation_dtype
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


Rate = float | Tensor | Number


def _rate(lr: Rate) -> Any:
    """The learning rate in float64, as the kernels hold it: a constant or a 0-d tensor."""
    if isinstance(lr, Number):
        return lr.to(torch.float64)
    return torch.reshape(cast(lr, torch.float64), []) if isinstance(lr, Tensor) else lr


def _as(value: Any, dtype: torch.dtype) -> Any:
    return cast(value, dtype) if isinstance(value, Tensor) else value


def _adam(decoupled: bool) -> Callable[..., Program]:
    def run(
        self: Tensors,
        grads: Tensors,
        exp_avgs: Tensors,
        exp_avg_sqs: Tensors,
        max_exp_avg_sqs: Tensors,
        state_steps: Tensors,
        *,
        lr: Rate,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: Tensor | None = None,
        found_inf: Tensor | None = None,
    ) -> Program:
        def step(
            param: Tensor,
            given: Tensor,
            exp_avg: Tensor,
            exp_avg_sq: Tensor,
            max_exp_avg_sq: Tensor | None,
            count: Tensor,
            rate: Tensor,
            grad_scale: Tensor | None,
            found_inf: Tensor | None,
        ) -> list[Tensor]:
            scaling = _Scaling(grad_scale, found_inf)
            grad = scaling.unscaled(_wide(given))
            unscaled = grad
            if maximize:
                grad = torch.neg(grad)
            value = _wide(param)
            if weight_decay and decoupled:
                value = torch.sub(value, torch.mul(value, _as(rate * weight_decay, value.dtype)))
            elif weight_decay:
                grad = torch.add(grad, torch.mul(value, weight_decay))
            mean, square = _wide(exp_avg), _wide(exp_avg_sq)
            mean = torch.add(mean, torch.mul(torch.sub(grad, mean), 1 - beta1))
            square = torch.add(torch.mul(square, beta2), torch.mul(torch.mul(grad, grad), 1 - beta2))
            taken = torch.reshape(cast(count, torch.float64), [])
            correction1 = torch.sub(1.0, torch.pow(torch.full([], beta1, dtype=torch.float64), taken))
            correction2 = torch.sqrt(torch.sub(1.0, torch.pow(torch.full([], beta2, dtype=torch.float64), taken)))
            root = square if max_exp_avg_sq is None else torch.maximum(_wide(max_exp_avg_sq), square)
            denominator = torch.add(torch.div(torch.sqrt(root), cast(correction2, value.dtype)), eps)
            size = cast(torch.div(rate, correction1), value.dtype)
            value = torch.sub(value, torch.mul(size, torch.div(mean, denominator)))
            results = [scaling.chosen(value, param), scaling.chosen(mean, exp_avg), scaling.chosen(square, exp_avg_sq)]
            if max_exp_avg_sq is not None:
                results.append(scaling.chosen(root, max_exp_avg_sq))
            return results if grad_scale is None else [*results, scaling.chosen(unscaled, given)]

        tops = list(max_exp_avg_sqs) if amsgrad else [None] * len(self)
        groups = list(zip(self, grads, exp_avgs, exp_avg_sqs, tops, state_steps, strict=True))
        rate = _rate(lr)
        if not isinstance(rate, Tensor):
            rate = torch.full([], rate, dtype=torch.float64)
        results = each(step, groups, (rate, grad_scale, found_inf))
        names = ["self", "exp_avgs", "exp_avg_sqs", *(["max_exp_avg_sqs"] if amsgrad else [])]
        names += [] if grad_scale is None else ["grads"]
        return Program((), {name: [result[i] for result in results] for i, name in enumerate(names)})

    return run


program(aten._fused_adam_.default, aten._fused_adam_.tensor_lr, lifts="lr")(_adam(decoupled=False))
program(aten._fused_adamw_.default, aten._fused_adamw_.tensor_lr, lifts="lr")(_adam(decoupled=True))


@program(aten._fused_sgd_.default, aten._fused_sgd_.tensor_lr, lifts="lr")
def fused_sgd(
    self: Tensors,
    grads: Tensors,
    momentum_buffer_list: Tensors,
    *,
    weight_decay: float,
    momentum: float,
    lr: Rate,
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
        value = torch.sub(value, torch.mul(grad, _as(_rate(lr), value.dtype)))
        params.append(scaling.chosen(value, param))
    writes: dict[str, Tensor | list[Tensor]] = {"self": params, "grads": scaling.grads(grads)}
    if momentum:
        writes["momentum_buffer_list"] = buffers
    return Program((), writes)


@program(aten._fused_adagrad_.default, lifts="lr")
def fused_adagrad(
    self: Tensors,
    grads: Tensors,
    state_sums: Tensors,
    state_steps: Tensors,
    *,
    lr: Rate,
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
        rate = torch.div(_rate(lr), torch.add(torch.mul(torch.sub(step, 1.0), lr_decay), 1.0))
        total = torch.add(_wide(state_sums[index]), torch.mul(grad, grad))
        update = torch.div(grad, torch.add(torch.sqrt(total), eps))
        value = torch.sub(value, torch.mul(update, cast(rate, value.dtype)))
        params.append(scaling.chosen(value, param))
        sums.append(scaling.chosen(total, state_sums[index]))
    return Program((), {"self": params, "state_sums": sums, "grads": scaling.grads(grads)})
