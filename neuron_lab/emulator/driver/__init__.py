"""The pretended chip: how many cores a program sees and how much HBM each has. Knows nothing of torch."""

from __future__ import annotations

from ._chip import Chip, chip, visible_cores

__all__ = ["Chip", "chip", "visible_cores"]
