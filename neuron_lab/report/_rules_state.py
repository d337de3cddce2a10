"""Findings about dtypes and the environment."""

from __future__ import annotations

from collections.abc import Iterator

from neuron_lab.recording import WideTotal
from neuron_lab.report._rules import Facts, Finding, line_of
from neuron_lab.report._sizes import plural


def narrowing(facts: Facts) -> Iterator[Finding]:
    """NRN021: int64 whose values leave 32 bits, or float64, which TorchNeuron computes in 32 bits."""
    uses = [use for use in facts.recording.wide if use.where is not None and line_of(use.where) not in facts.printing]
    integers = [use for use in uses if use.integers and use.beyond and not use.floats]
    if integers:
        message = "an int64 value does not fit 32 bits; the emulator computes all 64, TorchNeuron wraps it"
        yield _narrowed(facts, integers, message, "check the range, or compute it on the CPU")
    floats = [use for use in uses if use.floats]
    if floats:
        beyond = "; a value exceeds float32's range" if any(use.beyond for use in floats) else ""
        message = f"it gets float64; the emulator computes all 64 bits, TorchNeuron float32{beyond}"
        yield _narrowed(facts, floats, message, "use float32, or compute it on the CPU")


def _narrowed(facts: Facts, uses: list[WideTotal], message: str, fix: str) -> Finding:
    first = max(uses, key=lambda use: (use.beyond, use.calls))
    lines = len({line_of(use.where) for use in uses})
    more = "" if lines == 1 else f" and {plural(lines - 1, 'more line')}"
    return Finding(
        "NRN021",
        facts.place(first.where) + more,
        f"{first.op}: {message}",
        0,
        fix,
        tuple(dict.fromkeys(use.op for use in uses)),
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
