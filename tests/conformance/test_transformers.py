"""Small transformers models with random weights: logits and gradients as on the CPU, and no CPU fallback on the way."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_neuronx
import transformers

from tests.emulated import DEVICE

_SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def gpt2() -> Any:
    config = transformers.GPT2Config(
        n_layer=2, n_embd=32, n_head=2, vocab_size=100, n_positions=64, bos_token_id=0, eos_token_id=1
    )
    return transformers.GPT2LMHeadModel(config)


def bert() -> Any:
    return transformers.BertForMaskedLM(transformers.BertConfig(**_SMALL))


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**_SMALL, num_key_value_heads=2))


@pytest.mark.parametrize("make", [gpt2, bert, llama])
def test_logits_and_gradients_are_the_cpus(make: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    model = make().train()
    moved = copy.deepcopy(model).to(DEVICE)
    ids = torch.randint(2, 100, (2, 12))
    torch_neuronx.clear_op_tracking()
    outputs = []
    for one, device in ((model, "cpu"), (moved, DEVICE)):
        torch.manual_seed(1)  # dropout draws alike
        output = one(input_ids=ids.to(device), labels=ids.to(device))
        output.loss.backward()
        outputs.append(output)
    torch.testing.assert_close(outputs[1].logits.cpu(), outputs[0].logits, rtol=1e-4, atol=1e-5)
    for (name, p), q in zip(model.named_parameters(), moved.parameters(), strict=True):
        torch.testing.assert_close(
            q.grad.cpu(), p.grad, rtol=1e-3, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )
    assert torch_neuronx.get_fallback_ops() == []


def test_generate_gives_the_tokens_of_the_cpu() -> None:
    torch.manual_seed(0)
    model = gpt2().eval()
    moved = copy.deepcopy(model).to(DEVICE)
    ids = torch.randint(2, 100, (1, 5))
    options = {"do_sample": False, "max_new_tokens": 6, "pad_token_id": 0}
    want = model.generate(ids, **options)
    assert torch.equal(moved.generate(ids.to(DEVICE), **options).cpu(), want)
