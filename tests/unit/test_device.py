"""Who serves `neuron`, and what the environment says to nobody."""

from __future__ import annotations

import types

import pytest
import torch

from neuron_lab.device import DeviceInfo, describe, ignored_variables, resolve
from neuron_lab.device._describe import from_mapping


class Properties:
    name = "trn2"
    total_memory = 24 << 30


@pytest.fixture
def trainium(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """`torch.neuron` as TorchNeuron registers it, as far as the facade looks."""
    module = types.ModuleType("torch_neuronx.neuron")
    vars(module).update(
        __file__="/site-packages/torch_neuronx/neuron.py",
        device_count=lambda: 2,
        get_device_properties=lambda index: Properties,
        memory_allocated=lambda index: 100 + index,
        max_memory_allocated=lambda index: 200 + index,
        synchronize=lambda: None,
    )
    package = types.ModuleType("torch_neuronx")
    vars(package)["__version__"] = "2.14.0"
    monkeypatch.setitem(__import__("sys").modules, "torch_neuronx", package)
    monkeypatch.setattr(torch, "neuron", module, raising=False)
    monkeypatch.setattr(torch, "get_device_module", lambda name: module)
    return module


def test_trainium_is_found_by_what_it_offers(trainium: types.ModuleType) -> None:
    info = resolve()
    assert (info.kind, info.name, info.core_count) == ("trainium", "Trainium trn2", 2)
    assert info.versions["torch_neuronx"] == "2.14.0"


def test_trainium_cores_are_described(trainium: types.ModuleType) -> None:
    found = describe()
    assert [(core.used, core.peak) for core in found.cores] == [(100, 200), (101, 201)]
    assert found.cores[0].limit == 24 << 30
    assert found.variables_read is None


def test_description_of_the_emulator_is_typed() -> None:
    told = {
        "cores": [{"used": 1, "limit": 2, "peak": 3}],
        "cache": {"dir": "/c", "entries": 4, "bytes": 5, "hits_memory": 6, "hits_disk": 7, "misses": 8},
        "variables_read": ["A"],
    }
    found = from_mapping(DeviceInfo("emulator", "emulated trn2", "why", 1), told)
    assert (found.cores[0].used, found.cores[0].limit, found.cores[0].peak) == (1, 2, 3)
    assert found.cache is not None
    assert (found.cache.directory, found.cache.entries, found.cache.misses) == ("/c", 4, 8)
    assert found.variables_read == frozenset({"A"})


READ = ["TORCH_NEURONX_NEFF_CACHE_DIR", "TORCH_NEURONX_NEFF_DISABLE_CACHE"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("NEURON_COMPILE_CACHE_URL", "only the XLA-era library reads it; here it is TORCH_NEURONX_NEFF_CACHE_DIR"),
        ("TORCH_NEURONX_NEFF_CACHE_DIRS", "here it is TORCH_NEURONX_NEFF_CACHE_DIR"),
        ("TORCH_NEURONX_DISABLE_NEFF_CACHE", "here it is TORCH_NEURONX_NEFF_DISABLE_CACHE"),
        ("NEURON_RT_EXEC_TIMEOUT", ""),
        ("COLLECTIVE_MIN_BUCKETS", ""),
    ],
)
def test_variable_that_changes_nothing(name: str, hint: str) -> None:
    (found,) = ignored_variables({name: "x", "PATH": "/bin", READ[0]: "/c"}, READ)
    assert (found.name, found.value, found.hint) == (name, "x", hint)
