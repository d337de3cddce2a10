"""A report as a Chrome trace, which Perfetto, chrome://tracing and Holistic Trace Analysis read.

Lanes: the cell, each Python thread, compiling, CPU fallbacks, copies, and each core. Two events that overlap in part would be
drawn one inside the other, so they get lanes of their own. Times are microseconds from the first event.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from neuron_lab.recording import OpCall, uncollected
from neuron_lab.render import _words
from neuron_lab.report import Report

_PROGRAM = 0
_CELL, _COMPILE, _FALLBACK, _COPIES, _THREADS = 0, 1000, 2000, 3000, 1
_KEY = 16  # enough of a NEFF's key to find it
_DIRECTIONS = {"h2d": "Memcpy HtoD", "d2h": "Memcpy DtoH", "d2d": "Memcpy DtoD"}


@dataclass(frozen=True, slots=True)
class _Span:
    name: str
    category: str
    start_ns: int
    end_ns: int
    args: dict[str, Any] = field(default_factory=dict)


def chrome_trace(report: Report) -> bytes:
    """The trace as JSON, of every event the recording kept; `otherData` says how many it did not."""
    with uncollected():
        return json.dumps(_trace(report), separators=(",", ":")).encode("ascii")


def _trace(report: Report) -> dict[str, Any]:
    recording = report.recording
    lanes = [lane for lane in _lanes(report) if lane[3]]
    base = min((span.start_ns for *_, spans in lanes for span in spans), default=recording.start_ns)
    events: list[dict[str, Any]] = [*_processes(lanes)]
    for pid, tid, name, spans in lanes:
        events.append(_named("thread_name", pid, tid, {"name": name}))
        events.append(_named("thread_sort_index", pid, tid, {"sort_index": tid}))
        events += (_complete(span, pid, tid, base) for span in spans)
    events += _memory(report, base)
    return {
        "schemaVersion": 1,
        "deviceProperties": [],
        "distributedInfo": {"backend": "neuron", "rank": 0, "world_size": 1},
        "displayTimeUnit": "ms",
        "traceName": recording.label or "profile",
        "otherData": {
            "device": recording.environment.device,
            "emulated": recording.environment.emulated,
            "recorded": _words.recorded_at(recording),
            "events not kept": recording.dropped,
            **recording.environment.versions,
        },
        "traceEvents": events,
    }


def _lanes(report: Report) -> Iterator[tuple[int, int, str, Sequence[_Span]]]:
    """(process, thread, name, events without partial overlap)."""
    recording = report.recording
    cell = _Span(recording.label or "profile", "user_annotation", recording.start_ns, recording.end_ns)
    yield _PROGRAM, _CELL, "profiled", [cell]
    threads: dict[int, list[_Span]] = {}
    fallbacks: list[_Span] = []
    cores: dict[int, list[_Span]] = {}
    for number, call in enumerate(recording.ops):
        threads.setdefault(call.thread, []).append(
            _Span(call.op, "cpu_op", call.start_ns, call.end_ns, _args(report, number, call))
        )
        if call.kind == "fallback":
            fallbacks.append(_Span(call.op, "cpu_fallback", call.start_ns, call.end_ns, {"call": number}))
        elif call.kind == "compiled":
            begun = max(call.start_ns, call.end_ns - call.device_ns)
            link = {"correlation": number, "stream": call.core}
            cores.setdefault(call.core, []).append(_Span(call.op, "kernel", begun, call.end_ns, link))
    for index, spans in enumerate(threads.values()):
        yield _PROGRAM, _THREADS + index, f"Python thread {index + 1}", spans
    yield from _apart(_PROGRAM, _COMPILE, "compile", _compiling(report))
    yield from _apart(_PROGRAM, _FALLBACK, "CPU fallback", fallbacks)
    copies = [
        _Span(
            _DIRECTIONS.get(item.direction, item.direction),
            "gpu_memcpy",
            item.start_ns,
            item.end_ns,
            {"bytes": item.bytes, "core": item.core, "stream": item.core, "line": report.place(item.where)},
        )
        for item in recording.copies
    ]
    yield from _apart(_PROGRAM, _COPIES, "copies", copies)
    for core, spans in sorted(cores.items()):
        yield from _apart(1 + core, 0, "device", spans)


def _args(report: Report, number: int, call: OpCall) -> dict[str, Any]:
    """What stands beside a call; the event on the core has the same correlation."""
    args: dict[str, Any] = {"External id": number, "correlation": number, "kind": call.kind}
    if call.neff:
        args["neff"] = call.neff[:_KEY]
    if call.cold:
        args["cold"] = True
    if call.bytes:
        args["bytes"] = call.bytes
    if call.where:
        args["line"] = report.place(call.where)
    return args


def _compiling(report: Report) -> Iterator[_Span]:
    for start, end in report.recording.startups:
        yield _Span("start the compiler", "compile", start, end)
    for item in report.recording.compiles:
        args: dict[str, Any] = {
            "neff": item.neff[:_KEY],
            "signature": item.signature,
            "line": report.place_of_compile(item.neff),
        }
        if item.has_stages:
            args["trace ms"], args["lower ms"] = item.trace_ns / 1e6, item.lower_ns / 1e6
            args["XLA ms"] = item.compile_ns / 1e6
        verb = "load" if item.source == "disk" else "compile"
        yield _Span(f"{verb} {item.op}", verb, item.start_ns, item.start_ns + item.total_ns, args)


def _apart(pid: int, tid: int, name: str, spans: Iterable[_Span]) -> Iterator[tuple[int, int, str, Sequence[_Span]]]:
    """As few lanes as hold `spans` without an overlap."""
    lanes: list[list[_Span]] = []
    free: list[tuple[int, int]] = []  # when a lane gets free, and which
    for span in sorted(spans, key=lambda span: span.start_ns):
        if free and free[0][0] <= span.start_ns:
            _, lane = heapq.heappop(free)
        else:
            lane = len(lanes)
            lanes.append([])
        lanes[lane].append(span)
        heapq.heappush(free, (max(span.start_ns, span.end_ns), lane))
    for index, lane_spans in enumerate(lanes):
        yield pid, tid + index, name if index == 0 else f"{name} {index + 1}", lane_spans


def _processes(lanes: Sequence[tuple[int, int, str, Sequence[_Span]]]) -> Iterator[dict[str, Any]]:
    for pid in sorted({pid for pid, *_ in lanes}):
        name = "program" if pid == _PROGRAM else f"neuron:{pid - 1}"
        yield _named("process_name", pid, 0, {"name": name})
        yield _named("process_sort_index", pid, 0, {"sort_index": pid})


def _named(name: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": args}


def _complete(span: _Span, pid: int, tid: int, base: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.category,
        "pid": pid,
        "tid": tid,
        "ts": (span.start_ns - base) / 1000,
        "dur": max(0, span.end_ns - span.start_ns) / 1000,
        "args": span.args,
    }


def _memory(report: Report, base: int) -> Iterator[dict[str, Any]]:
    """HBM of each core that was used: after every change, and at the end of the span."""
    recording = report.recording
    for change in recording.memory_log.changes:
        yield _counted(change.core, change.at_ns - base, {"in use": change.used})
    for core in recording.memory:
        if core.peak:
            yield _counted(core.core, recording.end_ns - base, {"in use": core.used})


def _counted(core: int, at_ns: int, values: dict[str, int]) -> dict[str, Any]:
    return {"ph": "C", "name": "HBM", "pid": 1 + core, "tid": 0, "ts": max(0, at_ns) / 1000, "args": values}
