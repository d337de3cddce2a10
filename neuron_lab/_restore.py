"""What a program may change, kept and put back: tensors it can reach, gradients, optimizer state, random numbers, modes."""

from __future__ import annotations

import contextlib
import inspect
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.nn.parameter import is_lazy
from torch.utils import _device
from torch.utils import _pytree as pytree

from neuron_lab._closeness import same_values
from neuron_lab.errors import UsageProblem


class State:
    """Keeps the state when it is made. `again` puts back what a run reads, `close` everything as it was."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        found = list(_reachable(function, arguments))
        self._modules = [item for item in found if isinstance(item, nn.Module)]
        self._flags = [(part, part.training) for module in self._modules for part in module.modules()]
        # A module may put another tensor into the place of a buffer.
        self._bound: list[tuple[dict[str, Any], dict[str, Any]]] = [
            (names, dict(names))
            for module in self._modules
            for part in module.modules()
            for names in (part._parameters, part._buffers)
        ]
        self._optimizers = [item for item in found if isinstance(item, torch.optim.Optimizer)]
        self._fresh = [item for item in self._optimizers if not item.state]
        tensors = [item for item in found if isinstance(item, Tensor)]
        tensors += [t for module in self._modules for t in (*module.parameters(), *module.buffers())]
        tensors += [p for item in self._optimizers for group in item.param_groups for p in group["params"]]
        if any(is_lazy(tensor) for tensor in tensors):
            raise UsageProblem(
                "not comparable: a lazy module has no parameters before its first call; call the program once before"
            )
        unique = {id(tensor): tensor for tensor in tensors}
        self._gradients = [(tensor, tensor.grad) for tensor in unique.values() if tensor.is_leaf]
        held = [*unique.values(), *(grad for _, grad in self._gradients if grad is not None)]
        writable = tuple(filter(_can_be_written, held))
        self._values = list(map(_Value, writable))
        self._versions = _unsafe_preserve_version_counter(writable)
        self._start = {name: _host(tensor) for name, tensor in self.tensors.items()}
        self._random = torch.get_rng_state()
        self._python = random.getstate()
        self._numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None
        self._grad_mode = torch.is_grad_enabled()
        self._dtype, self._device = torch.get_default_dtype(), _device.CURRENT_DEVICE
        self._keep_optimizers()

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers by name, for what a run leaves in them; a prefix tells modules apart when there are several."""
        named: dict[str, Tensor] = {}
        for index, module in enumerate(self._modules):
            prefix = f"{index}." if len(self._modules) > 1 else ""
            named |= {prefix + name: t for name, t in (*module.named_parameters(), *module.named_buffers())}
        return named

    def written(self) -> dict[str, Tensor]:
        """Parameters and buffers that do not hold what they held at the start, and gradients, on the host."""
        now = {name: _host(tensor) for name, tensor in self.tensors.items()}
        found = {
            name: value
            for name, value in now.items()
            if name not in self._start or not same_values(value, self._start[name])
        }
        grads = {f"{name}.grad": tensor.grad for name, tensor in self.tensors.items()}
        return found | {name: _host(grad) for name, grad in grads.items() if grad is not None}

    def keep_made_state(self) -> None:
        """After a first run: an optimizer has made its state by now, and every later run starts with it as it was made."""
        self._keep_optimizers()

    def again(self) -> None:
        """Start values for one more run."""
        for names, before in self._bound:
            names.clear()
            names.update(before)
        for value in (*self._values, *self._states):
            value.again()
        for tensor, gradient in self._gradients:
            tensor.grad = gradient
        for part, training in self._flags:
            part.training = training
        self._seed()

    def close(self) -> None:
        """Leave nothing behind."""
        self.again()
        # A graph from before holds tensors that are as it knew them: else its backward would say they were modified.
        self._versions.__exit__(None, None, None)
        for optimizer in self._fresh:
            optimizer.state.clear()
        torch.set_grad_enabled(self._grad_mode)
        torch.set_default_dtype(self._dtype)
        if self._device != _device.CURRENT_DEVICE:
            torch.set_default_device(self._device)

    def _seed(self) -> None:
        torch.set_rng_state(self._random)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)

    def _keep_optimizers(self) -> None:
        held = [
            value for item in self._optimizers for entry in item.state.values() for value in pytree.tree_leaves(entry)
        ]
        self._states = [_Value(value) for value in held if isinstance(value, Tensor)]


def _can_be_written(tensor: Tensor) -> bool:
    """Not one of inference mode, nor one whose elements share memory: nobody else can write to it either."""
    return not tensor.is_inference() and torch._debug_has_internal_overlap(tensor) != 1


def _host(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)


class _Value:
    """A tensor and what it held."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor, self._copy = tensor, tensor.detach().clone()

    def again(self) -> None:
        with torch.no_grad():
            if self._tensor.shape != self._copy.shape:
                self._tensor.resize_(self._copy.shape)
            self._tensor.copy_(self._copy)


def _reachable(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Iterator[Any]:
    """Tensors, modules and optimizers among the arguments, and those the function closes over or names as globals."""
    values: list[Any] = [function, *pytree.tree_leaves(arguments)]
    seen: set[int] = set()
    while values:
        value = values.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (Tensor, nn.Module, torch.optim.Optimizer)):
            yield value
        elif inspect.ismethod(value):
            values += [value.__self__, value.__func__]
        elif inspect.isfunction(value) and not (value.__module__ or "").startswith("torch."):
            values += _named_by(value)
        elif isinstance(value, dict):
            values += value.values()
        elif isinstance(value, (list, tuple)):
            values += value


def _named_by(function: types.FunctionType) -> Iterator[Any]:
    """What its code closes over or names as globals; a closed-over name may have no value yet."""
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):
            yield cell.cell_contents
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield function.__globals__[name]
