"""3,000 training steps must leave the device's bytes as they were and the process's memory flat."""

from __future__ import annotations

import gc

import psutil
import torch

from benchmarks._timing import row

STEPS = 3000
RSS_BUDGET_MB = 8.0  # allocator noise; a leaked 4 kB a step would be 12


def run() -> None:
    """Print the growth of device bytes and of RSS over the second to last step."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8)).to("neuron")
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(16, 64, device="neuron")

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    for _ in range(200):
        step()
    gc.collect()
    process = psutil.Process()
    device, rss = torch.neuron.memory_allocated(), process.memory_info().rss
    for _ in range(STEPS):
        step()
    gc.collect()
    print(f"{STEPS} training steps (MLP, AdamW)")
    row("device bytes gained", torch.neuron.memory_allocated() - device, "B", 0)
    row("RSS gained", (process.memory_info().rss - rss) / 1e6, "MB", RSS_BUDGET_MB)
