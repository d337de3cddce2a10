"""A warm eager op from Python, 8×8 float32, one thread, grad off; the CPU's own time beside it."""

from __future__ import annotations

import torch

from benchmarks._timing import medians_us, row

BUDGET_US = 15.0


def run() -> None:
    """Print the median per op."""
    torch.set_num_threads(1)
    with torch.no_grad():
        _run()


def _run() -> None:
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    x, y = a.to("neuron"), b.to("neuron")
    calls = {
        "add": lambda: x + y,
        "add cpu": lambda: a + b,
        "mm": lambda: x @ y,
        "mm cpu": lambda: a @ b,
        "relu": lambda: torch.relu(x),
        "relu cpu": lambda: torch.relu(a),
        "softmax": lambda: torch.softmax(x, -1),
        "softmax cpu": lambda: torch.softmax(a, -1),
        "add a number": lambda: x + 1.5,
        "add in place": lambda: x.add_(y),
        "transposed mm": lambda: x.t() @ y,
    }
    print("warm eager op, 8×8 float32")
    figures = medians_us(calls)
    for name in calls:
        if not name.endswith(" cpu"):
            cpu = figures.get(f"{name} cpu")
            row(name, figures[name], "us", BUDGET_US if cpu else None, f"cpu {cpu:.2f} us" if cpu else "")
