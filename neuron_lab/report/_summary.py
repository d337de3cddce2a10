"""The report in one record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from neuron_lab.recording import Recording
from neuron_lab.report._split import Split


@dataclass(frozen=True)
class Summary(Mapping[str, Any]):
    """Totals of a profile; read a field as an attribute or as a key. Times are seconds, sizes bytes.

    `compile_s` (making NEFFs), `load_s` (reading them from disk), `startup_s` (starting the compiler itself) … `rest_s` are the
    split and add up to `wall_s`. `neffs` counts the units that were used, `neffs_compiled` and `neffs_loaded` those made and those
    read on the way. `cold_calls` compiled or loaded something, `warm_calls` ran what
    was there, for `warm_device_s` on the device (None when events were dropped). `split_estimated`: more events happened than
    are kept, and the split was scaled from exact totals.
    """

    label: str
    wall_s: float
    compile_s: float
    load_s: float
    startup_s: float
    device_s: float
    fallback_s: float
    copies_s: float
    rest_s: float
    op_calls: int
    cold_calls: int
    warm_calls: int
    warm_device_s: float | None
    fallback_calls: int
    neffs: int
    neffs_compiled: int
    neffs_loaded: int
    copies: int
    copy_bytes: int
    op_bytes: int
    syncs: int
    cores: tuple[int, ...]
    device: str
    emulated: bool
    partial: bool
    error: str | None
    events_dropped: int
    split_estimated: bool
    overhead_s: float

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return (item.name for item in fields(self))

    def __len__(self) -> int:
        return len(fields(self))

    def __contains__(self, name: object) -> bool:
        return any(item.name == name for item in fields(self))

    def as_dict(self) -> dict[str, Any]:
        """A plain dict, for JSON."""
        return asdict(self)


def summary(recording: Recording, split: Split) -> Summary:
    """Add everything up."""
    totals = recording.op_totals
    compiled = [total for total in totals if total.kind == "compiled"]
    used = {total.neff for total in totals if total.neff is not None} | {item.neff for item in recording.compiles}
    cold = sum(total.cold_calls for total in compiled)
    return Summary(
        label=recording.label,
        wall_s=recording.wall_ns / 1e9,
        compile_s=split.compile_ns / 1e9,
        load_s=split.load_ns / 1e9,
        startup_s=split.startup_ns / 1e9,
        device_s=split.device_ns / 1e9,
        fallback_s=split.fallback_ns / 1e9,
        copies_s=split.copies_ns / 1e9,
        rest_s=split.rest_ns / 1e9,
        op_calls=sum(total.calls for total in totals),
        cold_calls=cold,
        warm_calls=sum(total.calls for total in compiled) - cold,
        warm_device_s=_warm_device_s(recording),
        fallback_calls=sum(total.calls for total in totals if total.kind == "fallback"),
        neffs=len(used),
        neffs_compiled=sum(item.source != "disk" for item in recording.compiles),
        neffs_loaded=sum(item.source == "disk" for item in recording.compiles),
        copies=sum(total.calls for total in recording.copy_totals),
        copy_bytes=sum(total.bytes for total in recording.copy_totals),
        op_bytes=sum(total.bytes for total in totals),
        syncs=recording.syncs,
        cores=tuple(sorted({total.core for total in totals})),
        device=recording.environment.device,
        emulated=recording.environment.emulated,
        partial=recording.partial,
        error=recording.error,
        events_dropped=recording.dropped,
        split_estimated=split.estimated,
        overhead_s=recording.overhead_ns / 1e9,
    )


def _warm_device_s(recording: Recording) -> float | None:
    # The totals do not tell a cold call's device time from a warm one's; the events do, as long as all are there.
    if recording.dropped:
        return None
    return sum(call.device_ns for call in recording.ops if call.kind == "compiled" and not call.cold) / 1e9
