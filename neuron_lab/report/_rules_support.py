"""A finding about what the emulator does and TorchNeuron does not."""

from __future__ import annotations

from collections.abc import Iterator

from neuron_lab.preflight import SNAPSHOT, support
from neuron_lab.report._rules import Facts, Finding, line_of
from neuron_lab.report._sizes import plural


def no_kernel(facts: Facts) -> Iterator[Finding]:
    """NRN032: ops that ran compiled here and have no kernel in TorchNeuron's table; one finding, about the op that ran longest."""
    if not facts.recording.environment.emulated:
        return
    statuses, printing = support(), facts.printing
    lacking = [
        total
        for total in facts.recording.op_totals
        if total.kind == "compiled"
        and total.where is not None
        and line_of(total.where) not in printing
        and statuses.get(total.op) in ("cpu_fallback", "unsupported")
    ]
    if not lacking:
        return
    worst = max(lacking, key=lambda total: (statuses[total.op] == "unsupported", total.device_ns))
    ops = tuple(dict.fromkeys([worst.op, *(total.op for total in lacking)]))
    more = f" ({plural(len(ops) - 1, 'more op')} like it)" if len(ops) > 1 else ""
    there = "an error" if statuses[worst.op] == "unsupported" else "a fallback"
    yield Finding(
        "NRN032",
        facts.place(worst.where),
        f"{worst.op} ran compiled here{more}; TorchNeuron's table of {SNAPSHOT} has no kernel for it: expect {there} there",
        0,
        "later releases have more kernels: look at it on Trainium before you write it otherwise",
        ops,
    )
