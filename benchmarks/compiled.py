"""`torch.compile(backend="neuron")` beside eager PyTorch and Inductor on the CPU: same models, same machine, two threads.

Only ratios have budgets: what is compared takes turns.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks._peer import Block, resnet18
from benchmarks._timing import medians_us, row

Call = Callable[[], object]
Make = Callable[[str, str | None], Call]
"""Device and backend (None for eager) to one call of the model."""

ROUNDS = 15
LAUNCH_BUDGET_US = 60.0
COLD_BUDGET, DISK_BUDGET = 0.6, 0.1


def _wrapped(model: nn.Module, device: str, backend: str | None) -> tuple[nn.Module, Callable[..., Any]]:
    model = copy.deepcopy(model).to(device)
    return model, model if backend is None else torch.compile(model, backend=backend)


def mlp_step(device: str, backend: str | None) -> Call:
    """Forward, loss, backward and AdamW of 784-1024-1024-10 on 128 rows."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    model, call = _wrapped(layers, device, backend)
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = torch.randn(128, 784).to(device), torch.randint(0, 10, (128,)).to(device)

    def update() -> None:
        optimizer.step()

    advance = update if backend is None else torch.compile(update, backend=backend)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(call(x), y).backward()
        advance()

    return step


def block_forward(device: str, backend: str | None) -> Call:
    """A block of GPT-2 small on 4×256 tokens."""
    torch.manual_seed(0)
    _, call = _wrapped(Block(768, 12).eval(), device, backend)
    x = torch.randn(4, 256, 768).to(device)
    return torch.no_grad()(lambda: call(x))


def block_backward(device: str, backend: str | None) -> Call:
    """Forward and backward of the same."""
    torch.manual_seed(0)
    model, call = _wrapped(Block(768, 12), device, backend)
    x = torch.randn(4, 256, 768).to(device)

    def step() -> None:
        model.zero_grad()
        call(x).sum().backward()

    return step


def resnet_forward(device: str, backend: str | None) -> Call:
    """ResNet-18 on 4×3×224×224."""
    torch.manual_seed(0)
    _, call = _wrapped(resnet18().eval(), device, backend)
    x = torch.randn(4, 3, 224, 224).to(device)
    return torch.no_grad()(lambda: call(x))


CASES: dict[str, tuple[Make, float | None, float | None]] = {
    "MLP training step": (mlp_step, 0.5, 1.0),
    "GPT-2 block, forward": (block_forward, None, 1.2),
    "GPT-2 block, and backward": (block_backward, 1.2, None),
    "ResNet-18, forward": (resnet_forward, None, 1.6),
}
"""What is called, and the budgets as parts of eager's time and of Inductor's."""


def run() -> None:
    """Print the ratios of warm calls, the cost of a launch, and what the first call costs cold and from disk."""
    torch.set_num_threads(2)
    print("a warm call, as a part of the CPU's: eager, then Inductor")
    for name, (make, of_eager, of_inductor) in CASES.items():
        torch._dynamo.reset()
        calls = {"eager": make("cpu", None), "inductor": make("cpu", "inductor"), "neuron": make("neuron", "neuron")}
        figures = medians_us(calls, rounds=ROUNDS, number=1)
        note = ", ".join(f"{kind} {value / 1e3:.1f} ms" for kind, value in figures.items())
        row(f"{name} / eager", figures["neuron"] / figures["eager"], "", of_eager, note)
        row(f"{name} / Inductor", figures["neuron"] / figures["inductor"], "", of_inductor)
    _launch()
    _first_calls()


def _launch() -> None:
    """A tiny graph: what a call costs besides its executable and Dynamo's own guards and frames."""
    from neuron_lab.emulator import shim

    torch._dynamo.reset()
    x, z = torch.ones(8, device="neuron"), torch.ones(8)
    call, plain = torch.compile(_tiny, backend="neuron"), torch.compile(_tiny, backend="eager")
    with torch.no_grad():
        figures = medians_us({"neuron": lambda: call(x), "dynamo": lambda: plain(z), "ops": lambda: _tiny(z)})
        session = shim().open_session(1)
        for _ in range(200):
            call(x)
        shim().close_session(session)
    _, _, _, _, count, _, _, device_ns, *_ = shim().drain(session)["totals"][0]
    inside, guards = device_ns / count / 1e3, figures["dynamo"] - figures["ops"]
    note = f"of {figures['neuron']:.1f} us, the executable {inside:.1f} us, Dynamo {guards:.1f} us"
    row("a launch, besides both", figures["neuron"] - inside - guards, "us", LAUNCH_BUDGET_US, note)


def _tiny(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def _first_calls() -> None:
    print(
        "a first call in a new process, CPU time with its child processes: as a part of Inductor's; from disk, the NEFFs alone"
    )
    for name, (make, *_) in CASES.items():
        with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
            environment = {**os.environ, "TORCH_NEURONX_NEFF_CACHE_DIR": ours, "TORCHINDUCTOR_CACHE_DIR": theirs}
            cold = _first_call(make.__name__, "neuron", environment)
            disk = _first_call(make.__name__, "neuron", environment)
            other = _first_call(make.__name__, "inductor", environment)
        note = f"{cold['all']:.2f} s, Inductor {other['all']:.2f} s"
        row(f"{name}, cold", cold["all"] / other["all"], "", COLD_BUDGET, note)
        row(f"{name}, from disk", disk["neffs"] / cold["neffs"], "", DISK_BUDGET, f"whole call {disk['all']:.2f} s")
        if disk["compiled"]:
            raise SystemExit(f"the second process compiled {disk['compiled']:.0f} graphs of {name} again")


def _first_call(make: str, backend: str, environment: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.compiled", make, backend]
    alone = {**environment, "TORCHINDUCTOR_COMPILE_THREADS": "1"}  # its workers would not be counted
    done = subprocess.run(command, env=alone, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _in_this_process(make: str, backend: str) -> dict[str, float]:
    """CPU seconds of the whole first call and of obtaining its NEFFs, and how many of these were compiled."""
    torch.set_num_threads(1)
    device, own = "neuron" if backend == "neuron" else "cpu", os.getpid()  # in no cache yet
    # Dynamo's import, the start of toolchain and library and the C++ compiler's probe are paid once per process or machine, not per model.
    torch.compile(lambda x: (x @ x).sin() + own, backend=backend)(torch.ones(3, 3, device=device))
    call: Call = globals()[make](device, backend)
    spent: list[float] = []

    def watched(unit: Any) -> Any:
        started = time.process_time()
        result = obtain(unit)
        spent.append(time.process_time() - started)
        return result

    from neuron_lab.emulator import dispatch, events

    before = len(events.history())
    obtain, dispatch._obtain = dispatch._obtain, watched
    started = _cpu_s()
    call()
    whole = _cpu_s() - started
    compiled = [event for event in events.history()[before:] if event.source == "compiled" and "graph::" in event.op]
    return {"all": whole, "neffs": sum(spent), "compiled": len(compiled)}


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    print(json.dumps(_in_this_process(*sys.argv[1:])))
