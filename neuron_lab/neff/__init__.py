"""The NEFF file format: read any NEFF, real or emulated, write emulated ones, list a cache directory.

No torch here, and nothing is ever unpacked to disk.
"""

from __future__ import annotations

from neuron_lab.neff._account import Account, Memory, Port, account, describe
from neuron_lab.neff._directory import TEMPORARY, CachedFile, path_of, remove, scan, unfinished
from neuron_lab.neff._errors import NeffFormatError
from neuron_lab.neff._header import HEADER_SIZE, Header
from neuron_lab.neff._reader import Limits, Member, Neff, parse, read, read_header, read_member
from neuron_lab.neff._writer import pack

__all__ = [
    "HEADER_SIZE",
    "TEMPORARY",
    "Account",
    "CachedFile",
    "Header",
    "Limits",
    "Member",
    "Memory",
    "Neff",
    "NeffFormatError",
    "Port",
    "account",
    "describe",
    "pack",
    "parse",
    "path_of",
    "read",
    "read_header",
    "read_member",
    "remove",
    "scan",
    "unfinished",
]
