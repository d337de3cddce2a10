"""Findings about dtypes, memory and the environment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from neuron_lab.recording import Where
from neuron_lab.report._recompiles import read
from neuron_lab.report._rules import Facts, Finding, line_of

_NEAR = 0.9
# Ops in which 64-bit integers grow out of 32 bits; indices and counts do not.
_GROWING = frozenset(
    {"aten::mul", "aten::pow", "aten::prod", "aten::cumprod", "aten::__lshift__", "aten::bitwise_left_shift"}
)


def narrowing(facts: Facts) -> Iterator[Finding]:
    """NRN021: float64, or int64 that multiplies, which TorchNeuron computes in 32 bits."""
    signatures = {item.neff: item.signature for item in (*facts.recording.earlier, *facts.recording.compiles)}
    places: defaultdict[str, list[tuple[Where | None, str, int]]] = defaultdict(list)
    printing = facts.printing
    for total in facts.recording.op_totals:
        if total.where is None or line_of(total.where) in printing or total.neff is None:
            continue
        dtypes = {tensor.dtype for _, tensor in read(signatures.get(total.neff, "")).tensors}
        if "float64" in dtypes or "complex128" in dtypes:
            places["float64"].append((total.where, total.op, total.total_ns))
        elif "int64" in dtypes and total.op.partition(".")[0].rstrip("_") in _GROWING:
            places["int64"].append((total.where, total.op, total.total_ns))
    for dtype, uses in places.items():
        where, op, _ = max(uses, key=lambda use: use[2])
        lines = len({use[0] for use in uses})
        more = "" if lines == 1 else f" and {lines - 1} more line{'' if lines == 2 else 's'}"
        short = {"float64": "float32", "int64": "int32"}[dtype]
        yield Finding(
            "NRN021",
            facts.place(where) + more,
            f"{op} gets {dtype}; the emulator computes all 64 bits, TorchNeuron {short}",
            0,
            f"use {short}, or compute it on the CPU",
            tuple(dict.fromkeys(use[1] for use in uses)),
        )


def near_limit(facts: Facts) -> Iterator[Finding]:
    """NRN051: this span brought a core's HBM near its limit."""
    for core in facts.recording.memory:
        if core.peak > core.peak_before and core.peak >= _NEAR * core.limit:
            yield Finding(
                "NRN051",
                f"neuron:{core.core}",
                f"the peak was {core.peak / 2**30:.2f} of {core.limit / 2**30:.2f} GiB of HBM",
                0,
                "a smaller batch, bfloat16, or activation checkpointing; %neuron memory names what is held",
            )


def late_variables(facts: Facts) -> Iterator[Finding]:
    """NRN061: an environment variable that came too late."""
    for item in facts.recording.late_variables:
        yield Finding(
            "NRN061",
            "",
            f"{item.name}={item.value} was set too late: {item.effect}",
            0,
            "set it before torch is imported; restart the kernel",
        )
