"""Findings about the host: fallbacks, values that are waited for, copies, results whose size depends on the data."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from neuron_lab.recording import Recording, Where
from neuron_lab.report._rules import LOOP, OPS_PER_WAIT, Facts, Finding, line_of

_A_VALUE = 16  # bytes: one number, complex128 at most
# Printing a float tensor reads seven values to choose a format.
_READS_OF_A_PRINT = 7
_RANDOM = "random numbers are drawn on the host"
_BY_DATA = "depends on the data"
_SIZED_BY_DATA = frozenset(
    {"aten::nonzero", "aten::masked_select", "aten::index.Tensor", "aten::repeat_interleave.Tensor"}
)


def fallback_in_loop(facts: Facts) -> Iterator[Finding]:
    """NRN033: an op runs on the CPU again and again from one line."""
    reasons = _reasons(facts)
    for (op, _), (where, calls, spent) in _by_line(facts, "fallback").items():
        reason = reasons.get(op, "")
        if calls >= LOOP and _RANDOM not in reason and _BY_DATA not in reason:
            yield Finding(
                "NRN033",
                facts.place(where),
                f"{op} ran on the CPU {calls:,} times from this line",
                spent,
                "move it out of the loop, or use ops that are compiled",
                (op,),
            )


def data_dependent(facts: Facts) -> Iterator[Finding]:
    """NRN031: a result whose size depends on the data, again and again: the host waits for it, and each size makes new NEFFs."""
    reasons = _reasons(facts)
    printing = facts.printing
    rows = [*_by_line(facts, "fallback").items(), *_by_line(facts, "host").items()]
    for (op, line), (where, calls, spent) in rows:
        sized = _BY_DATA in reasons.get(op, "") or op in _SIZED_BY_DATA
        if sized and calls >= LOOP and line not in printing:
            yield Finding(
                "NRN031",
                facts.place(where),
                f"the size of {op}'s result depends on the data: {calls:,} calls, each waits for the device",
                spent,
                "keep the size fixed: torch.where, a mask that multiplies, topk",
                (op,),
            )


def synchronisation(facts: Facts) -> Iterator[Finding]:
    """NRN041: a value is read in a loop, so that the program waits for the device each time."""
    printing = facts.printing
    for line, copied in _read_back(facts).items():
        prints = line in printing or "print(" in facts.text_of(copied.where)
        if copied.bytes > _A_VALUE * copied.calls or copied.calls < LOOP * (_READS_OF_A_PRINT if prints else 1):
            continue
        if copied.waits < LOOP or _is_rare(facts, copied.calls):
            continue
        what, fix = ("a value is read", "keep it on the device, read it after the loop")
        if prints:
            what, fix = "printing a device tensor reads values", "print(t.cpu())"
        yield Finding(
            "NRN041",
            facts.place(copied.where),
            f"{what} {copied.calls:,} times; each waits for the device",
            copied.ns,
            fix,
        )


def host_copies(facts: Facts) -> Iterator[Finding]:
    """NRN042: tensors are copied to the host in a loop."""
    for copied in _read_back(facts).values():
        if copied.bytes > _A_VALUE * copied.calls and copied.waits >= LOOP and not _is_rare(facts, copied.calls):
            yield Finding(
                "NRN042",
                facts.place(copied.where),
                f"{copied.calls:,} copies to the host from this line; each waits for the device",
                copied.ns,
                "collect on the device (torch.stack, cat) and copy once",
            )


@dataclass(slots=True)
class _Copied:
    """`waits`: copies with an op since the line's copy before; what follows a copy at once finds an idle device."""

    where: Where
    waits: int = 0
    calls: int = 0
    ns: int = 0
    bytes: int = 0


def _read_back(facts: Facts) -> dict[tuple[str, int], _Copied]:
    """Copies to the host by line."""
    found: dict[tuple[str, int], _Copied] = {}
    for total in facts.recording.copy_totals:
        line = line_of(total.where)
        if total.where is None or line is None or total.direction != "d2h":
            continue
        row = found.setdefault(line, _Copied(total.where))
        row.calls += total.calls
        row.ns += total.total_ns
        row.bytes += total.bytes
    if any(row.calls >= LOOP for row in found.values()):
        _count_waits(facts.recording, found)
    return found


def _count_waits(recording: Recording, found: dict[tuple[str, int], _Copied]) -> None:
    ends = sorted(call.end_ns for call in recording.ops)
    reached: dict[tuple[str, int], int] = {}
    for copied in sorted(recording.copies, key=lambda copied: copied.start_ns):
        line = line_of(copied.where)
        if copied.direction == "d2h" and line in found:
            done = bisect(ends, copied.start_ns)
            found[line].waits += done > reached.get(line, -1)
            reached[line] = done


def _is_rare(facts: Facts, waits: int) -> bool:
    return sum(total.calls for total in facts.recording.op_totals) > OPS_PER_WAIT * waits


def _reasons(facts: Facts) -> dict[str, str]:
    reasons: defaultdict[str, str] = defaultdict(str)
    for item in facts.recording.fallbacks:
        reasons[item.op] += item.reason
    return reasons


def _by_line(facts: Facts, kind: str) -> dict[tuple[str, tuple[str, int]], tuple[Where, int, int]]:
    """Calls and nanoseconds of each op and line."""
    found: dict[tuple[str, tuple[str, int]], tuple[Where, int, int]] = {}
    for total in facts.recording.op_totals:
        line = line_of(total.where)
        if total.kind == kind and total.where is not None and line is not None:
            where, calls, spent = found.get((total.op, line), (total.where, 0, 0))
            found[total.op, line] = where, calls + total.calls, spent + total.total_ns
    return found
