"""The NEFF file format: read any NEFF, real or emulated, write emulated ones, list a cache directory.

No torch here, and nothing is ever unpacked to disk.
"""

from __future__ import annotations

from neuron_lab.neff._directory import CachedFile, path_of, scan
from neuron_lab.neff._errors import NeffFormatError
from neuron_lab.neff._header import HEADER_SIZE, Header
from neuron_lab.neff._reader import Limits, Member, Neff, parse, read, read_header
from neuron_lab.neff._writer import pack

__all__ = [
    "HEADER_SIZE",
    "CachedFile",
    "Header",
    "Limits",
    "Member",
    "Neff",
    "NeffFormatError",
    "pack",
    "parse",
    "path_of",
    "read",
    "read_header",
    "scan",
]
