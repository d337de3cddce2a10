"""`generate` on the device gives the tokens of the CPU: greedy, drawn with equal seeds, in beams, with every kind of cache."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch

from tests.conformance._architectures import ARCHITECTURES, tokens
from tests.emulated import DEVICE

_LENGTH = {"max_new_tokens": 4, "pad_token_id": 0}
_DRAWN = {**_LENGTH, "do_sample": True}
_CHOSEN = {**_LENGTH, "do_sample": False}
WAYS: dict[str, dict[str, Any]] = {
    "greedy": _CHOSEN,
    "drawn": {**_DRAWN, "temperature": 0.8},
    "drawn from the 20 likeliest": {**_DRAWN, "top_k": 20},
    "drawn from the nucleus": {**_DRAWN, "top_p": 0.9, "top_k": 0},
    "beams": {**_CHOSEN, "num_beams": 3},
    "drawn beams": {**_DRAWN, "num_beams": 2, "num_return_sequences": 2},
    "static cache": {**_CHOSEN, "cache_implementation": "static"},
    "no cache": {**_CHOSEN, "use_cache": False},
    "penalties": {**_CHOSEN, "repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_new_tokens": 3},
}


_FAST = {
    "gpt2": ("greedy", "drawn from the 20 likeliest", "beams"),
    "llama": ("greedy", "drawn from the nucleus", "static cache"),
}


CASES = [
    pytest.param(name, way, marks=() if way in fast else pytest.mark.slow)
    for name, fast in _FAST.items()
    for way in WAYS
]


@functools.cache
def both(name: str) -> tuple[Any, Any]:
    """A model on the device and its twin on the CPU."""
    torch.manual_seed(0)
    model = ARCHITECTURES[name].model().eval()
    # Random weights make one token much like another: larger ones put clear distances between them.
    for parameter in model.parameters():
        parameter.data.mul_(4 if parameter.dim() > 1 else 1)
    return copy.deepcopy(model).to(DEVICE), model


def prompt() -> tuple[torch.Tensor, torch.Tensor]:
    """Two rows padded on the left, as generation wants, and their mask."""
    torch.manual_seed(0)
    ids = tokens().flip(1)
    return ids, (ids != 0).long()


@pytest.mark.parametrize(("name", "way"), CASES)
def test_the_tokens_are_the_cpus(name: str, way: str) -> None:
    there, here = both(name)
    ids, mask = prompt()
    torch.manual_seed(1)
    want = here.generate(ids, attention_mask=mask, **WAYS[way])
    torch.manual_seed(1)
    got = there.generate(ids.to(DEVICE), attention_mask=mask.to(DEVICE), **WAYS[way])
    assert got.device.type == DEVICE
    assert torch.equal(got.cpu(), want)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in ("t5", "mamba", "bart")])
def test_other_caches_give_the_tokens_of_the_cpu(name: str) -> None:
    there, here = both(name)
    ids, mask = prompt()
    want = here.generate(ids, attention_mask=mask, **_CHOSEN)
    assert torch.equal(there.generate(ids.to(DEVICE), attention_mask=mask.to(DEVICE), **_CHOSEN).cpu(), want)


def test_scores_are_the_cpus() -> None:
    there, here = both("llama")
    ids, mask = prompt()
    options = {**_CHOSEN, "return_dict_in_generate": True, "output_scores": True}
    want = here.generate(ids, attention_mask=mask, **options)
    got = there.generate(ids.to(DEVICE), attention_mask=mask.to(DEVICE), **options)
    for score, expected in zip(got.scores, want.scores, strict=True):
        torch.testing.assert_close(score.cpu(), expected, rtol=1e-4, atol=1e-4)
