"""Any recording that a file could hold, also what no device records: hypothesis draws from `recordings`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from neuron_lab.device import LateVariable
from neuron_lab.recording import (
    Compile,
    Copy,
    CopyTotal,
    CorePeak,
    Environment,
    Fallback,
    GraphCompile,
    Held,
    Kept,
    LinePeak,
    MemoryChange,
    MemoryLog,
    MemoryPeak,
    OpCall,
    OpTotal,
    OutOfMemory,
    Recording,
    Source,
    Where,
    WideTotal,
)

whole = st.integers(1 - (1 << 62), (1 << 62) - 1)
some_count = st.integers(0, 1 << 40)
text = st.text(max_size=12)
place = st.none() | st.builds(Where, text, some_count, text, some_count)
neff = st.none() | text


def many(kind: Any, *fields: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.builds(kind, *fields), max_size=3).map(tuple)


held = many(Held, place, whole, some_count)
memory_logs = st.builds(
    MemoryLog,
    many(MemoryChange, some_count, whole, whole, whole, place),
    many(MemoryPeak, some_count, whole, whole, held),
    many(LinePeak, some_count, whole, place),
    many(OutOfMemory, some_count, whole, whole, whole, whole, place, held),
    some_count,
)
scope = (place, neff, st.sampled_from(["", "forward", "backward", "optimizer"]) | text)
reason = (
    text | st.just("0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5") | st.just("1/0: L['n'] == 3  # a")
)
compiles = many(Compile, text, text, text, whole, some_count, some_count, some_count, text)
recordings = st.builds(
    Recording,
    label=text,
    start_ns=st.just(0),
    end_ns=some_count,
    error=st.none() | text,
    environment=st.builds(Environment, text, st.booleans(), text, some_count, st.dictionaries(text, text, max_size=2)),
    ops=many(OpCall, text, text, neff, some_count, whole, whole, whole, some_count, some_count, st.booleans(), place),
    copies=many(Copy, text, some_count, whole, whole, some_count, place),
    op_totals=many(OpTotal, text, text, neff, some_count, some_count, some_count, whole, whole, some_count, *scope),
    copy_totals=many(CopyTotal, text, some_count, some_count, some_count, *scope),
    compiles=compiles,
    fallbacks=many(Fallback, text, text, some_count, some_count),
    startups=st.lists(st.tuples(whole, whole), max_size=2).map(tuple),
    syncs=some_count,
    dropped=some_count,
    overhead_ns=some_count,
    earlier=compiles,
    sources=many(Source, text, text, st.lists(st.tuples(some_count, text), max_size=3).map(tuple)),
    memory=many(CorePeak, some_count, some_count, some_count, some_count, some_count),
    late_variables=many(LateVariable, text, text, text),
    reads_clock=st.booleans(),
    wide=many(WideTotal, text, st.booleans(), st.booleans(), some_count, some_count, place),
    memory_log=memory_logs,
    kept=many(Kept, text, some_count, whole),
    unix_ns=whole,
    synchronised=st.booleans(),
    stopped_at=place,
    graphs=many(
        GraphCompile,
        text,
        text,
        text,
        some_count,
        place,
        whole,
        some_count,
        st.lists(reason, max_size=3).map(tuple),
        reason,
    ),
    graphs_lost=st.booleans(),
)
