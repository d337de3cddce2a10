"""What happened while a program ran: events, exact totals, and the environment they are true for."""

from __future__ import annotations

from neuron_lab.recording._collector import uncollected
from neuron_lab.recording._environment import Environment, environment
from neuron_lab.recording._events import (
    Compile,
    Copy,
    CopyTotal,
    Fallback,
    GraphCompile,
    Held,
    LinePeak,
    MemoryChange,
    MemoryLog,
    MemoryPeak,
    OpCall,
    OpTotal,
    OutOfMemory,
    Where,
    WideTotal,
)
from neuron_lab.recording._format import LARGEST_BYTES, dumps, loads
from neuron_lab.recording._holdings import (
    WORTH_TELLING,
    Holding,
    Kept,
    Root,
    frames_of,
    holdings,
    kept,
    traceback_roots,
)
from neuron_lab.recording._load import CoreLoad, Meter, core_loads
from neuron_lab.recording._measured import is_measuring, measured
from neuron_lab.recording._recorder import Recorder
from neuron_lab.recording._recording import LAYERS, CorePeak, Recording
from neuron_lab.recording._sources import Source, line_of_error
from neuron_lab.recording._surroundings import Surroundings

__all__ = [
    "LARGEST_BYTES",
    "LAYERS",
    "WORTH_TELLING",
    "Compile",
    "Copy",
    "CopyTotal",
    "CoreLoad",
    "CorePeak",
    "Environment",
    "Fallback",
    "GraphCompile",
    "Held",
    "Holding",
    "Kept",
    "LinePeak",
    "MemoryChange",
    "MemoryLog",
    "MemoryPeak",
    "Meter",
    "OpCall",
    "OpTotal",
    "OutOfMemory",
    "Recorder",
    "Recording",
    "Root",
    "Source",
    "Surroundings",
    "Where",
    "WideTotal",
    "core_loads",
    "dumps",
    "environment",
    "frames_of",
    "holdings",
    "is_measuring",
    "kept",
    "line_of_error",
    "loads",
    "measured",
    "traceback_roots",
    "uncollected",
]
