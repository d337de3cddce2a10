"""Rows of the op table and of the NEFF table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from neuron_lab.recording import Compile, OpCall, OpTotal, Recording

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class CompileTime:
    """Nanoseconds by stage; `load_ns` is the read of a NEFF from disk, the others making one.

    `whole_ns` is making those whose stages the device does not tell.
    """

    trace_ns: int = 0
    lower_ns: int = 0
    xla_ns: int = 0
    load_ns: int = 0
    whole_ns: int = 0

    @property
    def made_ns(self) -> int:
        """Making NEFFs."""
        return self.trace_ns + self.lower_ns + self.xla_ns + self.whole_ns

    @property
    def total_ns(self) -> int:
        """Making and loading NEFFs."""
        return self.made_ns + self.load_ns

    @staticmethod
    def of(items: Iterable[Compile]) -> CompileTime:
        """Add up; what a disk hit spent is a load, whatever stage it spent it in."""
        trace = lower = xla = load = whole = 0
        for item in items:
            if item.source == "disk":
                load += item.total_ns
            elif item.has_stages:
                trace, lower, xla = trace + item.trace_ns, lower + item.lower_ns, xla + item.compile_ns
            else:
                whole += item.total_ns
        return CompileTime(trace, lower, xla, load, whole)


@dataclass(frozen=True, slots=True)
class OpRow:
    """Everything one op did. `device_median_ns` is over warm calls only, None without one; `reasons` says why it fell back.

    `wide_calls` had 64-bit values, which TorchNeuron computes in 32 bits; in `beyond_calls` of them one does not fit there.
    """

    op: str
    calls: int
    cold_calls: int
    neffs: int
    compile: CompileTime
    memory_hits: int
    disk_hits: int
    device_ns: int
    device_median_ns: float | None
    fallback_calls: int
    fallback_ns: int
    host_calls: int
    bytes: int
    total_ns: int
    reasons: tuple[str, ...]
    wide_calls: int = 0
    beyond_calls: int = 0


@dataclass(frozen=True, slots=True)
class NeffRow:
    """Everything one compiled unit did. `source` is "compiled", "disk", or "memory" when it was there before the span."""

    neff: str
    op: str
    signature: str
    source: str
    compile: CompileTime
    calls: int
    cold_calls: int
    device_ns: int
    device_median_ns: float | None
    bytes: int
    cores: tuple[int, ...]
    total_ns: int


@dataclass(slots=True)
class _Sums:
    calls: int = 0
    cold_calls: int = 0
    device_ns: int = 0
    fallback_calls: int = 0
    fallback_ns: int = 0
    host_calls: int = 0
    bytes: int = 0
    total_ns: int = 0
    neffs: set[str] = field(default_factory=set)
    cores: set[int] = field(default_factory=set)

    def add(self, total: OpTotal) -> None:
        self.calls += total.calls
        self.bytes += total.bytes
        self.total_ns += total.total_ns
        self.cores.add(total.core)
        if total.neff is not None:
            self.neffs.add(total.neff)
        if total.kind == "compiled":
            self.cold_calls += total.cold_calls
            self.device_ns += total.device_ns
        elif total.kind == "fallback":
            self.fallback_calls += total.calls
            self.fallback_ns += total.total_ns
        else:
            self.host_calls += total.calls

    @property
    def warm_calls(self) -> int:
        return self.calls - self.fallback_calls - self.host_calls - self.cold_calls


def op_rows(recording: Recording) -> tuple[OpRow, ...]:
    """One row an op, the one that took longest first."""
    sums: defaultdict[str, _Sums] = defaultdict(_Sums)
    for total in recording.op_totals:
        sums[total.op].add(total)
    compiles = _grouped(recording.compiles, lambda item: item.op)
    medians = _warm_medians(recording.ops, lambda call: call.op)
    reasons = _grouped(recording.fallbacks, lambda item: item.op)
    wide = _grouped(recording.wide, lambda item: item.op)
    rows = [
        OpRow(
            op=op,
            calls=total.calls,
            cold_calls=total.cold_calls,
            neffs=len(total.neffs),
            compile=CompileTime.of(compiles.get(op, [])),
            memory_hits=total.warm_calls,
            disk_hits=sum(item.source == "disk" for item in compiles.get(op, [])),
            device_ns=total.device_ns,
            device_median_ns=medians.get(op),
            fallback_calls=total.fallback_calls,
            fallback_ns=total.fallback_ns,
            host_calls=total.host_calls,
            bytes=total.bytes,
            total_ns=total.total_ns + sum(item.ahead_ns for item in compiles.get(op, [])),
            reasons=tuple(item.reason for item in reasons.get(op, [])),
            wide_calls=sum(item.calls for item in wide.get(op, [])),
            beyond_calls=sum(item.beyond for item in wide.get(op, [])),
        )
        for op, total in sums.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.total_ns, row.op)))


def neff_rows(recording: Recording) -> tuple[NeffRow, ...]:
    """One row a NEFF that was compiled, loaded or called; the one that cost most first."""
    sums: dict[str, _Sums] = {}
    names: dict[str, str] = {item.neff: item.op for item in recording.compiles}
    known = {item.neff: item.signature for item in (*recording.earlier, *recording.compiles)}
    for item in recording.op_totals:
        if item.neff is not None:
            sums.setdefault(item.neff, _Sums()).add(item)
            names.setdefault(item.neff, item.op)
    compiles = _grouped(recording.compiles, lambda item: item.neff)
    medians = _warm_medians(recording.ops, lambda call: call.neff)
    rows = []
    for neff, op in names.items():
        made, total = compiles.get(neff, []), sums.get(neff, _Sums())
        rows.append(
            NeffRow(
                neff=neff,
                op=op,
                signature=known.get(neff, ""),
                source=made[0].source if made else "memory",
                compile=CompileTime.of(made),
                calls=total.calls,
                cold_calls=total.cold_calls,
                device_ns=total.device_ns,
                device_median_ns=medians.get(neff),
                bytes=total.bytes,
                cores=tuple(sorted(total.cores)),
                total_ns=total.total_ns + sum(item.ahead_ns for item in made),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-(row.compile.total_ns + row.device_ns), row.op, row.neff)))


def _grouped(items: Iterable[_Item], key: Callable[[_Item], str]) -> dict[str, list[_Item]]:
    groups: dict[str, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _warm_medians(calls: Iterable[OpCall], key: Callable[[OpCall], str | None]) -> dict[str, float]:
    """Median device time of warm compiled calls: a cold call's first run pages memory in and is not comparable."""
    times: dict[str, list[int]] = {}
    for call in calls:
        name = key(call)
        if call.kind == "compiled" and not call.cold and name is not None:
            times.setdefault(name, []).append(call.device_ns)
    return {name: float(median(values)) for name, values in times.items()}
