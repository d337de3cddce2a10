"""Memory history of the device in PyTorch's own format: what pytorch.org/memory_viz and `torch.cuda._memory_viz` read."""

from __future__ import annotations

import os
import pickle
from typing import Any

from neuron_lab.emulator import _attach

__all__ = ["_dump_snapshot", "_record_memory_history", "_snapshot"]

_LARGE = 1 << 20  # PyTorch's word for segments above 1 MB
_PROTOCOL = 4  # the newest that the viewer's unpickler knows
_STREAM = 0
_POOL = (0, 0)


def _record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = 100_000,
    device: Any = None,
    clear_history: bool = False,
) -> None:
    """Begin to remember where HBM is taken and given back; `enabled=None` ends it. The arguments are torch.cuda's.

    `enabled` "all" keeps a trace of the last `max_entries` events beside the frames of living blocks, "state" only those
    frames. `context` None keeps no frames, "state" only those of living blocks. Frames are Python's, whatever `stacks` says,
    and all cores are recorded, whatever `device` says. An entry takes about 1 kB. Raises ValueError for another word.
    """
    if enabled not in (None, "state", "all"):
        raise ValueError(f"enabled must be None, 'state' or 'all', not {enabled!r}")
    if context not in (None, "state", "alloc", "all"):
        raise ValueError(f"context must be None, 'state', 'alloc' or 'all', not {context!r}")
    if stacks not in ("python", "all"):
        raise ValueError(f"stacks must be 'python' or 'all', not {stacks!r}")
    if max_entries < 1:
        raise ValueError(f"max_entries must be at least 1, not {max_entries}")
    traces = enabled == "all"
    _attach.shim().record_history(
        max_entries if traces else 0,
        enabled is not None and context is not None,
        traces and context in ("alloc", "all"),
        clear_history,
    )


def _snapshot(device: Any = None) -> dict[str, Any]:
    """Living blocks and, while history is recorded, the trace, as `torch.cuda.memory._snapshot` gives them.

    The emulator's HBM knows no pools: each block is a segment of its own, taken and given back with it.
    """
    blocks, entries, frames = _attach.shim().history_snapshot()
    traces: list[list[dict[str, Any]]] = [[] for _ in range(int(_attach.shim().core_count()))]
    for action, core, address, nbytes, time_us, index in entries:
        traces[core] += _events(action, address, nbytes, time_us, _frames(frames, index))
    return {
        "segments": [
            _segment(core, address, nbytes, _frames(frames, index)) for core, address, nbytes, index in blocks
        ],
        "device_traces": traces,
        "allocator_settings": {},
        "external_annotations": [],
    }


def _dump_snapshot(filename: str | os.PathLike[str] = "dump_snapshot.pickle") -> None:
    """Write `_snapshot()` to a file for pytorch.org/memory_viz."""
    told = _snapshot()
    with open(filename, "wb") as file:
        pickle.dump(told, file, protocol=_PROTOCOL)


def _frames(frames: list[list[dict[str, Any]]], index: int) -> list[dict[str, Any]]:
    return frames[index] if index >= 0 else []


def _events(action: str, address: int, nbytes: int, time_us: int, frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    common = {"size": nbytes, "stream": _STREAM, "time_us": time_us, "pool_id": _POOL}
    if action == "oom":
        return [{"action": "oom", "device_free": address, "frames": frames, **common}]
    names = ("segment_alloc", "alloc") if action == "alloc" else ("free_requested", "free_completed", "segment_free")
    return [{"action": name, "addr": address, "frames": frames, **common} for name in names]


def _segment(core: int, address: int, nbytes: int, frames: list[dict[str, Any]]) -> dict[str, Any]:
    block = {
        "address": address,
        "size": nbytes,
        "requested_size": nbytes,
        "state": "active_allocated",
        "frames": frames,
    }
    return {
        "device": core,
        "address": address,
        "total_size": nbytes,
        "allocated_size": nbytes,
        "active_size": nbytes,
        "requested_size": nbytes,
        "stream": _STREAM,
        "segment_type": "large" if nbytes > _LARGE else "small",
        "segment_pool_id": _POOL,
        "is_expandable": False,
        "frames": frames,
        "blocks": [block],
    }
