"""Which directory the NEFF cache is in, and who said so: on the emulator and on Trainium."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from neuron_lab import device
from neuron_lab.device import CacheLocation, DeviceInfo, _cache
from neuron_lab.emulator import cache

VARIABLE = "TORCH_NEURONX_NEFF_CACHE_DIR"


@pytest.fixture
def trainium(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """TorchNeuron as its snapshot of April 2026 has it, as far as the cache goes; what was called."""
    calls: list[str] = []
    monkeypatch.setattr(_cache, "resolve", lambda: DeviceInfo("trainium", "Trainium", "", 1))
    native = SimpleNamespace(
        _get_compilation_cache_entries=lambda: [{}, {}, {}],
        _clear_compilation_memory_cache=lambda: calls.append("cleared"),
    )
    module: Any = ModuleType("torch_neuronx")
    module._C = native
    monkeypatch.setitem(sys.modules, "torch_neuronx", module)
    return calls


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({VARIABLE: "/data/neff"}, (Path("/data/neff"), VARIABLE)),
        ({VARIABLE: "/data/neff", "TORCH_NEURONX_NEFF_DISABLE_CACHE": "1"}, (None, "TORCH_NEURONX_NEFF_DISABLE_CACHE")),
        ({"TORCH_NEURONX_DISABLE_NEFF_CACHE": "1"}, (None, "TORCH_NEURONX_DISABLE_NEFF_CACHE")),
        ({VARIABLE: "/x", "TORCH_NEURONX_NEFF_DISABLE_CACHE": "0"}, (Path("/x"), VARIABLE)),
    ],
)
def test_the_emulators(environ: dict[str, str], found: tuple[Path | None, str]) -> None:
    assert cache.location(environ) == found


def test_the_emulators_default_is_the_users() -> None:
    root, chosen_by = cache.location({})
    assert root is not None and root.parts[-2:] == ("neuron_lab", "neff") and chosen_by == ""


@pytest.mark.usefixtures("trainium")
def test_trainiums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("TORCH_NEURONX_NEFF_DISABLE_CACHE", raising=False)
    assert device.cache_location() == CacheLocation(Path("/tmp/neff_cache"), "", emulated=False)
    monkeypatch.setenv(VARIABLE, "/data")
    assert device.cache_location() == CacheLocation(Path("/data"), VARIABLE, emulated=False)
    monkeypatch.setenv("TORCH_NEURONX_NEFF_DISABLE_CACHE", "1")
    assert device.cache_location() == CacheLocation(None, "TORCH_NEURONX_NEFF_DISABLE_CACHE", emulated=False)
    assert device.loaded_neffs() == ()


def test_trainiums_memory_is_cleared_where_it_can_be(trainium: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert device.forget_neffs(dry_run=True) == 3 and trainium == []
    assert device.forget_neffs() == 3 and trainium == ["cleared"]
    monkeypatch.setattr(sys.modules["torch_neuronx"], "_C", SimpleNamespace())
    assert device.forget_neffs() == 0
