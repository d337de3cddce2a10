"""`torch.neuron.memory`: statistics in both shapes that TorchNeuron releases have used."""

from __future__ import annotations

from typing import Any

from neuron_lab.emulator import _attach
from neuron_lab.emulator.api.history import _dump_snapshot, _record_memory_history, _snapshot

__all__ = [
    "_dump_snapshot",
    "_record_memory_history",
    "_snapshot",
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
]

_BYTES = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
_COUNTS = ("allocation", "segment", "active")


def _core(device: Any) -> int:
    from neuron_lab.emulator.api import neuron

    core = neuron._index(device)
    neuron._check(core)
    return core


def _memory(device: Any) -> dict[str, int]:
    core = _core(device)
    told: dict[str, int] = _attach.shim().memory(core)
    return told


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Bytes and counts of a core's HBM.

    Holds the nested shape of the April 2026 snapshot (`["allocated_bytes"]["current"]`) and the flat, CUDA-like shape of
    2.12 and later (`["allocated_bytes.all.current"]`) side by side. The emulator caches no freed blocks, so reserved equals
    allocated.
    """
    told = _memory(device)
    sizes = {"current": told["current"], "peak": told["peak"], "allocated": told["allocated"], "freed": told["freed"]}
    counts = {
        "current": told["live_blocks"],
        "peak": told["peak_blocks"],
        "allocated": told["alloc_count"],
        "freed": told["free_count"],
    }
    stats: dict[str, Any] = {name: dict(sizes) for name in _BYTES}
    for names, values in ((_BYTES, sizes), (_COUNTS, counts)):
        for name in names:
            stats.update({f"{name}.all.{key}": value for key, value in values.items()})
    stats["num_alloc_retries"] = 0
    stats["num_ooms"] = told["ooms"]
    stats["num_tensor_frees"] = told["free_count"]
    stats["allocation_requests"] = told["alloc_count"]
    return stats


def memory_allocated(device: Any = None) -> int:
    """Bytes of HBM that tensors hold on a core now."""
    return _memory(device)["current"]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes held at once since the start or the last reset."""
    return _memory(device)["peak"]


def memory_reserved(device: Any = None) -> int:
    """Equals `memory_allocated`: the emulator caches no freed blocks."""
    return memory_allocated(device)


def max_memory_reserved(device: Any = None) -> int:
    """Equals `max_memory_allocated`."""
    return max_memory_allocated(device)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peak begin anew at what is held now."""
    _attach.shim().reset_peak(_core(device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Set the totals of allocated and freed bytes and the number of OOMs to zero."""
    _attach.shim().reset_accumulated(_core(device))


def empty_cache() -> None:
    """Give the host back what the process keeps of freed memory. No HBM is cached: what is freed is free at once."""
    _attach.shim().give_back_freed_pages()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a core."""
    limit = int(_attach.shim().hbm_limit())
    return limit - memory_allocated(device), limit


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The statistics as a text table."""
    core, told = _core(device), memory_stats(device)
    rule = "=" * 75
    lines = [
        rule,
        f"  Neuron Memory Summary, Device {core} (emulated)",
        rule,
        f"  Allocations: {told['allocation_requests']:<20} Frees: {told['num_tensor_frees']}",
        f"  OOMs: {told['num_ooms']:<27} Alloc Retries: {told['num_alloc_retries']}",
        rule,
        f"{'Metric':<20}|{'Current':>13}|{'Peak':>13}|{'Allocated':>13}|{'Freed':>12}",
        "-" * 75,
    ]
    names = _BYTES[:1] if abbreviated else _BYTES[:3]
    for name in names:
        figures = told[name]
        cells = "|".join(f"{_size(figures[key]):>{width}}" for key, width in _COLUMNS)
        lines.append(f"{name:<20}|{cells}")
    return "\n".join([*lines, rule])


_COLUMNS = (("current", 13), ("peak", 13), ("allocated", 13), ("freed", 12))


def _size(nbytes: int) -> str:
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.2f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")
