"""What happened while a program ran: events, exact totals, and the environment they are true for."""

from __future__ import annotations

from neuron_lab.recording._environment import Environment, environment
from neuron_lab.recording._events import Compile, Copy, CopyTotal, Fallback, OpCall, OpTotal
from neuron_lab.recording._recorder import Recorder
from neuron_lab.recording._recording import Recording

__all__ = [
    "Compile",
    "Copy",
    "CopyTotal",
    "Environment",
    "Fallback",
    "OpCall",
    "OpTotal",
    "Recorder",
    "Recording",
    "environment",
]
