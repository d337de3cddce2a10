"""What the view of HBM by name shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from neuron_lab import render
from neuron_lab.device import CoreMemory
from neuron_lab.recording import Holding
from neuron_lab.report import held_rows

# The hues of the report, by what is held.
KIND_COLORS = {
    "parameters": render.PART_COLORS["device"],
    "gradients": render.PART_COLORS["fallback"],
    "optimizer state": render.PART_COLORS["compile"],
    "activations": render.PART_COLORS["copies"],
    "other": render.PART_COLORS["rest"],
    "kept by PyTorch for backward": render.PART_COLORS["load"],
}
_ROWS = 500
_NAMES = 50  # of one row


class Held(Protocol):
    """Cores and who holds their memory; `freed` are the bytes that were given back before."""

    @property
    def cores(self) -> Sequence[CoreMemory]: ...

    @property
    def holdings(self) -> Sequence[Holding]: ...

    @property
    def freed(self) -> int | None: ...


def holdings_meta(found: Held, freed: int | None) -> dict[str, Any]:
    """Who holds the most, by name, and what is in use."""
    rows = held_rows(found.holdings)
    shown, rest = rows[:_ROWS], rows[_ROWS:]
    several = len({item.core for item in found.holdings}) > 1
    return {
        "summary": render.memory_summary(found.cores, found.holdings, freed),
        "colors": {
            kind: color for kind, color in KIND_COLORS.items() if any(item.kind == kind for item in found.holdings)
        },
        "more": [sum(len(row.items) for row in rest), sum(row.bytes for row in rest)],
        "holdings": [
            {
                "name": row.name + row.count,
                "names": row.names[:_NAMES],
                "kind": row.items[0].kind,
                "bytes": row.bytes,
                "tensor": row.tensor + (f" on neuron:{row.items[0].core}" if several else ""),
                "history": any(item.history for item in row.items),
            }
            for row in shown
        ],
    }
