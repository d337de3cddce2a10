"""What the commands beside `profile` show: text and HTML of one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from neuron_lab import render
from neuron_lab._result import Profile, last
from neuron_lab.errors import UsageProblem
from neuron_lab.report import explanation


@dataclass(frozen=True, slots=True)
class Page:
    """In a notebook it displays as HTML, elsewhere as text."""

    text: str
    html: str

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.text, "text/html": self.html}


def recompiles(profile: Profile | None = None) -> Page:
    """Why each NEFF of a profile, the latest by default, was made: the nearest signature, what differs, the cost and the fix. And why
    torch.compile traced functions again: the guard that failed, and the line that called.

    `profile.recompiles` and `profile.graphs` are the same as DataFrames. Raises UsageProblem when nothing was profiled yet, and for
    what is no profile.
    """
    chosen = last() if profile is None else profile
    if not isinstance(chosen, Profile):
        raise UsageProblem(f"recompiles are those of a profile, not of a {type(chosen).__name__}")
    report = chosen.report
    return Page(render.recompiles_text(report), render.recompiles_html(report))


def explain(code: str) -> Page:
    """A finding's meaning, an example and its fixes. Raises UsageProblem for a code that does not exist."""
    item = explanation(code)
    return Page(render.explanation_text(item), render.explanation_html(item))
