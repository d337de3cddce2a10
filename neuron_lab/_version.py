"""The one place the version lives."""

from __future__ import annotations

__version__ = "0.1.0"
