"""What tests on the emulated device share: a NEFF cache for each run, proof that nothing stays behind, fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import torch

from neuron_lab import emulator
from neuron_lab.device import Hook, RawLog
from neuron_lab.emulator import events

DEVICE = "neuron"


@pytest.fixture(scope="session", autouse=True)
def neff_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One directory for this run and the processes it starts: every op is compiled once, and the user's cache is left alone."""
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("neff")
        patch.setenv("TORCH_NEURONX_NEFF_CACHE_DIR", str(root))
        yield root


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    """Nothing compiled and nothing counted, for tests that import it."""
    from torch._dynamo.utils import counters  # other tests do without Dynamo

    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    emulator.shim()
    limit = emulator.hbm_limit()
    yield
    found = {
        "sessions": len(events._open),
        "hbm_limit": emulator.hbm_limit(),
        "core": torch.neuron.current_device(),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device().type,
    }
    for session in list(events._open):
        session.stop()
    emulator.set_hbm_limit(limit)
    torch.neuron.set_device(0)
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    assert found == {"sessions": 0, "hbm_limit": limit, "core": 0, "dtype": torch.float32, "device": "cpu"}


@pytest.fixture
def hbm_limit() -> Iterator[Callable[[int], None]]:
    """Sets another HBM limit, in bytes, until the test ends."""
    before = emulator.hbm_limit()
    yield emulator.set_hbm_limit
    emulator.set_hbm_limit(before)


def recorded(work: Callable[[], object], session: Hook | None = None) -> RawLog:
    """What one session sees of `work`; by default the fast hook's."""
    session = session or events.hook()
    session.start()
    try:
        work()
    finally:
        log = session.stop()
    return log


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """This process's variables with some changed; None removes one."""
    merged: dict[str, str | None] = {**os.environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def run_fresh(program: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment(changes)
    )


def output_of(program: str, **changes: str | None) -> str:
    """What a program prints, stripped; it must succeed."""
    done = run_fresh(program, **changes)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
