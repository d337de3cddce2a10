"""PyTorch's operator samples on the device: right, or refused with an error; and the shipped coverage table is true."""

from __future__ import annotations

import pytest

from .coverage import RANK, Row, classify, read_table
from .op_db import Outcome, entries, run

KNOWN = {
    ("nn.functional.linear", "backward"): "linear_backward has no CPU kernel for empty tensors",
    ("sparse.mm.reduce", "forward"): "sparse tensors on the device",
    ("sparse.sampled_addmm", "forward"): "sparse tensors on the device",
    ("tensor_split", "forward"): "its indices must be on the host, as on every device",
    ("to_sparse", "forward"): "sparse tensors on the device",
}
"""(op_db entry, variant): why it may differ."""


def _check(outcome: Outcome) -> None:
    assert not outcome.crashes, "\n".join(f"{entry}: {text}" for entry, text in outcome.crashes)
    different = [f for f in outcome.findings if f.outcome in ("wrong", "refused") and (f.entry, f.variant) not in KNOWN]
    assert not different, "\n".join(map(str, different))


def _lost(table: dict[str, Row], known: dict[str, Row]) -> list[str]:
    return [
        f"{op}: {known[op].group} became {row.group} ({row.reason})"
        for op, row in table.items()
        if op in known and RANK[row.group] < RANK[known[op].group]
    ]


@pytest.mark.timeout(600)
def test_a_sample_of_the_ops_equals_the_cpu() -> None:
    """Every eighth entry with one sample: a quick look at what the slow test proves."""
    outcome = run(entries(every=8), samples=1)
    _check(outcome)
    table, known = classify(outcome.calls), read_table()
    assert _lost(table, known) == []
    assert sorted(table.keys() - known.keys()) == [], "record them: python -m tests.conformance.op_db --write"


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_all_ops_equal_the_cpu_and_the_coverage_table_is_true() -> None:
    outcome = run(entries())
    _check(outcome)
    seen = {(f.entry, f.variant) for f in outcome.findings if f.outcome in ("wrong", "refused")}
    assert seen == KNOWN.keys(), "an entry of KNOWN that no longer differs must go"
    table, known = classify(outcome.calls), read_table()
    assert _lost(table, known) == []
    changed = [
        f"{op}: {known.get(op)} -> {table.get(op)}" for op in sorted(known | table) if known.get(op) != table.get(op)
    ]
    assert changed == [], "record them: python -m tests.conformance.op_db --write"
