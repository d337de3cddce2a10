"""Cold compile per op in CPU time, and the same op from the disk cache in a new process."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._timing import row

BUDGETS_MS = {"add": 40.0, "softmax": 60.0, "layer_norm": 90.0, "conv2d": 80.0}
DISK_BUDGET_MS = 10.0
ROUNDS = 5


def run() -> None:
    """Each round is two new processes on an empty cache directory: one compiles, one reads. Medians over the rounds."""
    cold: dict[str, list[float]] = {name: [] for name in BUDGETS_MS}
    disk: dict[str, list[float]] = {name: [] for name in BUDGETS_MS}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            for samples in (cold, disk):
                for name, value in _measure(Path(folder)).items():
                    samples[name].append(value)
    print("cold compile per op, CPU time of the process")
    for name, budget in BUDGETS_MS.items():
        row(name, statistics.median(cold[name]), "ms", budget)
    print("the same from the disk cache in a new process")
    for name in BUDGETS_MS:
        row(name, statistics.median(disk[name]), "ms", DISK_BUDGET_MS)


def _measure(cache: Path) -> dict[str, float]:
    environment = {**os.environ, "TORCH_NEURONX_NEFF_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cold_compile"], env=environment, capture_output=True, text=True, check=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _in_this_process() -> dict[str, float]:
    import time

    import torch
    import torch.nn.functional as F

    torch.set_grad_enabled(False)
    x = torch.randn(8, 32, device="neuron")
    image, kernel = torch.randn(2, 3, 16, 16, device="neuron"), torch.randn(4, 3, 3, 3, device="neuron")
    # One op of each library path first: imports, the client and XLA's convolution runtime (35 ms at its first run, from disk too)
    # are paid once per process, not per op.
    warmups = (x - x, F.log_softmax(x, -1), F.group_norm(image, 3), F.conv2d(image[:1], kernel[:2]))
    del warmups
    calls = {
        "add": lambda: x + x,
        "softmax": lambda: torch.softmax(x, -1),
        "layer_norm": lambda: F.layer_norm(x, (32,)),
        "conv2d": lambda: F.conv2d(image, kernel),
    }
    spent = {}
    for name, call in calls.items():
        started = time.process_time()
        call()
        spent[name] = (time.process_time() - started) * 1e3
    return spent


if __name__ == "__main__":
    print(json.dumps(_in_this_process()))
