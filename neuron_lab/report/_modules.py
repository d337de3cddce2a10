"""Rows by module: what ran in each `nn.Module` itself, phase by phase."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from neuron_lab.recording import Compile, CopyTotal, OpTotal, Recording
from neuron_lab.report._tables import CompileTime


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """Everything that ran in one module and phase, without the modules inside it.

    `module` is its path, "Net.layers.0", None for what ran in no module: the backward, optimizers, functions. `phase` is "forward",
    "backward", "optimizer" or "". `ops` are the op calls' full names. A NEFF's compile counts where its first call waited for it.
    """

    module: str | None
    phase: str
    ops: tuple[str, ...]
    calls: int
    cold_calls: int
    neffs: int
    compile: CompileTime
    device_ns: int
    fallback_calls: int
    fallback_ns: int
    copies: int
    copy_bytes: int
    bytes: int
    total_ns: int


_Scope: TypeAlias = tuple[str | None, str]


@dataclass(slots=True)
class _Group:
    totals: list[OpTotal] = field(default_factory=list)
    copies: list[CopyTotal] = field(default_factory=list)
    compiles: list[Compile] = field(default_factory=list)


def module_rows(recording: Recording) -> tuple[ModuleRow, ...]:
    """One row a module and phase, the one that took longest first."""
    groups: dict[_Scope, _Group] = {}
    for total in recording.op_totals:
        groups.setdefault((total.module, total.phase), _Group()).totals.append(total)
    for copied in recording.copy_totals:
        groups.setdefault((copied.module, copied.phase), _Group()).copies.append(copied)
    waited = _compile_scopes(recording)
    for item in recording.compiles:
        if item.neff in waited:
            groups[waited[item.neff]].compiles.append(item)
    rows = [_row(scope, group) for scope, group in groups.items()]
    return tuple(sorted(rows, key=lambda row: (-row.total_ns, row.module or "", row.phase)))


def _compile_scopes(recording: Recording) -> dict[str, _Scope]:
    """Where the cold call of each NEFF was; of several the one that took longest."""
    cold = [total for total in recording.op_totals if total.cold_calls and total.neff]
    return {str(total.neff): (total.module, total.phase) for total in sorted(cold, key=lambda total: total.total_ns)}


def _row(scope: _Scope, group: _Group) -> ModuleRow:
    compiled = [total for total in group.totals if total.kind == "compiled"]
    fallbacks = [total for total in group.totals if total.kind == "fallback"]
    return ModuleRow(
        module=scope[0],
        phase=scope[1],
        ops=tuple(dict.fromkeys(total.op for total in group.totals)),
        calls=sum(total.calls for total in group.totals),
        cold_calls=sum(total.cold_calls for total in compiled),
        neffs=len({total.neff for total in group.totals} - {None}),
        compile=CompileTime.of(group.compiles),
        device_ns=sum(total.device_ns for total in compiled),
        fallback_calls=sum(total.calls for total in fallbacks),
        fallback_ns=sum(total.total_ns for total in fallbacks),
        copies=sum(copied.calls for copied in group.copies),
        copy_bytes=sum(copied.bytes for copied in group.copies),
        bytes=sum(total.bytes for total in group.totals),
        total_ns=sum(total.total_ns for total in group.totals)
        + sum(copied.total_ns for copied in group.copies)
        + sum(item.ahead_ns for item in group.compiles),
    )


def phase_times(recording: Recording) -> dict[str, int]:
    """Nanoseconds of op calls and of making their NEFFs by phase, in the order of a training step; without the phases in which
    nothing ran."""
    times = dict.fromkeys(("forward", "backward", "optimizer"), 0)
    for total in recording.op_totals:
        if total.phase in times:
            times[total.phase] += total.total_ns
    waited = _compile_scopes(recording)
    for item in recording.compiles:
        _, phase = waited.get(item.neff, (None, ""))
        if phase in times:
            times[phase] += item.ahead_ns
    return {phase: ns for phase, ns in times.items() if ns}
