"""A report for speedscope: the user's lines, below each the ops it called, below these what their time went into.

One sampled profile from exact totals, so that it is complete however many events there were. Calls of several threads, and copies
inside a fallback, add up to more than the wall.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from neuron_lab._version import __version__
from neuron_lab.recording import OpTotal, Where
from neuron_lab.report import Report

_NO_LINE = "(no line of yours)"
_Stack = tuple[str | Where, ...]


def speedscope(report: Report) -> bytes:
    """The file, as https://www.speedscope.app/file-format-schema.json describes it."""
    weights: Counter[_Stack] = Counter()
    for stack, ns in _stacks(report):
        weights[stack] += ns
    frames: dict[str | Where, int] = {}
    samples = [[frames.setdefault(frame, len(frames)) for frame in stack] for stack in weights if weights[stack] > 0]
    kept = [ns for ns in weights.values() if ns > 0]
    name = report.recording.label or "profile"
    data = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": [_frame(report, frame) for frame in frames]},
        "profiles": [
            {
                "type": "sampled",
                "name": f"{name} on {report.recording.environment.device}",
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": sum(kept),
                "samples": samples,
                "weights": kept,
            }
        ],
        "name": name,
        "exporter": f"neuron_lab@{__version__}",
        "activeProfileIndex": 0,
    }
    return json.dumps(data, separators=(",", ":")).encode("ascii")


def _stacks(report: Report) -> Iterator[tuple[_Stack, int]]:
    made: dict[str, Counter[str]] = {}
    for item in report.recording.compiles:
        made.setdefault(item.neff, Counter())["load" if item.source == "disk" else "compile"] += item.total_ns
    # The call that waited longest for a NEFF is the one that made it.
    for total in sorted(report.recording.op_totals, key=lambda total: -total.total_ns):
        stack: _Stack = (total.where or _NO_LINE, total.op)
        if total.kind == "compiled":
            waited = made.pop(total.neff or "", Counter()) if total.cold_calls else Counter()
            yield from _compiled(total, stack, waited)
        else:
            yield ((*stack, "on the CPU") if total.kind == "fallback" else stack), total.total_ns
    for copied in report.recording.copy_totals:
        yield (copied.where or _NO_LINE, f"copy {copied.direction}"), copied.total_ns


def _compiled(total: OpTotal, stack: _Stack, waited: Counter[str]) -> Iterator[tuple[_Stack, int]]:
    left = total.total_ns
    for name, ns in (("device", total.device_ns), *waited.items()):
        spent = min(ns, left)
        left -= spent
        yield (*stack, name), spent
    yield stack, left


def _frame(report: Report, frame: str | Where) -> dict[str, Any]:
    if not isinstance(frame, Where):
        return {"name": frame}
    texts = {source.file: dict(source.lines) for source in report.recording.sources}
    text = texts.get(frame.file, {}).get(frame.line, "").strip()
    place = report.place(frame)
    return {"name": f"{place}: {text}" if text else place, "file": frame.file, "line": max(1, frame.line)}
