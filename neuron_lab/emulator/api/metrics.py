"""Counters and metrics of the compilation cache, by TorchNeuron's names (its April 2026 snapshot, torch_neuronx/metrics.py).

They count while they are enabled: from the start with TORCH_NEURONX_METRICS_ENABLED=1 (or true, yes), else from
`set_enabled(True)` on.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from neuron_lab.emulator import _attach, events

__all__ = [
    "clear_all",
    "clear_counters",
    "clear_metrics",
    "get_compilation_metrics",
    "get_counter_names",
    "get_counter_value",
    "get_metric_data",
    "get_metric_names",
    "is_enabled",
    "report",
    "report_filtered",
    "set_enabled",
]

_HITS, _MISSES = "CompilationCache.InMemoryHits", "CompilationCache.InMemoryMisses"
_DISK_HITS, _DISK_MISSES = "CompilationCache.PersistentHits", "CompilationCache.PersistentMisses"
_EVICTIONS, _COMPILATIONS = "CompilationCache.Evictions", "CompilationCache.TotalCompilations"
_SIZE, _TIME = "CompilationCache.NeffSize", "CompilationCache.CompilationTime"
_COUNTERS = (_HITS, _MISSES, _DISK_HITS, _DISK_MISSES, _EVICTIONS, _COMPILATIONS)
_SAMPLES = 1024  # TorchNeuron's ring for each metric


@dataclass(slots=True)
class _Metric:
    write: Callable[[float], str]
    accumulator: int = 0
    total: int = 0
    samples: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_SAMPLES))

    def add(self, value: int) -> None:
        self.accumulator += value
        self.total += 1
        self.samples.append((time.time_ns(), value))

    def data(self) -> dict[str, Any]:
        return {
            "accumulator": self.accumulator,
            "total_samples": self.total,
            "repr": self.write(self.accumulator),
            "samples": [{"timestamp_ns": at, "value": value} for at, value in self.samples],
        }


def _bytes(value: float) -> str:
    return f"{value:.0f} B" if value < 1024 else f"{value / 1024:.2f} KiB"


def _ms(value: float) -> str:
    return f"{value / 1e6:.3f} ms"


_lock = threading.Lock()
_enabled = False
_metrics = {_SIZE: _Metric(_bytes), _TIME: _Metric(_ms)}
# A counter is what it had when it was last switched off, plus what was counted since it was switched on.
_kept = dict.fromkeys(_COUNTERS, 0)
_since = dict.fromkeys(_COUNTERS, 0)


def _now() -> dict[str, int]:
    if not _attach.is_started():
        return dict.fromkeys(_COUNTERS, 0)
    from neuron_lab.emulator.api.tracking import _get_compilation_cache_stats

    told = _get_compilation_cache_stats()
    keys = ("in_memory_hits", "in_memory_misses", "persistent_hits", "persistent_misses", "evictions_performed")
    values = [int(told[key]) for key in (*keys, "total_compilations")]
    return dict(zip(_COUNTERS, values, strict=True))


def _counted() -> dict[str, int]:
    if not _enabled:
        return dict(_kept)
    now = _now()
    return {name: _kept[name] + now[name] - _since[name] for name in _COUNTERS}


def _observe(event: events.Compile, executable_bytes: int) -> None:
    if event.source == "compiled":
        with _lock:
            _metrics[_SIZE].add(executable_bytes)
            _metrics[_TIME].add(event.trace_ns + event.lower_ns + event.compile_ns)


def is_enabled() -> bool:
    """Whether counters and metrics count."""
    return _enabled


def set_enabled(enabled: bool) -> None:
    """Begin to count, or end it; what was counted stays."""
    global _enabled
    if enabled == _enabled:
        return
    with _lock:
        if enabled:
            _since.update(_now())
        else:
            _kept.update(_counted())
        _enabled = bool(enabled)
    if enabled:
        events.observers.append(_observe)
    else:
        events.observers.remove(_observe)


def get_counter_names() -> list[str]:
    """The names of all counters."""
    return list(_COUNTERS)


def get_counter_value(name: str) -> int | None:
    """A counter's value; None for a name that is no counter."""
    return _counted().get(name)


def get_metric_names() -> list[str]:
    """The names of all metrics."""
    return list(_metrics)


def get_metric_data(name: str) -> dict[str, Any] | None:
    """{accumulator, total_samples, repr, samples: [{timestamp_ns, value}]}, the newest 1,024 samples; None for no metric.

    NeffSize is in bytes (of the executable in each new NEFF), CompilationTime in nanoseconds.
    """
    with _lock:
        metric = _metrics.get(name)
        return None if metric is None else metric.data()


def get_compilation_metrics() -> dict[str, Any]:
    """Every counter's value and every metric's data, by name."""
    with _lock:
        return {**_counted(), **{name: metric.data() for name, metric in _metrics.items()}}


def report() -> str:
    """All counters and metrics as text."""
    return report_filtered(_COUNTERS, _metrics)


def report_filtered(counter_names: Iterable[str] = (), metric_names: Iterable[str] = ()) -> str:
    """The named ones as text; names that do not exist are left out."""
    lines = ["=== Neuron Metrics Report ==="]
    for name in metric_names:
        if name in _metrics:
            lines += _metric_lines(name)
    counted = _counted()
    for name in counter_names:
        if name in counted:
            lines += [f"Counter: {name}", f"  Value: {counted[name]}"]
    return "\n".join(lines) + "\n"


def _metric_lines(name: str) -> list[str]:
    with _lock:
        metric = _metrics[name]
        values = [value for _, value in metric.samples]
        accumulator, total = metric.accumulator, metric.total
    lines = [f"Metric: {name}", f"  TotalSamples: {total}", f"  Accumulator: {metric.write(accumulator)}"]
    if values:
        figures = (("Mean", accumulator / total), ("Min", min(values)), ("Max", max(values)))
        lines += [f"  {label}: {metric.write(value)}" for label, value in figures]
    return lines


def clear_counters() -> None:
    """Set every counter to 0."""
    with _lock:
        _kept.update(dict.fromkeys(_COUNTERS, 0))
        if _enabled:
            _since.update(_now())


def clear_metrics() -> None:
    """Forget every metric's samples."""
    with _lock:
        for metric in _metrics.values():
            metric.accumulator = metric.total = 0
            metric.samples.clear()


def clear_all() -> None:
    """Both."""
    clear_counters()
    clear_metrics()


if os.environ.get("TORCH_NEURONX_METRICS_ENABLED", "").lower() in ("1", "true", "yes"):
    set_enabled(True)
