"""`torch.compile(model)` without a backend: a graph on the device goes to the `neuron` backend, any other to Inductor as before.

TorchNeuron picks its backend for Neuron tensors too. PyTorch's default is one for all devices, so the choice is made where
Inductor is handed a graph.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from neuron_lab.emulator import _attach

__all__ = ["install", "tensors"]


def install() -> None:
    """Look at every graph that Inductor would get."""
    inductor: Any = torch._TorchCompileInductorWrapper
    original = inductor.__call__

    @functools.wraps(original)
    def compile_graph(self: Any, model_: Any, inputs_: Sequence[Any], **options: Any) -> Any:
        if not any(value.device.type == _attach.DEVICE for value in tensors(model_, inputs_)):
            return original(self, model_, inputs_, **options)
        from neuron_lab.emulator.dynamo import neuron_backend

        if self.config:
            names = ", ".join(sorted(self.config))
            warnings.warn(f"Neuron backend does not support Inductor's options ({names}), ignoring them.", stacklevel=2)
        return neuron_backend(model_, inputs_)

    inductor.__call__ = compile_graph


def tensors(gm: Any, inputs: Sequence[Any]) -> Iterator[Tensor]:
    """The inputs and, for a graph that makes its own tensors, what its nodes give."""
    made = (node.meta.get("example_value") for node in gm.graph.nodes) if hasattr(gm, "graph") else ()
    yield from (value for value in (*inputs, *made) if isinstance(value, Tensor))
