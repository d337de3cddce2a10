"""What the view of a session shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuron_lab import render
from neuron_lab.report import SessionRow


def session_meta(rows: Sequence[SessionRow], forgotten: int) -> dict[str, Any]:
    """One record a profile, in the order they ran; times in nanoseconds."""
    return {
        "colors": render.PART_COLORS,
        "labels": render.PART_LABELS,
        "forgotten": forgotten,
        "rows": [
            {
                "order": order,
                "label": (row.label or "profile") + (f" ({row.error})" if row.error else ""),
                "wall": row.wall_ns,
                "parts": {part: getattr(row, f"{part}_ns") for part in render.PART_LABELS},
                "compiled": row.neffs_compiled,
                "loaded": row.neffs_loaded,
                "fallbacks": row.fallback_calls,
                "findings": row.findings,
            }
            for order, row in enumerate(rows, 1 + forgotten)
        ],
    }
