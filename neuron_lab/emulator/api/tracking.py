"""Which ops ran, which fell back, and what the compilation cache holds (TorchNeuron's April 2026 snapshot, NeuronBindings.cpp)."""

from __future__ import annotations

from typing import Any

from neuron_lab import neff as neff_files
from neuron_lab.emulator import _attach, dispatch, events

__all__ = ["clear_op_tracking", "get_executed_ops", "get_fallback_ops", "is_neuron_runtime_initialized"]


def get_executed_ops() -> list[str]:
    """Unique full names of the ops that ran since the last clear, fallbacks included; no order, no counts."""
    return [name for name, *_ in _attach.shim().op_calls()]


def get_fallback_ops() -> list[str]:
    """Unique full names of the ops that ran on the CPU since the last clear."""
    return [name for name, _calls, fallbacks in _attach.shim().op_calls() if fallbacks]


def clear_op_tracking() -> None:
    """Forget what ran."""
    _attach.shim().clear_op_calls()


def is_neuron_runtime_initialized() -> bool:
    """Whether the device has been started in this process."""
    return _attach.is_started() and not _attach.is_forked()


def _compiled() -> list[tuple[str, str, int]]:
    """(op, NEFF key, launches after the first) of every NEFF in memory."""
    return [(op, neff, hits) for op, kind, neff, hits, _reason in _attach.shim().plans() if kind == "compiled"]


def _get_compilation_cache_stats() -> dict[str, float]:
    """Counts of this process.

    As on TorchNeuron, `cache_misses` adds the miss in memory and the miss on disk, so a cold op counts 2. Here the counts do
    not need metrics enabled, and `total_compilation_time_ms` is in milliseconds as its name says.
    """
    entries = _compiled()
    counted = events.counters
    in_memory_hits = sum(hits for _, _, hits in entries) + int(_attach.shim().launches_of_cleared_plans())
    in_memory_misses = counted.compiled + counted.from_disk
    hits, misses = in_memory_hits + counted.from_disk, in_memory_misses + counted.compiled
    return {
        "total_entries": len(entries),
        "in_memory_hits": in_memory_hits,
        "in_memory_misses": in_memory_misses,
        "persistent_hits": counted.from_disk,
        "persistent_misses": counted.compiled,
        "cache_hits": hits,
        "cache_misses": misses,
        "hit_rate": hits / (hits + misses) if hits + misses else 0.0,
        "memory_usage_bytes": counted.executable_bytes,
        "total_compilation_time_ms": counted.compile_ns / 1e6,
        "evictions_performed": 0,
        "total_compilations": counted.compiled,
        "max_cache_size_bytes": 0,
        "max_cache_entries": 0,
        "memory_utilization_ratio": 0.0,
    }


def _get_compilation_cache_entries() -> list[dict[str, Any]]:
    """One entry for each NEFF in memory; compilation_time_ms is 0 for one that came from disk."""
    made = {event.neff: event for event in events.history()}
    sizes = {file.key: file.size for file in dispatch.store().entries()}
    out = []
    for op, neff, hits in _compiled():
        event = made.get(neff)
        spent = event.trace_ns + event.lower_ns + event.compile_ns if event and event.source == "compiled" else 0
        out.append(
            {
                "cache_key": event.signature if event else neff,
                "op": op,
                "neff": neff,
                "neff_size_bytes": sizes.get(neff, 0),
                "access_count": hits + 1,
                "compilation_time_ms": spent / 1e6,
            }
        )
    return out


def _get_all_cache_keys() -> list[str]:
    return [entry["cache_key"] for entry in _get_compilation_cache_entries()]


def _clear_compilation_memory_cache() -> None:
    """Forget every executable; the next call of each op reads its NEFF from disk."""
    _attach.shim().clear_plans()
    events.counters.executable_bytes = 0


def _clear_compilation_cache() -> None:
    """Forget every executable and delete the NEFF files of the cache directory."""
    _clear_compilation_memory_cache()
    dispatch.store().clear()


def get_neff_info(cache_key: str) -> tuple[str, bytes]:
    """(key of the file, the emulated NEFF's bytes) of an entry of `_get_compilation_cache_entries`.

    Raises KeyError for a key that is not in memory, RuntimeError when the file is gone or was never written.
    """
    for entry in _get_compilation_cache_entries():
        if cache_key in (entry["cache_key"], entry["neff"]):
            return entry["neff"], get_neff_cache(entry["neff"])
    raise KeyError(f"no emulated NEFF in memory has the cache key {cache_key!r}: _get_all_cache_keys() lists them")


def get_neff_cache(persistent_key: str) -> bytes:
    """The bytes of the emulated NEFF with this key in the cache directory. Raises RuntimeError when it is not there."""
    root = dispatch.store().root
    try:
        if root is not None:
            return neff_files.path_of(root, persistent_key).read_bytes()
    except (OSError, ValueError) as error:
        raise RuntimeError(
            f"the emulated NEFF {persistent_key!r} is not in the cache directory {root}: {error}"
        ) from error
    raise RuntimeError("the NEFF cache is switched off by the environment: nothing is on disk")
