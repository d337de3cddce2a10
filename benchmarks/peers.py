"""The emulator beside torch_xla, torchax and the CPU: same machine, same ops, each in its own environment.

`.peers/xla` and `.peers/torchax` are virtual environments; benchmarks/README.md says how to make them. One that is missing is left out.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_PEERS = ("neuron", "cpu", "xla", "torchax")
_ROUNDS = {"warm": 3, "cold": 3, "steps": 2}
_UNITS = {"warm": "us", "cold": "CPU ms", "steps": "ms"}
_TITLES = {
    "warm": "a warm op on 8x8 float32",
    "cold": "an op's first call on a shape",
    "steps": "a warm training step with AdamW",
}


def run() -> None:
    """Print one table for each kind of measurement; the peers take turns, medians over the rounds."""
    found = {peer: python for peer in _PEERS if (python := _python(peer)).exists()}
    for what, rounds in _ROUNDS.items():
        peers = [peer for peer in found if not (peer == "torchax" and what == "steps")]  # it runs no torch optimizer
        samples: dict[str, list[dict[str, float]]] = {peer: [] for peer in peers}
        for _ in range(rounds):
            for peer in peers:
                samples[peer].append(_measure(found[peer], peer, what))
        _print(what, samples)


def _python(peer: str) -> Path:
    return Path(sys.executable) if peer in ("neuron", "cpu") else _ROOT / ".peers" / peer / "bin" / "python"


def _measure(python: Path, peer: str, what: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TORCH_NEURONX_NEFF_CACHE_DIR": cache}
        if peer not in ("neuron", "cpu"):
            environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        command = [str(python), str(_ROOT / "benchmarks" / "_peer.py"), peer, what]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _print(what: str, samples: dict[str, list[dict[str, float]]]) -> None:
    print(f"{_TITLES[what]}, {_UNITS[what]}")
    print(f"  {'':<26}" + "".join(f"{peer:>12}" for peer in samples))
    for name in next(iter(samples.values()))[0]:
        cells = [statistics.median(sample[name] for sample in taken) for taken in samples.values()]
        print(f"  {name:<26}" + "".join(f"{cell:>12.2f}" for cell in cells), flush=True)
