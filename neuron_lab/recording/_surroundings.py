"""What a recorder asks of the process around the program it records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from neuron_lab.device import CoreMemory, LateVariable


def _nothing() -> tuple[()]:
    return ()


def _no_graphs(since_ns: int, until_ns: int) -> tuple[Sequence[tuple[Any, ...]], bool]:
    return (), False


def _no_cell(file: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`history` gives the process's compiles as a RawLog does, oldest first; `cell_name` "In[12]" for the file of a cell.

    `reads_clock`: the span's own source reads a clock, so a person will believe the time. `graphs` gives what
    torch.compile traced between two times since 1970 in nanoseconds, in the fields of `GraphCompile`, and whether there was more.
    """

    history: Callable[[], Iterable[tuple[Any, ...]]] = _nothing
    memory: Callable[[], tuple[CoreMemory, ...]] = _nothing
    late_variables: Callable[[], tuple[LateVariable, ...]] = _nothing
    cell_name: Callable[[str], str | None] = _no_cell
    reads_clock: bool = False
    graphs: Callable[[int, int], tuple[Sequence[tuple[Any, ...]], bool]] = _no_graphs
