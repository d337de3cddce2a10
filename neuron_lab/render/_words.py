"""The sentences of a report, the same in text and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from neuron_lab.recording import Recording
from neuron_lab.render._format import count, duration, plural, shorten, size
from neuron_lab.report import ModuleRow, NeffRow, OpRow, Report, phase_times

_VERSION = 48
_INTERRUPTS = ("KeyboardInterrupt", "CancelledError")  # the second out of an `await`
PART_LABELS = {
    "compile": "compile",
    "load": "load from disk",
    "startup": "start the compiler",
    "device": "device",
    "fallback": "CPU fallback",
    "copies": "copies",
    "rest": "Python and the rest",
}


def headline(report: Report) -> list[str]:
    """Device, cores, op calls, NEFFs."""
    found = report.summary
    parts = [found.device]
    if found.cores:
        parts.append(_cores(found.cores))
    parts.append(plural(found.op_calls, "op call"))
    if found.neffs:
        parts.append(f"{plural(found.neffs, 'NEFF')}, {_origin(report)}")
    return parts


def temperature(report: Report) -> tuple[str, str]:
    """What was cold and what was warm, one phrase each; empty when there was none."""
    found, compiles = report.summary, report.recording.compiles
    cold = []
    for source, verb in (("compiled", "compiled"), ("disk", "from disk")):
        items = [item for item in compiles if (item.source == "disk") == (source == "disk")]
        if items:
            cold.append(f"{count(len(items))} {verb} in {duration(sum(item.total_ns for item in items))}")
    warm = plural(found.warm_calls, "call") if found.warm_calls else ""
    if warm and found.warm_device_s is not None:
        warm += f", device {duration(found.warm_device_s * 1e9)}"
    return " · ".join(cold), warm


def partial(report: Report) -> str:
    """Why the report stops early and where, "" when it does not."""
    error, where = report.recording.error, report.recording.stopped_at
    if not error:
        return ""
    text = f"PARTIAL: stopped by {error}" + (f" at {report.place(where)}" if where else "")
    idle_ns = report.recording.idle_ns
    # Whoever interrupts wonders what took so long: the device, or something else.
    return f"{text}, device idle {duration(idle_ns)}" if error in _INTERRUPTS and idle_ns else text


def loaded(report: Report) -> str:
    """Where and when a loaded recording comes from, "" for one of this process: its numbers are of another day or machine."""
    if not report.file:
        return ""
    environment = report.recording.environment
    return f"LOADED from {report.file}, recorded {recorded_at(report.recording)} on {environment.device}"


def recorded_at(recording: Recording) -> str:
    """ "2026-11-30 05:43 UTC"."""
    if not recording.unix_ns:
        return "at a time that is not known"
    try:
        return datetime.fromtimestamp(recording.unix_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "at a time that is not known"


def left_out(rows: Sequence[OpRow | NeffRow | ModuleRow]) -> str:
    """The rows that are not shown."""
    if not rows:
        return ""
    return f"… {count(len(rows))} more ({duration(sum(row.total_ns for row in rows))})"


def fallback_reasons(report: Report) -> list[tuple[OpRow, str]]:
    """Ops that ran on the CPU and why, the dearest first; without those that a finding names."""
    told = {op for finding in report.findings for op in finding.ops}
    rows = sorted(
        (row for row in report.op_rows if row.fallback_calls and row.op not in told), key=lambda row: -row.fallback_ns
    )
    return [(row, "; ".join(reason_of(row, text) for text in row.reasons) or "reason not known") for row in rows]


def reason_of(row: OpRow, reason: str) -> str:
    """The reason without the op's name, which stands beside it."""
    for name in (f"{row.op}.default", row.op):
        reason = reason.removeprefix(f"{name}: ").removesuffix(f" for {name}")
    return reason


def copied(report: Report) -> str:
    """How much went over the bus, "" when nothing did."""
    found = report.summary
    if not found.copies:
        return ""
    noun = "copy" if found.copies == 1 else "copies"
    text = f"{count(found.copies)} {noun}, {size(found.copy_bytes)}"
    return f"{text}, {plural(found.syncs, 'sync')}" if found.syncs else text


def phases(report: Report) -> str:
    """The time of the op calls by phase, "" when there is but one."""
    times = phase_times(report.recording)
    return " · ".join(f"{phase} {duration(ns)}" for phase, ns in times.items()) if len(times) > 1 else ""


def footer(report: Report) -> list[str]:
    """Versions, what served the device, what measuring cost."""
    environment, found = report.recording.environment, report.summary
    versions = dict(environment.versions)
    parts = [
        shorten(f"{name} {versions[name]}", _VERSION)
        for name in ("torch", "torch_neuronx", "neuron_lab")
        if name in versions
    ]
    parts.append("emulated, not Trainium" if environment.emulated else environment.device)
    if found.startup_s:
        parts.append("the compiler starts once per process")
    if report.recording.synchronised:
        parts.append("ops were waited for one by one: device time includes their dispatch")
    parts.append(f"measuring cost {duration(report.recording.overhead_ns)}")
    if report.findings:
        parts.append(f"%neuron explain {report.findings[0].code}")
    if found.events_dropped:
        parts.append(f"{plural(found.events_dropped, 'event')} not kept, the split is estimated from exact totals")
    return parts


def _origin(report: Report) -> str:
    found = report.summary
    origin = []
    if found.neffs_compiled:
        origin.append(f"{count(found.neffs_compiled)} compiled")
    if found.neffs_loaded:
        origin.append(f"{count(found.neffs_loaded)} from disk")
    return ", ".join(origin) or "all warm"


def _cores(cores: tuple[int, ...]) -> str:
    if len(cores) == 1:
        return f"neuron:{cores[0]}"
    if cores[-1] - cores[0] == len(cores) - 1:
        return f"neuron:{cores[0]}–{cores[-1]}"
    return "neuron:" + ",".join(map(str, cores))
