"""Recordings of any length, made without running anything."""

from __future__ import annotations

import numpy as np

from neuron_lab.recording import (
    Compile,
    Copy,
    CopyTotal,
    CorePeak,
    Environment,
    Held,
    LinePeak,
    MemoryChange,
    MemoryLog,
    MemoryPeak,
    OpCall,
    OpTotal,
    Recording,
    Source,
    Where,
)

MS = 1_000_000
FILE = "/project/train.py"
OPS = [f"aten::op_{number}" for number in range(40)]
LINES = 20


def long_recording(events: int, *, changes: int = 0) -> Recording:
    """`events` events, 100 or more: 40 compiles, one copy in eleven, the rest op calls, one in fifty a fallback. HBM goes up and down."""
    random = np.random.default_rng(0)
    places = [Where(FILE, 1, "<module>", line) for line in range(1, LINES + 1)]
    wanted = events // 11
    calls = events - wanted - len(OPS)
    took, gap = random.integers(3_000, 60_000, calls), random.integers(1_000, 20_000, calls)
    ends = (1_000 * MS + np.cumsum(took + gap)).tolist()
    ops, copies = [], []
    for i, (end, spent) in enumerate(zip(ends, took.tolist(), strict=True)):
        where = places[i // 7 % LINES]
        fell = i % 50 == 7
        kind, neff, device = ("fallback", None, spent) if fell else ("compiled", f"{i % 40:032x}", spent // 2)
        ops.append(OpCall(OPS[i % 40], kind, neff, i % 2, 1, end - spent, end, device, 64 * (i % 512), i < 40, where))
        if i % 9 == 0 and len(copies) < wanted:
            copies.append(Copy("h2d", 0, end, end + 900, 4096, where))
    step = max(1, calls // max(1, changes))
    used, log = 1 << 20, []
    for i in range(changes):
        change = 4096 if i % 2 == 0 else -4096
        used += change
        taker = places[i // 2 * 2 % LINES]
        log.append(MemoryChange(0, ends[min(i * step, calls - 1)], change, used, taker))
    end_ns = ends[-1] + 1_000
    peak = (1 << 20) + 4096
    return Recording(
        label="In[12]",
        start_ns=1_000 * MS,
        end_ns=end_ns,
        error=None,
        environment=Environment("emulated trn2.3xlarge", True, versions={"torch": "2.13.0", "neuron_lab": "0.1.0"}),
        ops=tuple(ops),
        copies=tuple(copies),
        op_totals=totals(ops),
        copy_totals=(CopyTotal("h2d", len(copies), 900 * len(copies), 4096 * len(copies), places[0]),),
        compiles=tuple(
            Compile(op, f"{i:032x}", "compiled", ops[i].start_ns, 500, 500, 1_000, f"{op}(float32[8, 4])")
            for i, op in enumerate(OPS)
        ),
        fallbacks=(),
        startups=(),
        syncs=0,
        dropped=0,
        overhead_ns=600_000,
        sources=(Source(FILE, "train.py", tuple((n, f"x{n} = step_{n}(x)  # line {n}") for n in range(1, LINES + 1))),),
        memory=(CorePeak(0, 0, used, peak, 24 << 30),),
        memory_log=MemoryLog(
            changes=tuple(log),
            peaks=(MemoryPeak(0, ends[0], peak, (Held(places[0], 4096, 1),)),) if log else (),
            line_peaks=tuple(LinePeak(0, peak, where) for where in places) if log else (),
        ),
    )


def totals(ops: list[OpCall]) -> tuple[OpTotal, ...]:
    sums: dict[tuple[str, str, str | None, int, Where | None], list[int]] = {}
    for call in ops:
        row = sums.setdefault((call.op, call.kind, call.neff, call.core, call.where), [0] * 5)
        for index, value in enumerate((1, int(call.cold), call.end_ns - call.start_ns, call.device_ns, call.bytes)):
            row[index] += value
    return tuple(OpTotal(*key[:4], *row, key[4]) for key, row in sums.items())
