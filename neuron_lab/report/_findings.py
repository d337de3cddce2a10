"""What a person should know and would have to search for: each with a stable code, the line, the cost and what to do.

A clean warm program has none. A rule that cannot be sure says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from neuron_lab.report._rules import Facts, Finding
from neuron_lab.report._rules_compile import cold_timing, many_tiny_neffs, other_sizes, other_values, traced_again
from neuron_lab.report._rules_host import data_dependent, fallback_in_loop, host_copies, synchronisation
from neuron_lab.report._rules_memory import kept_by_history, near_limit, out_of_memory
from neuron_lab.report._rules_state import late_variables, narrowing
from neuron_lab.report._rules_support import no_kernel

if TYPE_CHECKING:
    import pandas as pd

    from neuron_lab.report._report import Report

_RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    late_variables,
    out_of_memory,
    near_limit,
    kept_by_history,
    other_sizes,
    other_values,
    cold_timing,
    fallback_in_loop,
    data_dependent,
    synchronisation,
    host_copies,
    narrowing,
    many_tiny_neffs,
    traced_again,
    no_kernel,
)
FINDING_COLUMNS = ["code", "where", "message", "cost_s", "fix"]


class Findings(tuple[Finding, ...]):
    """Findings as records, the dearest first, before them what did not fit; `.frame` is the same as a DataFrame."""

    __slots__ = ()

    @property
    def frame(self) -> pd.DataFrame:
        """One row a finding."""
        import pandas as pd

        rows = [[item.code, item.where, item.message, item.cost_ns / 1e9, item.fix] for item in self]
        return pd.DataFrame(rows, columns=FINDING_COLUMNS)


def findings(report: Report) -> Findings:
    """Apply every rule."""
    facts = Facts(report.recording, report.recompile_rows, report.split, report.place)
    found = [finding for rule in _RULES for finding in rule(facts)]
    return Findings(sorted(found, key=lambda item: (item.code != "NRN052", -item.cost_ns)))
