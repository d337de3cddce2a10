"""Findings about HBM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from neuron_lab.recording import WORTH_TELLING, Kept, OutOfMemory
from neuron_lab.report._memory import named, portions
from neuron_lab.report._rules import Facts, Finding
from neuron_lab.report._sizes import binary_size

_NEAR = 0.9
_SMALLER = "a smaller batch, bfloat16, or activation checkpointing; %neuron memory names what is held"


def near_limit(facts: Facts) -> Iterator[Finding]:
    """NRN051: this span brought a core's HBM near its limit."""
    full = {oom.core for oom in facts.recording.memory_log.ooms}
    for core in facts.recording.memory:
        if core.core not in full and core.peak > core.peak_before and core.peak >= _NEAR * core.limit:
            message = f"the peak was {binary_size(core.peak)} of {binary_size(core.limit)} of HBM"
            yield Finding("NRN051", f"neuron:{core.core}", message, 0, _SMALLER)


def out_of_memory(facts: Facts) -> Iterator[Finding]:
    """NRN052: a line asked for more than a core had left; the last time for each line."""
    lines: dict[str, list[OutOfMemory]] = {}
    for oom in facts.recording.memory_log.ooms:
        lines.setdefault(facts.place(oom.where) or f"neuron:{oom.core}", []).append(oom)
    for where, ooms in lines.items():
        last = ooms[-1]
        made_of = [
            f"{binary_size(portion.bytes)} {name}"
            for portion, name in named(portions(last.used, last.held), facts.place)
        ]
        again = f" (the last of {len(ooms)} times)" if len(ooms) > 1 else ""
        message = (
            f"no room for {binary_size(last.asked)} more{again}: neuron:{last.core} had {binary_size(last.used)} of "
            f"{binary_size(last.limit)} in use, made of {' · '.join(made_of)}"
        )
        kept = _worth_telling([item for item in facts.recording.kept if item.core == last.core], last.limit)
        fix = f"%neuron memory --free gives back {_kept(kept)}; or {_SMALLER}" if kept else _SMALLER
        yield Finding("NRN052", where, message, 0, fix)


def kept_by_history(facts: Facts) -> Iterator[Finding]:
    """NRN053: the notebook's own history keeps what this cell made, and nothing else does."""
    recording = facts.recording
    if recording.memory_log.ooms or not recording.label.startswith("In["):
        return  # NRN052 tells it, or it was no cell
    own = recording.label.replace("In[", "Out[", 1)
    for core in recording.memory:
        of_cell = [
            item
            for item in recording.kept
            if item.core == core.core
            and (item.name.startswith(own) or (recording.error and item.name.startswith("last traceback")))
        ]
        if kept := _worth_telling(of_cell, core.limit):
            fix = "%neuron memory --free lets go of it"
            if not recording.error:
                fix = f"end the line with `;` or give the value a name; {fix}"
            yield Finding("NRN053", recording.label, f"only the notebook keeps {_kept(kept)}", 0, fix)


def _worth_telling(kept: Sequence[Kept], limit: int) -> Sequence[Kept]:
    return kept if kept and sum(item.bytes for item in kept) >= WORTH_TELLING * limit else ()


def _kept(kept: Sequence[Kept]) -> str:
    """ "12 MiB (Out[3] and 2 more)"."""
    more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
    return f"{binary_size(sum(item.bytes for item in kept))} ({kept[0].name}{more})"
