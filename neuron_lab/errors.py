"""The errors a user of the toolkit can meet.

NeuronLabError
├── UsageProblem      the call cannot be done as it was written
├── DeviceProblem     no device serves `neuron`, or it cannot be measured
├── FileProblem       a file cannot be written, or is not what it should be
└── BudgetExceeded    a profiled cell went over its `--fail-over` budget
"""

from __future__ import annotations


class NeuronLabError(Exception):
    """Base of every error raised on purpose. Its message says what, which value, where and what to do."""

    def _render_traceback_(self) -> list[str]:
        """IPython shows these lines instead of a traceback: the message is the whole story."""
        return [f"{type(self).__name__}: {self}"]


class UsageProblem(NeuronLabError):
    """Raised when an option, a name or the order of calls is not valid."""


class DeviceProblem(NeuronLabError):
    """Raised when no device serves `neuron` here, or when it offers nothing to measure with."""


class FileProblem(NeuronLabError):
    """Raised when a file cannot be read or written, is damaged, or is of another format or version."""


class BudgetExceeded(NeuronLabError):
    """Raised after the report of a profiled cell that used more than its budget allowed."""
