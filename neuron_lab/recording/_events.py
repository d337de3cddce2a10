"""The records of a recording. Times are nanoseconds on the `time.perf_counter_ns` clock, sizes are bytes.

`OpCall` and `Copy` are named tuples: there may be hundreds of thousands, and a frozen dataclass costs five times as much to build.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple


class Where(NamedTuple):
    """The user's line that made a call: of `function`, which begins at `first_line` of `file`."""

    file: str
    first_line: int
    function: str
    line: int


class OpCall(NamedTuple):
    """One call of an ATen overload ("aten::add.Tensor").

    `kind` is "compiled", "fallback" (ran on the CPU), "host" (structural work) or "empty" (nothing to compute). `neff` is the key
    of the compiled unit, None without one. `device_ns` is the time inside the executable, or in the CPU kernel. `cold`: this call
    compiled the unit or loaded it from disk.
    """

    op: str
    kind: str
    neff: str | None
    core: int
    thread: int
    start_ns: int
    end_ns: int
    device_ns: int
    bytes: int
    cold: bool
    where: Where | None = None


class Copy(NamedTuple):
    """One copy; `direction` is "h2d", "d2h" or "d2d"."""

    direction: str
    core: int
    start_ns: int
    end_ns: int
    bytes: int
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class OpTotal:
    """Exact sums over every call with the same op, kind, NEFF, core, line, module and phase.

    `module` is the path of the innermost module that ran, "Net.layers.0", None outside of modules, and in the backward, which runs
    none. `phase` is "forward", "backward" or "optimizer", "" when it is not known.
    """

    op: str
    kind: str
    neff: str | None
    core: int
    calls: int
    cold_calls: int
    total_ns: int
    device_ns: int
    bytes: int
    where: Where | None = None
    module: str | None = None
    phase: str = ""


@dataclass(frozen=True, slots=True)
class Compile:
    """One NEFF that was made ("compiled") or read from the cache directory ("disk"; `compile_ns` is then the load).

    A device that does not tell the stages of a compile gives its whole time as `compile_ns`, 0 for the others.
    """

    op: str
    neff: str
    source: str
    start_ns: int
    trace_ns: int
    lower_ns: int
    compile_ns: int
    signature: str

    @property
    def has_stages(self) -> bool:
        """Whether the device told them."""
        return bool(self.trace_ns or self.lower_ns)

    @property
    def total_ns(self) -> int:
        return self.trace_ns + self.lower_ns + self.compile_ns

    @property
    def ahead_ns(self) -> int:
        """Of `total_ns` what is no part of a call's time: a graph is made before the call that runs it, an op's NEFF within."""
        return self.total_ns if self.op.startswith("graph::") else 0


@dataclass(frozen=True, slots=True)
class GraphCompile:
    """One function that torch.compile traced. `graph` is Dynamo's number of it: "2/1" is the second compile of function 2.

    `where` is the user's line that called the function, None when it is not known. `reasons` are the guards that failed, in
    Dynamo's words, of each compile of the function before, the newest first, () for its first; `failure` says why nothing was
    compiled, "" when it was. The time is the whole of it, the NEFFs it made included.
    """

    graph: str
    function: str
    file: str
    first_line: int
    where: Where | None
    unix_ns: int
    duration_ns: int
    reasons: tuple[str, ...]
    failure: str

    @property
    def title(self) -> str:
        """`function` as its author knows it: what Dynamo makes of the rest of one after a graph break has a name of its own."""
        rest = re.fullmatch(r"torch_dynamo_resume_in_(.*)_at_\d+", self.function)
        return self.function if rest is None else f"rest of {rest[1]}"

    @property
    def place(self) -> Where | None:
        """The line that called, else that of the function; None when neither is known."""
        if self.where is None and self.file:
            return Where(self.file, self.first_line, self.function, self.first_line)
        return self.where


@dataclass(frozen=True, slots=True)
class Fallback:
    """Every call of one op that ran on the CPU for one reason."""

    op: str
    reason: str
    calls: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class CopyTotal:
    """Exact sums over every copy in one direction from one line, module and phase."""

    direction: str
    calls: int
    total_ns: int
    bytes: int
    where: Where | None = None
    module: str | None = None
    phase: str = ""


@dataclass(frozen=True, slots=True)
class WideTotal:
    """Compiled calls of one op from one line that read or gave 64-bit integers or floats.

    TorchNeuron's snapshot of April 2026 computes them in 32 bits; in `beyond` of the calls a value does not fit there.
    """

    op: str
    integers: bool
    floats: bool
    calls: int
    beyond: int
    where: Where | None = None


class MemoryChange(NamedTuple):
    """HBM of one core taken (`change` > 0) or given back; `used` is afterwards, `where` the line that took it, also when it is given back."""

    core: int
    at_ns: int
    change: int
    used: int
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """What a line has taken and not given back."""

    where: Where | None
    bytes: int
    blocks: int


@dataclass(frozen=True, slots=True)
class MemoryPeak:
    """The highest use of one core. What `held` leaves out was there before the span."""

    core: int
    at_ns: int
    used: int
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class LinePeak:
    """The highest use of one core after a line took something."""

    core: int
    used: int
    where: Where | None


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """A line asked for more than a core had left."""

    core: int
    at_ns: int
    asked: int
    used: int
    limit: int
    where: Where | None
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class MemoryLog:
    """HBM over the span. `changes` are the newest, `dropped` those that no longer fitted; everything else is exact."""

    changes: tuple[MemoryChange, ...] = ()
    peaks: tuple[MemoryPeak, ...] = ()
    line_peaks: tuple[LinePeak, ...] = ()
    ooms: tuple[OutOfMemory, ...] = ()
    dropped: int = 0
