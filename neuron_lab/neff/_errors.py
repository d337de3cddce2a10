from __future__ import annotations

from neuron_lab.errors import NeuronLabError


class NeffFormatError(NeuronLabError, ValueError):
    """Raised when bytes are not a NEFF, are damaged, or exceed the limits of the reader; the message says which."""
