"""Measure one way to run eager ops, in an environment that has it: `python benchmarks/_peer.py neuron|xla|torchax|cpu warm|cold|steps`.

Prints JSON. Imports nothing of this project, so that it runs in the environments of others.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Wait = Callable[[], object]


def _neuron() -> tuple[str, Wait]:
    return "neuron", lambda: None  # a call returns when its result is there


def _cpu() -> tuple[str, Wait]:
    return "cpu", lambda: None


def _xla() -> tuple[str, Wait]:
    os.environ["PJRT_DEVICE"] = "CPU"
    import torch_xla
    import torch_xla.core.xla_model as xm

    torch_xla.experimental.eager_mode(True)
    return str(torch_xla.device()), lambda: xm.wait_device_ops()


def _torchax() -> tuple[str, Wait]:
    # torchax 0.0.13 names overloads that torch 2.13 no longer has.
    packet = torch._ops.OpOverloadPacket
    plain = packet.__getattr__

    def lenient(self: Any, name: str) -> Any:
        try:
            return plain(self, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return object()

    packet.__getattr__ = lenient  # type: ignore[method-assign]
    import jax
    import torchax

    torchax.enable_globally()
    return "jax", lambda: [array.block_until_ready() for array in jax.live_arrays()]


PEERS: dict[str, Callable[[], tuple[str, Wait]]] = {"neuron": _neuron, "cpu": _cpu, "xla": _xla, "torchax": _torchax}


def _per_call_us(call: Callable[[], object], wait: Wait, *, each: bool, number: int = 200, rounds: int = 15) -> float:
    samples = []
    for _ in range(rounds):
        started = time.perf_counter_ns()
        for _ in range(number):
            call()
            if each:
                wait()
        samples.append((time.perf_counter_ns() - started) / number / 1e3)
        wait()
    return statistics.median(samples)


def warm(device: str, wait: Wait) -> dict[str, float]:
    """Microseconds per warm op on 8×8 float32: dispatched, and waited for."""
    x, y = torch.randn(8, 8).to(device), torch.randn(8, 8).to(device)
    calls: dict[str, Callable[[], Tensor]] = {
        "add": lambda: x + y,
        "mm": lambda: x @ y,
        "relu": lambda: torch.relu(x),
        "softmax": lambda: torch.softmax(x, -1),
    }
    result = {}
    for name, call in calls.items():
        for _ in range(50):
            call()
        wait()
        number = 20 if device == "jax" else 200
        result[f"{name} dispatched"] = _per_call_us(call, wait, each=False, number=number)
        result[f"{name} waited for"] = _per_call_us(call, wait, each=True, number=number)
    return result


def cold(device: str, wait: Wait) -> dict[str, float]:
    """CPU milliseconds of an op's first call on a shape; the libraries behind it were used before."""
    x = torch.randn(8, 32).to(device)
    image, kernel = torch.randn(2, 3, 16, 16).to(device), torch.randn(4, 3, 3, 3).to(device)
    q = torch.randn(1, 2, 8, 16).to(device)
    warmups = (x - x, F.log_softmax(x, -1), F.group_norm(image, 3), F.conv2d(image[:1], kernel[:2]), q @ q.mT)
    wait()
    del warmups
    calls: dict[str, Callable[[], Tensor]] = {
        "add": lambda: x + x,
        "softmax": lambda: torch.softmax(x, -1),
        "layer_norm": lambda: F.layer_norm(x, (32,)),
        "conv2d": lambda: F.conv2d(image, kernel),
        "attention": lambda: F.scaled_dot_product_attention(q, q, q),
    }
    spent = {}
    for name, call in calls.items():
        started = time.process_time()
        result = call()
        wait()
        spent[name] = (time.process_time() - started) * 1e3
        del result
    return spent


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.after(x))


class _Gpt(nn.Module):
    """A tiny GPT-2: 2 layers of width 64, 128 tokens, 32 positions."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(128, 64), nn.Embedding(32, 64)
        self.blocks = nn.Sequential(Block(64, 4), Block(64, 4))
        self.head = nn.Linear(64, 128)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.head(self.blocks(self.tokens(ids) + self.places(places))).flatten(0, 1)


class _Basic(nn.Module):
    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inward, outward, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outward),
            nn.ReLU(),
            nn.Conv2d(outward, outward, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outward),
        )
        plain = stride == 1 and inward == outward
        self.skip = (
            nn.Identity()
            if plain
            else nn.Sequential(nn.Conv2d(inward, outward, 1, stride, bias=False), nn.BatchNorm2d(outward))
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


def resnet18() -> nn.Module:
    widths = [
        (64, 64, 1),
        (64, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 256, 2),
        (256, 256, 1),
        (256, 512, 2),
        (512, 512, 1),
    ]
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(
        *stem, *(_Basic(*w) for w in widths), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)
    )


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def steps(device: str, wait: Wait) -> dict[str, float]:
    """Milliseconds of a whole warm training step with AdamW, waited for."""
    torch.manual_seed(0)
    cases = {
        "tiny GPT-2": (_Gpt(), torch.randint(0, 128, (4, 32)), torch.randint(0, 128, (128,)), 20),
        "ResNet-18, 2×3×64×64": (resnet18(), torch.randn(2, 3, 64, 64), torch.randint(0, 10, (2,)), 8),
        "MLP": (_mlp(), torch.randn(32, 64), torch.randint(0, 10, (32,)), 50),
    }
    return {name: _step_ms(device, wait, *case) for name, case in cases.items()}


def _step_ms(device: str, wait: Wait, model: nn.Module, x: Tensor, y: Tensor, number: int) -> float:
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    for _ in range(4):
        step()
    wait()
    samples = []
    for _ in range(number):
        started = time.perf_counter_ns()
        step()
        wait()
        samples.append((time.perf_counter_ns() - started) / 1e6)
    return statistics.median(samples)


def main(peer: str, what: str) -> None:
    """Print what one peer needs for one kind of measurement."""
    torch.set_num_threads(2 if what == "steps" else 1)
    device, wait = PEERS[peer]()
    measure = {"warm": warm, "cold": cold, "steps": steps}[what]
    if what == "steps":
        print(json.dumps(measure(device, wait)))
        return
    with torch.no_grad():
        print(json.dumps(measure(device, wait)))


if __name__ == "__main__":
    main(*sys.argv[1:])
