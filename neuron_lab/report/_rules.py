"""What the rules for findings share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neuron_lab.recording import Recording, Where
from neuron_lab.report._recompiles import Recompile
from neuron_lab.report._split import Split

# Calls from one line that make it a loop.
LOOP = 4
# Rarer than one in so many op calls, waiting for a value costs next to nothing.
OPS_PER_WAIT = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know. `where` is "In[12] line 4" or "", `cost_ns` what it took in this profile, 0 when that cannot be told."""

    code: str
    where: str
    message: str
    cost_ns: int
    fix: str
    ops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What a rule reads; `place` names a line."""

    recording: Recording
    recompiles: Sequence[Recompile]
    split: Split
    place: Callable[[Where | None], str]

    @property
    def printing(self) -> set[tuple[str, int]]:
        """Lines that format a tensor: torch selects the finite values and looks whether they are whole."""
        ops: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        for total in self.recording.op_totals:
            line = line_of(total.where)
            if line is not None:
                ops[line].add(total.op)
        return {line for line, names in ops.items() if {"aten::masked_select", "aten::ceil"} <= names}

    def text_of(self, where: Where | None) -> str:
        """The source of a line, "" when it is not kept."""
        for source in self.recording.sources:
            if where is not None and source.file == where.file:
                return dict(source.lines).get(where.line, "")
        return ""


def line_of(where: Where | None) -> tuple[str, int] | None:
    """A line, whatever function it was called from."""
    return None if where is None else (where.file, where.line)
