"""Who holds HBM, as rows: what differs in an index only stands together, so that a list that grows shows with all it holds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from neuron_lab.recording import Holding

# So many tensors that differ in an index are one row.
_ALIKE = 3
_INDEX = re.compile(r"\[\d+\]")
_NO_NAME = "(no name: a temporary, or kept by PyTorch)"


@dataclass(frozen=True, slots=True)
class HeldRow:
    """One block of HBM, or those of one list or dict; all of one kind and on one core."""

    items: tuple[Holding, ...]

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return sum(item.bytes for item in self.items)

    @property
    def name(self) -> str:
        """ "losses[3]", or "losses[…]" for several."""
        return self.items[0].names[0] if len(self.items) == 1 and self.items[0].names else _pattern(self.items[0])

    @property
    def count(self) -> str:
        """What the name alone does not tell: how many blocks there are, or how many more names the one has."""
        others = len(self.items[0].names) - 1
        if len(self.items) > 1:
            return f", {len(self.items)}×"
        return f" (+{others})" if others > 0 else ""

    @property
    def names(self) -> tuple[str, ...]:
        """All names of all of them."""
        return tuple(name for item in self.items for name in item.names)

    @property
    def tensor(self) -> str:
        """ "float32[2, 3]", or "4 shapes"."""
        shapes = list(dict.fromkeys(f"{item.dtype}{list(item.shape)}" for item in self.items))
        return shapes[0] if len(shapes) == 1 else f"{len(shapes)} shapes"


def held_rows(holdings: Sequence[Holding]) -> list[HeldRow]:
    """The holdings as rows, the largest first."""
    groups: defaultdict[tuple[object, ...], list[Holding]] = defaultdict(list)
    for item in holdings:
        groups[_pattern(item), item.kind, item.core].append(item)
    rows: list[HeldRow] = []
    for group in groups.values():
        rows += [HeldRow(tuple(group))] if len(group) >= _ALIKE else [HeldRow((item,)) for item in group]
    return sorted(rows, key=lambda row: -row.bytes)


def _pattern(item: Holding) -> str:
    return _INDEX.sub("[…]", item.names[0]) if item.names else _NO_NAME
