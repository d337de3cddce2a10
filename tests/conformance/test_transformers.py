"""Small transformers models with random weights, dropout included: loss, outputs and every gradient as on the CPU."""

from __future__ import annotations

import functools
from collections import Counter

import pytest

from tests.conformance._architectures import ARCHITECTURES
from tests.conformance._training import Step, assert_steps_agree, counted, steps

_FAST = """
    gpt2 llama gemma2 falcon mixtral mamba bert electra deberta_v2 xlnet t5 bart m2m_100 vit convnext resnet swin wav2vec2
    whisper clip blip
""".split()
_SLOW = [name for name in ARCHITECTURES if name not in _FAST]
_ON_THE_HOST = {
    "aten::uniform_",  # stochastic depth draws a number for each sample
    "aten::bernoulli_.float",
    "aten::_ctc_loss",
    "aten::_ctc_loss_backward",
    "aten::_unique2",
}
"""The ops that may run on the CPU: random numbers, and what TorchNeuron leaves to the CPU too."""


@functools.cache
def trained(name: str) -> tuple[Step, Step, Counter[tuple[str, str]]]:
    """A step on the device, the same on the CPU, and the calls on the device."""
    architecture = ARCHITECTURES[name]
    with counted() as calls:
        there, here = steps(architecture.model, architecture.inputs)
    return there, here, calls


def share_compiled(names: list[str]) -> float:
    """Of all calls that compute something on the device."""
    calls = Counter[tuple[str, str]]()
    for name in names:
        calls += trained(name)[2]
    on_the_host = sum(count for (_, kind), count in calls.items() if kind == "fallback")
    return 1 - on_the_host / calls.total()


@pytest.mark.parametrize("name", [*_FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in _SLOW)])
def test_a_training_step_is_the_cpus(name: str) -> None:
    there, here, calls = trained(name)
    assert_steps_agree(there, here)
    assert {op for op, kind in calls if kind == "fallback"} <= _ON_THE_HOST


def test_of_all_calls_at_least_99_in_100_are_compiled() -> None:
    assert share_compiled(_FAST) >= 0.99


@pytest.mark.slow
def test_of_all_calls_of_all_architectures_at_least_99_in_100_are_compiled() -> None:
    assert share_compiled(list(ARCHITECTURES)) >= 0.99
