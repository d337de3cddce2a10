"""The `%neuron` command of IPython and Jupyter: parse, call the library, display."""

from __future__ import annotations

from neuron_magics._hooks import load, unload

__all__ = ["load", "unload"]
