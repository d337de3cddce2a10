"""Whole models under `torch.compile(backend="neuron")`: a training step gives what it gives on the CPU, dropout included."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.conformance._architectures import ARCHITECTURES
from tests.conformance._networks import resnet
from tests.conformance._training import OF_LARGEST, assert_steps_agree, counted, moved, step
from tests.emulated import DEVICE

_FAST = ["bert", "gpt_neox", "llama", "phi", "t5", "vit"]

# 52 batch norms over two small images: in float32 the eager device is 7.8e-6 of the largest gradient from float64, compiled 8.6e-6.
_OF_LARGEST = {"mobilenet_v2": 1.5e-5}

# What Dynamo says of the code of transformers.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
    pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`:UserWarning"),
    pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin:UserWarning"),
    pytest.mark.filterwarnings(
        "ignore:To copy construct from a tensor:UserWarning"
    ),  # it made a tensor of a NumPy array
    pytest.mark.filterwarnings("ignore:.*Function.*should not be instantiated:DeprecationWarning"),
]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in _FAST else [pytest.mark.slow]) for name in ARCHITECTURES],
)
def test_a_compiled_training_step_is_the_cpus(name: str) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = ARCHITECTURES[name].model().train()
    inputs = ARCHITECTURES[name].inputs()
    there = copy.deepcopy(model).to(DEVICE)
    # Dynamo turns NumPy's random numbers into PyTorch's otherwise: SpecAugment would mask other places than in eager.
    with torch._dynamo.config.patch(use_numpy_random_stream=True):
        compiled = step(torch.compile(there, backend="neuron"), there, inputs, DEVICE)
    assert_steps_agree(compiled, step(model, model, inputs, "cpu"), _OF_LARGEST.get(name, OF_LARGEST))
    torch._dynamo.reset()


def _resnet18() -> tuple[nn.Module, dict[str, Any]]:
    return resnet((2, 2, 2, 2)), {"x": torch.randn(2, 3, 16, 16), "labels": torch.tensor([0, 2])}


def _architecture(name: str) -> tuple[nn.Module, dict[str, Any]]:
    model, inputs = ARCHITECTURES[name].model(), ARCHITECTURES[name].inputs()
    model.loss_type = (
        model.loss_type or "ForCausalLM"
    )  # otherwise GPT-2 warns inside its forward, which breaks the graph
    for module in model.modules():
        for option, value in vars(module).items():
            if isinstance(value, float) and (option == "p" or "drop" in option):
                setattr(module, option, 0.0)
    return model, inputs


_WHOLE: dict[str, Callable[[], tuple[nn.Module, dict[str, Any]]]] = {
    "resnet18": _resnet18,
    **{name: functools.partial(_architecture, name) for name in ("bert", "gpt2", "llama")},
}


@pytest.mark.parametrize("make", _WHOLE.values(), ids=_WHOLE)
def test_a_training_step_without_dropout_is_two_neffs(
    make: Callable[[], tuple[nn.Module, dict[str, Any]]],
) -> None:
    torch._dynamo.reset()
    model, inputs = make()
    model.train().to(DEVICE)
    compiled = torch.compile(model, backend="neuron", fullgraph=True)
    with counted() as calls:
        result = compiled(**moved(inputs, DEVICE))
        (result if isinstance(result, torch.Tensor) else result.loss).backward()
    graphs = {op: count for (op, _), count in calls.items() if op.startswith("graph::")}
    assert sorted((op.rpartition("_")[2], count) for op, count in graphs.items()) == [("backward", 1), ("forward", 1)]
    torch._dynamo.reset()
