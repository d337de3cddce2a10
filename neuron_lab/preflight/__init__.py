"""What a program would meet on Trainium, told before it gets there."""

from __future__ import annotations

from neuron_lab.preflight._support import SNAPSHOT, Status, support

__all__ = ["SNAPSHOT", "Status", "support"]
