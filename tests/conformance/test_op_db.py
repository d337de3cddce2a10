"""PyTorch's operator samples on the device: right, or refused with an error; and the shipped coverage table is true."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from .coverage import RANK, Row, classify, read_table
from .op_db import Outcome, database, entries, run
from .op_samples import check, refusal

KNOWN = {
    ("sparse.mm.reduce", "forward"): "sparse tensors on the device",
    ("sparse.sampled_addmm", "forward"): "sparse tensors on the device",
    ("tensor_split", "forward"): "its indices must be on the host, as on every device",
    ("to_sparse", "forward"): "sparse tensors on the device",
}
"""(entry, variant): why it may differ in float32."""

_SPARSE = "sparse tensors on the device"
_TIES = "which of equal elements comes first is up to the CPU's kernel when the sort need not be stable"
_EVERYWHERE = {
    ("tensor_split", "forward"): "its indices must be on the host, as on every device",
    ("to_sparse", "forward"): _SPARSE,
}
_ORDER = {("sort", "forward"): _TIES, ("argsort", "forward"): _TIES}
_ORDER_AND_GRADIENTS = {**_ORDER, ("sort", "backward"): _TIES, ("msort", "backward"): _TIES}
_REDUCED = {("sparse.mm.reduce", "forward"): _SPARSE}

KNOWN_BY_DTYPE = {
    "int64": _EVERYWHERE,
    "int32": _EVERYWHERE,
    "uint8": _EVERYWHERE | _ORDER,
    "bool": _EVERYWHERE | _ORDER,
    "bfloat16": _EVERYWHERE | _ORDER_AND_GRADIENTS | _REDUCED,
    "float16": _EVERYWHERE | _ORDER_AND_GRADIENTS | _REDUCED,
    "float64": _EVERYWHERE | _REDUCED | {("sparse.sampled_addmm", "forward"): _SPARSE},
    "complex64": _EVERYWHERE | {("sparse.sampled_addmm", "forward"): _SPARSE},
}
"""The same for the other dtypes, one sample of each entry."""

QUICK_STEP = 48
"""One entry in so many."""

_DIFFERENT = ("wrong", "refused", "accepted")


def _check(outcome: Outcome, known: Mapping[tuple[str, str], str] = KNOWN) -> None:
    assert not outcome.crashes, "\n".join(f"{entry}: {text}" for entry, text in outcome.crashes)
    different = [f for f in outcome.findings if f.outcome in _DIFFERENT and (f.entry, f.variant) not in known]
    assert not different, "\n".join(map(str, different))


def _differing(outcome: Outcome) -> set[tuple[str, str]]:
    return {(f.entry, f.variant) for f in outcome.findings if f.outcome in _DIFFERENT}


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
    assert _differing(outcome) == KNOWN.keys(), "an entry of KNOWN that no longer differs must go"
    table, known = classify(outcome.calls), read_table()
    assert _lost(table, known) == []
    changed = [
        f"{op}: {known.get(op)} -> {table.get(op)}" for op in sorted(known | table) if known.get(op) != table.get(op)
    ]
    assert changed == [], "record them: python -m tests.conformance.op_db --write"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", KNOWN_BY_DTYPE)
def test_a_few_ops_in_every_dtype(dtype: str) -> None:
    """Other entries for every dtype, in this process; the slow test runs all of them."""
    first = list(KNOWN_BY_DTYPE).index(dtype)
    outcome = Outcome()
    for position in entries("^(?!_foreach)", dtype=dtype)[first::QUICK_STEP]:
        outcome.findings += check(database()[position], 1, getattr(torch, dtype))
    _check(outcome, KNOWN_BY_DTYPE[dtype])


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("dtype", KNOWN_BY_DTYPE)
def test_all_ops_equal_the_cpu_in(dtype: str) -> None:
    outcome = run(entries(dtype=dtype), samples=1, dtype=dtype)
    _check(outcome, KNOWN_BY_DTYPE[dtype])
    assert _differing(outcome) == KNOWN_BY_DTYPE[dtype].keys(), "an entry that no longer differs must go"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.bfloat16, torch.complex64])
def test_a_dtype_that_the_cpu_refuses_is_refused(dtype: torch.dtype) -> None:
    apart = ("_foreach", "sparse", "histc")  # histc counts integers, as on accelerators: mixtures of experts need it
    found = [refusal(info, dtype) for info in database() if not info.name.startswith(apart)]
    assert [finding for finding in found if finding is not None and finding.outcome != "raises"] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64])
def test_a_few_dtypes_that_the_cpu_refuses_are_refused(dtype: torch.dtype) -> None:
    found = [refusal(info, dtype) for info in database() if info.name.startswith("special.")]
    refused = [finding for finding in found if finding is not None]
    assert refused and [finding for finding in refused if finding.outcome != "raises"] == []
