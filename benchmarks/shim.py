"""Building the shim, loading it, and what `import torch` pays for the device's presence."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks._timing import row

BUILD_BUDGET_S = 60.0
LOAD_BUDGET_S = 0.3
AUTOLOAD_BUDGET_MS = 50.0

_LOAD = "import time, torch; t = time.perf_counter(); from neuron_lab.emulator import shim, attach; attach(); shim(); print(time.perf_counter() - t)"
_AUTOLOAD = (
    "import time, torch; t = time.perf_counter(); from neuron_lab.emulator._autoload import autoload; autoload(); "
    "print(time.perf_counter() - t)"
)


def run() -> None:
    """Print build time in an empty cache, load time and autoload time."""
    print("the C++ shim")
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        environment = {**os.environ, "XDG_CACHE_HOME": folder}
        subprocess.run([sys.executable, "-m", "neuron_lab.emulator"], env=environment, capture_output=True, check=True)
        row("build, whole process", time.monotonic() - started, "s", BUILD_BUDGET_S, "two cores")
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    row("load from cache", _median(_LOAD, environment), "s", LOAD_BUDGET_S)
    row("autoload in `import torch`", _median(_AUTOLOAD, environment) * 1e3, "ms", AUTOLOAD_BUDGET_MS)


def _median(code: str, environment: dict[str, str]) -> float:
    seconds = []
    for _ in range(7):
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        seconds.append(float(done.stdout))
    return statistics.median(seconds)
