"""What happened while a program ran: events, exact totals, and the environment they are true for."""

from __future__ import annotations

from neuron_lab.recording._environment import Environment, environment
from neuron_lab.recording._events import Compile, Copy, CopyTotal, Fallback, OpCall, OpTotal, Where
from neuron_lab.recording._recorder import Recorder
from neuron_lab.recording._recording import CorePeak, Recording
from neuron_lab.recording._sources import Source
from neuron_lab.recording._surroundings import Surroundings

__all__ = [
    "Compile",
    "Copy",
    "CopyTotal",
    "CorePeak",
    "Environment",
    "Fallback",
    "OpCall",
    "OpTotal",
    "Recorder",
    "Recording",
    "Source",
    "Surroundings",
    "Where",
    "environment",
]
