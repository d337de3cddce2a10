"""`torch_neuronx.metrics` and what the compilation cache tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch_neuronx
from torch_neuronx import _C, metrics

from neuron_lab import neff
from tests.emulated import DEVICE, output_of

COUNTERS = {
    "CompilationCache.InMemoryHits",
    "CompilationCache.InMemoryMisses",
    "CompilationCache.PersistentHits",
    "CompilationCache.PersistentMisses",
    "CompilationCache.Evictions",
    "CompilationCache.TotalCompilations",
}
METRICS = {"CompilationCache.NeffSize", "CompilationCache.CompilationTime"}


@pytest.fixture
def enabled() -> Iterator[None]:
    metrics.set_enabled(True)
    metrics.clear_all()
    yield
    metrics.set_enabled(False)
    metrics.clear_all()


def counts() -> dict[str, int | None]:
    return {name.partition(".")[2]: metrics.get_counter_value(name) for name in COUNTERS}


def test_the_names_are_torchneurons() -> None:
    assert set(metrics.get_counter_names()) == COUNTERS
    assert set(metrics.get_metric_names()) == METRICS


def test_they_are_off_by_default_and_count_nothing() -> None:
    assert not metrics.is_enabled()
    before = counts()  # a profile by the generic recorder counts for as long as it lasts
    torch.ones(2, device=DEVICE).exp()
    assert counts() == before


@pytest.mark.usefixtures("enabled")
def test_a_cold_and_two_warm_calls() -> None:
    x = torch.empty(3, 11, device=DEVICE)
    for _ in range(3):
        x.sinh()
    assert counts() == {
        "InMemoryHits": 2,
        "InMemoryMisses": 1,
        "PersistentHits": 0,
        "PersistentMisses": 1,
        "Evictions": 0,
        "TotalCompilations": 1,
    }
    size, spent = (metrics.get_metric_data(name) for name in sorted(METRICS, reverse=True))
    assert size is not None and spent is not None
    assert (size["total_samples"], spent["total_samples"]) == (1, 1)
    (sample,) = size["samples"]
    assert sample["value"] == size["accumulator"] > 0 and sample["timestamp_ns"] > 1_500_000_000 * 10**9


@pytest.mark.usefixtures("enabled")
def test_a_neff_from_disk_is_a_persistent_hit() -> None:
    x = torch.empty(4, 11, device=DEVICE)
    x.sinh()
    _C._clear_compilation_memory_cache()
    metrics.clear_all()
    x.sinh()
    told = counts()
    assert (told["PersistentHits"], told["TotalCompilations"], told["InMemoryMisses"]) == (1, 0, 1)


@pytest.mark.usefixtures("enabled")
def test_what_happens_while_disabled_is_not_counted() -> None:
    x = torch.ones(5, device=DEVICE)
    x.exp(), x.exp()
    before = counts()
    metrics.set_enabled(False)
    x.exp()
    assert counts() == before
    metrics.set_enabled(True)
    assert counts() == before


@pytest.mark.usefixtures("enabled")
def test_the_report() -> None:
    torch.empty(6, 11, device=DEVICE).sinh()
    lines = metrics.report().splitlines()
    assert lines[0] == "=== Neuron Metrics Report ==="
    assert "Metric: CompilationCache.NeffSize" in lines and "  TotalSamples: 1" in lines
    assert lines[lines.index("Counter: CompilationCache.TotalCompilations") + 1] == "  Value: 1"
    short = metrics.report_filtered(["CompilationCache.InMemoryMisses", "no such"], [])
    assert short.splitlines()[1:] == ["Counter: CompilationCache.InMemoryMisses", "  Value: 1"]
    assert set(metrics.get_compilation_metrics()) == COUNTERS | METRICS


def test_an_unknown_name() -> None:
    assert metrics.get_counter_value("no such") is None and metrics.get_metric_data("no such") is None


@pytest.mark.parametrize(
    ("value", "enabled"), [("1", True), ("true", True), ("YES", True), ("0", False), (None, False)]
)
def test_the_environment_enables_them_from_the_start(value: str | None, enabled: bool) -> None:
    program = (
        "import torch; torch.ones(3, device='neuron').exp(); import torch_neuronx.metrics as m; "
        "print(m.is_enabled(), m.get_counter_value('CompilationCache.InMemoryMisses') > 0)"
    )
    assert output_of(program, TORCH_NEURONX_METRICS_ENABLED=value) == f"{enabled} {enabled}"


def test_the_neff_of_an_entry(tmp_path: Path) -> None:
    torch.ones(7, 11, device=DEVICE).sinh()
    entry = next(entry for entry in _C._get_compilation_cache_entries() if "[7, 11]" in entry["cache_key"])
    key, data = _C.get_neff_info(entry["cache_key"])
    assert (key, len(data)) == (entry["neff"], entry["neff_size_bytes"])
    path = tmp_path / "some.neff"
    path.write_bytes(data)
    assert neff.read(path).header
    with pytest.raises(KeyError, match="no emulated NEFF in memory has the cache key 'nothing'"):
        _C.get_neff_info("nothing")


def test_a_neff_whose_file_is_gone() -> None:
    with pytest.raises(RuntimeError, match="is not in the cache directory"):
        _C.get_neff_cache("0" * 32)


def test_the_runtime_is_initialised() -> None:
    assert torch_neuronx.is_neuron_runtime_initialized()


def test_dynamo_metrics_tell_the_compiled_graphs() -> None:
    torch.neuron.reset_dynamo_metrics()
    assert torch.neuron.get_dynamo_metrics() == []
    torch.ones(3, device=DEVICE).exp()
    assert torch.neuron.get_dynamo_metrics() == []  # an eager op is no graph
