"""Every op that PyTorch's operator samples call: lowered and equal to the CPU, or refused with a reason."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from neuron_lab.emulator import compiler
from neuron_lab.emulator.lowering import Unlowerable, lower
from tests.unit.lowering._runner import Specimen, compare, run

from .capture import Captured, capture

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]

UNINITIALISED = ("aten::new_empty.", "aten::new_empty_strided.")
REFUSED_BY_THE_CPU = {"aten::_foreach_sub.Scalar", "aten::_foreach_sub_.Scalar"}
"""Samples with a boolean number, which eager PyTorch refuses."""
LEAST_LOWERED = 620
"""Overloads whose samples all agree; 629 of 700 were counted when this was written."""


def _overload(name: str) -> torch._ops.OpOverload:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    found: torch._ops.OpOverload = getattr(getattr(torch.ops.aten, packet), overload)
    return found


def _outcome(call: Captured) -> tuple[str, str]:
    op = _overload(call.op)
    specimen = Specimen(op, call.args, call.kwargs)
    try:
        lowered = lower(specimen.call)
        executable = compiler.compile(lowered.stablehlo)
    except (Unlowerable, compiler.CompileError) as reason:
        return "refused", str(reason)
    results = run(lowered, specimen, executable)
    try:
        compare(op, call.args, call.kwargs, specimen, lowered, results, op, rtol=1e-4, atol=1e-4)
    except AssertionError as error:
        return "wrong", " ".join(str(error).split())[:300]
    return "same", ""


def test_lowered_ops_equal_the_cpu() -> None:
    outcomes: dict[str, set[str]] = {}
    wrong: list[Any] = []
    for call in capture(limit=2, samples=3):
        if call.op.startswith(UNINITIALISED) or call.op in REFUSED_BY_THE_CPU:
            continue
        outcome, detail = _outcome(call)
        outcomes.setdefault(call.op, set()).add(outcome)
        if outcome == "wrong":
            wrong.append((call.op, call.source, detail))
    assert wrong == []
    counts = Counter("same" if found == {"same"} else "refused" for found in outcomes.values())
    assert counts["same"] >= LEAST_LOWERED, counts
