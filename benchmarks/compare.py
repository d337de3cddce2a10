"""`neuron_lab.compare` of five models, twice, each time in a new process: how well the second table repeats the first."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator

from benchmarks._timing import row

MODELS = ("mlp", "cnn", "encoder", "gpt2", "bert")
FIGURES = ("first call eager", "first call compiled", "NEFFs on disk", "warm eager", "warm compiled")
BUDGET = 15.0  # per cent


def run() -> None:
    """For each model the figure that differs most between the two runs, and the figures themselves."""
    print("compare, run twice: the largest difference between two tables")
    worst = []
    for model in MODELS:
        first, second = _measure(model), _measure(model)
        apart = {name: abs(first[name] - second[name]) / min(first[name], second[name]) * 100 for name in FIGURES}
        name = max(apart, key=apart.__getitem__)
        worst.append(apart[name])
        row(model, apart[name], "%", BUDGET, f"{name}: {first[name]:.4g} and {second[name]:.4g} ms")
    row("median of the models", statistics.median(worst), "%", BUDGET)


def _measure(model: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.compare", model], capture_output=True, text=True, check=True
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _in_this_process(model: str) -> dict[str, float]:
    import torch

    import neuron_lab

    torch.manual_seed(0)
    trial = neuron_lab.compare(_programs()[model](), rounds=60, label=model).trial
    figures = (
        trial.eager.cold_ns,
        trial.compiled.cold_ns,
        trial.reload_ns,
        trial.eager.quantile_ns(0.5),
        trial.compiled.quantile_ns(0.5),
    )
    return {name: value / 1e6 for name, value in zip(FIGURES, figures, strict=True)}


def _programs() -> dict[str, Callable[[], Callable[[], object]]]:
    """By name, what makes the program: a call without arguments."""
    return dict(zip(MODELS, _makers(), strict=True))


def _makers() -> Iterator[Callable[[], Callable[[], object]]]:
    import torch
    from torch import nn
    from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

    def calls(model: nn.Module, *inputs: torch.Tensor) -> Callable[[], object]:
        model, on_device = model.eval().to("neuron"), [item.to("neuron") for item in inputs]
        return lambda: model(*on_device)

    yield lambda: calls(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)), torch.randn(64, 256))
    layers = (nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 1024, 10))
    yield lambda: calls(nn.Sequential(*layers), torch.randn(8, 3, 32, 32))
    yield lambda: calls(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), torch.randn(8, 32, 64))
    tokens = torch.randint(0, 100, (2, 16))
    small = GPT2Config(n_layer=2, n_head=2, n_embd=64, vocab_size=100, n_positions=32, bos_token_id=0, eos_token_id=0)
    yield lambda: calls(GPT2LMHeadModel(small), tokens)
    tiny = BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, vocab_size=100)
    yield lambda: calls(BertModel(tiny), tokens)


if __name__ == "__main__":
    print(json.dumps(_in_this_process(sys.argv[1])))
