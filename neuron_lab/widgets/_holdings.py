"""What the view of HBM by name shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from neuron_lab import render
from neuron_lab.device import CoreMemory
from neuron_lab.recording import Holding

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


class Held(Protocol):
    """Cores and who holds their memory; `freed` are the bytes that were given back before."""

    @property
    def cores(self) -> Sequence[CoreMemory]: ...

    @property
    def holdings(self) -> Sequence[Holding]: ...

    @property
    def freed(self) -> int | None: ...


def holdings_meta(found: Held, freed: int | None) -> dict[str, Any]:
    """The largest blocks with their names, and what is in use."""
    rest = found.holdings[_ROWS:]
    several = len({item.core for item in found.holdings}) > 1
    return {
        "summary": render.memory_summary(found.cores, found.holdings, freed),
        "colors": {
            kind: color for kind, color in KIND_COLORS.items() if any(item.kind == kind for item in found.holdings)
        },
        "more": [len(rest), sum(item.bytes for item in rest)],
        "holdings": [
            {
                "names": item.names,
                "kind": item.kind,
                "bytes": item.bytes,
                "tensor": f"{item.dtype}{list(item.shape)}" + (f" on neuron:{item.core}" if several else ""),
                "history": item.history,
            }
            for item in found.holdings[:_ROWS]
        ],
    }
