"""What the browser gets: the columns, and beside them the names, the exact totals, the source and the findings as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from neuron_lab import render
from neuron_lab.report import Report, View
from neuron_lab.widgets._columns import KINDS, Columns, columns


@dataclass(frozen=True, slots=True)
class Payload:
    """`meta` is JSON, `columns` gzip of the arrays that `meta["layout"]` lists."""

    meta: dict[str, Any]
    columns: bytes


def payload(report: Report, view: View) -> Payload:
    """Everything the explorer shows."""
    found = columns(report)
    recording = report.recording
    head, foot = render.report_frame(report)
    numbers = {place: number for number, place in enumerate(found.places, 1)}
    meta = {
        "label": recording.label or "profile",
        "wall": recording.wall_ns,
        "tick": found.tick_ns,
        "layout": found.layout,
        "kinds": KINDS,
        "colors": render.PART_COLORS,
        "labels": found.labels,
        "cores": found.cores,
        "threads": found.threads,
        "details": found.details,
        "dropped": recording.dropped,
        "droppedChanges": recording.memory_log.dropped,
        "sort": view.sort,
        "head": head,
        "foot": foot,
        "ops": _ops(report, found),
        "lines": _lines(report, numbers),
        "sources": [
            {
                "name": source.name,
                "lines": [[number, text, numbers.get((source.file, number), 0)] for number, text in source.lines],
            }
            for source in recording.sources
            if source.lines
        ],
        "places": ["", *(_place(report, file, line) for file, line in found.places)],
        "findings": _findings(report, found),
        "memory": [
            {
                "core": curve.core,
                "limit": curve.limit,
                "peak": curve.peak,
                "peakAt": curve.peak_ns,
                "end": curve.used,
                "start": curve.points[0][1] if curve.points else curve.used,
                "portions": [
                    (report.place(portion.where) or "by no line of yours", portion.bytes)
                    for portion in curve.portions
                    if not portion.before
                ],
            }
            for curve in report.curves
        ],
    }
    return Payload(meta, found.packed)


def _place(report: Report, file: str, line: int) -> str:
    names = {source.file: source.name for source in report.recording.sources}
    return f"{names.get(file, file)} line {line}"


def _ops(report: Report, found: Columns) -> list[list[Any]]:
    """By op: calls, cold calls, compile, load, device, CPU, bytes, total. Exact, also where events were dropped."""
    numbers = {label: number for number, label in enumerate(found.labels)}
    return [
        [
            numbers.get(row.op, row.op),
            row.calls,
            row.cold_calls,
            row.compile.made_ns,
            row.compile.load_ns,
            row.device_ns,
            row.fallback_ns,
            row.bytes,
            row.total_ns,
        ]
        for row in report.op_rows
    ]


def _lines(report: Report, numbers: dict[tuple[str, int], int]) -> dict[int, list[int]]:
    """By the line's number: calls, NEFFs made, compile, load, device, CPU, copies, bytes, total."""
    return {
        numbers[row.file, row.line]: [
            row.calls,
            row.neffs_compiled,
            row.compile_ns,
            row.load_ns,
            row.device_ns,
            row.fallback_ns,
            row.copies,
            row.bytes + row.copy_bytes,
            row.total_ns,
        ]
        for row in report.line_rows
        if (row.file, row.line) in numbers
    }


def _findings(report: Report, found: Columns) -> list[dict[str, Any]]:
    lines = {_place(report, file, line): number for number, (file, line) in enumerate(found.places, 1)}
    labels = {label: number for number, label in enumerate(found.labels)}
    return [
        {
            "code": item.code,
            "where": item.where,
            "message": item.message,
            "cost": item.cost_ns,
            "fix": item.fix,
            "line": lines.get(item.where, 0),
            "ops": [labels[op] for op in item.ops if op in labels],
        }
        for item in report.findings
    ]
