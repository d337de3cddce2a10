"""The persistent cache's layout: `<root>/<k[0:2]>/<k[2:4]>/<k>.neff`, `k` being 32 hex digits."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from neuron_lab.neff._header import Header
from neuron_lab.neff._reader import read_header

TEMPORARY = ".tmp."
"""How the names of files begin that are still being written, in the cache's root."""
_KEY = re.compile(r"[0-9a-f]{32}")
_STALE_S = 3600.0


@dataclass(frozen=True, slots=True)
class CachedFile:
    """One NEFF in a cache directory: size in bytes, last use in seconds since the epoch."""

    key: str
    path: Path
    size: int
    used: float

    def header(self) -> Header:
        """Read the file's header; raises OSError or NeffFormatError."""
        return read_header(self.path)


def path_of(root: Path, key: str) -> Path:
    """Where the NEFF with this key is kept; raises ValueError unless `key` is 32 lower-case hex digits."""
    if not _KEY.fullmatch(key):
        msg = f"a NEFF cache key is 32 lower-case hex digits, not {key!r}"
        raise ValueError(msg)
    return root / key[:2] / key[2:4] / f"{key}.neff"


def scan(root: Path) -> Iterator[CachedFile]:
    """Every NEFF file in a cache directory, in no order; other files, links and unreadable folders are passed over."""
    for first in _folders(root):
        for second in _folders(first):
            for entry in _entries(second):
                key = entry.name.removesuffix(".neff")
                if key == entry.name or not _KEY.fullmatch(key):
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:  # removed meanwhile, or the folder may only be listed
                    continue
                if stat.S_ISREG(found.st_mode):
                    yield CachedFile(key, Path(entry.path), found.st_size, found.st_mtime)


def remove(file: CachedFile) -> bool:
    """Delete the file as it was found; False when another process has used, replaced or removed it since, or it may not be deleted."""
    try:
        now = file.path.lstat()
        if not stat.S_ISREG(now.st_mode) or (now.st_size, now.st_mtime) != (file.size, file.used):
            return False
        file.path.unlink()
    except OSError:
        return False
    return True


def unfinished(root: Path) -> list[CachedFile]:
    """What a process that died was writing: temporary files of an hour ago and more, in no order."""
    found = []
    for entry in _entries(root):
        if entry.name.startswith(TEMPORARY):
            with contextlib.suppress(OSError):  # another process finished or removed it
                state = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(state.st_mode) and time.time() - state.st_mtime > _STALE_S:
                    found.append(CachedFile(entry.name, Path(entry.path), state.st_size, state.st_mtime))
    return found


def _folders(root: Path) -> Iterator[Path]:
    for entry in _entries(root):
        if re.fullmatch(r"[0-9a-f]{2}", entry.name) and entry.is_dir(follow_symlinks=False):
            yield Path(entry.path)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            return list(listing)
    except OSError:  # it is not there, not readable, no directory, or a name that no file system takes
        return []
