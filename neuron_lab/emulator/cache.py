"""Emulated NEFFs on disk, shared by every process of one user.

A file is complete or absent (written aside, then renamed), is believed only when it belongs to this user and its
hash is right (it holds machine code), and is removed when it is damaged.  Nothing here fails a program: a directory
that cannot be written leaves the process with what it compiled in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from neuron_lab import neff
from neuron_lab.emulator._fingerprint import fingerprint, versions
from neuron_lab.emulator._stored import BUILD_VERSION, Port, StoredNeff, from_file, to_bytes
from neuron_lab.emulator.compiler import Tier

__all__ = [
    "CacheStats",
    "NeffStore",
    "Port",
    "StoredNeff",
    "default_root",
    "fingerprint",
    "key_of",
    "location",
    "versions",
]

_log = logging.getLogger(__name__)

DEFAULT_LIMIT = 2 << 30
_KEEP = 0.8  # eviction goes down to 80 % of the limit, as in TorchNeuron's in-memory cache
_DIRECTORY = "TORCH_NEURONX_NEFF_CACHE_DIR"
_DISABLED = ("TORCH_NEURONX_NEFF_DISABLE_CACHE", "TORCH_NEURONX_DISABLE_NEFF_CACHE")


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What this process did with the directory, in files; `written` in bytes."""

    hits: int
    misses: int
    writes: int
    written: int
    healed: int
    """Damaged files removed."""
    refused: int
    """Files of another owner, or writable by others: never loaded."""
    evicted: int


def location(environ: Mapping[str, str] = os.environ) -> tuple[Path | None, str]:
    """The directory the environment asks for, None when it disables persistence, and the variable that chose it, "" for none.

    TORCH_NEURONX_NEFF_CACHE_DIR, else `neff` in the user's cache directory.  Either of TorchNeuron's two variables
    for switching the cache off is obeyed.
    """
    for name in _DISABLED:
        if environ.get(name) == "1":
            return None, name
    if chosen := environ.get(_DIRECTORY):
        return Path(chosen), _DIRECTORY
    import platformdirs

    return Path(platformdirs.user_cache_dir("neuron_lab", appauthor=False)) / "neff", ""


def default_root() -> Path | None:
    """The directory of `location`."""
    return location()[0]


def key_of(signature: str, tier: Tier = Tier.EAGER) -> str:
    """The 32 hex digits under which the NEFF for this signature is kept: it covers `fingerprint()` too."""
    text = "\0".join((fingerprint(), tier, signature))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class NeffStore:
    """A directory of emulated NEFFs, at most `limit` bytes of them; with root None it stores nothing.

    Any number of threads and processes may use one directory.
    """

    def __init__(self, root: Path | None, *, limit: int = DEFAULT_LIMIT) -> None:
        self.root = root
        self.limit = limit
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._writable = root is not None
        self._grown = 0
        self._pruner: threading.Thread | None = None

    def get(self, key: str) -> StoredNeff | None:
        """The NEFF with this key, or None.  A damaged file is removed and counts as absent."""
        if self.root is None:
            return None
        path = neff.path_of(self.root, key)
        try:
            found = self._read(path, key)
        except FileNotFoundError:
            found = None
        except OSError as error:
            _log.info("emulated NEFF %s cannot be read and is compiled again: %s", path, error)
            found = None
        self._count("misses" if found is None else "hits")
        return found

    def _read(self, path: Path, key: str) -> StoredNeff | None:
        with open(path, "rb", opener=_open_plainly) as file:
            if not _trusted(os.fstat(file.fileno())):
                self._count("refused")
                _log.info("emulated NEFF %s is not a file that only this user can write: not loaded", path)
                return None
            try:
                stored = from_file(file, key)
            except neff.NeffFormatError as error:
                self._heal(path, str(error))
                return None
            with contextlib.suppress(OSError):  # a read-only directory keeps no order of use
                os.utime(file.fileno())
            return stored

    def _heal(self, path: Path, reason: str) -> None:
        self._count("healed")
        _log.info("emulated NEFF %s is removed and compiled again: %s", path, reason)
        with contextlib.suppress(OSError):
            path.unlink()

    def discard(self, key: str) -> None:
        """Remove a NEFF whose executable turned out not to load."""
        if self.root is not None:
            self._heal(neff.path_of(self.root, key), "its executable does not load")

    def put(self, key: str, stored: StoredNeff) -> bool:
        """Keep a NEFF; False when the directory cannot be written, which is logged once as a warning."""
        if self.root is None or not self._writable:
            return False
        path = neff.path_of(self.root, key)
        data = to_bytes(key, stored)
        try:
            for folder in (self.root, path.parent.parent, path.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_whole(self.root, path, data)
        except OSError as error:
            self._writable = False
            _log.warning(
                "emulated NEFFs cannot be stored in %s (%s): this process keeps what it compiles in memory only. "
                "Free the disk, or set TORCH_NEURONX_NEFF_CACHE_DIR to a writable directory.",
                self.root,
                error,
            )
            return False
        self._count("writes")
        self._count("written", len(data))
        self._grow(key, len(data))
        return True

    def _grow(self, key: str, size: int) -> None:
        """Start pruning in the background now and then.

        Keys are hashes, so every 256th new NEFF of all processes together begins with "00": no process needs to
        know how much the others have written.
        """
        with self._lock:
            self._grown += size
            busy = self._pruner is not None and self._pruner.is_alive()
            if busy or (self._grown <= self.limit // 16 and not key.startswith("00")):
                return
            self._grown = 0
            self._pruner = threading.Thread(target=self.prune, name="neuron_lab-prune", daemon=True)
            self._pruner.start()

    def entries(self) -> list[neff.CachedFile]:
        """Every NEFF file in the directory, most recently used first."""
        if self.root is None:
            return []
        return sorted(neff.scan(self.root), key=lambda file: (-file.used, file.key))

    def prune(self, limit: int | None = None) -> int:
        """Remove the least recently used emulated NEFFs once the directory exceeds `limit` bytes; gives their number.

        Real NEFFs in the same directory are left alone.
        """
        if self.root is None:
            return 0
        for file in neff.unfinished(self.root):
            neff.remove(file)
        limit = self.limit if limit is None else limit
        files = self.entries()
        excess = sum(file.size for file in files) - limit
        if excess <= 0:
            return 0
        excess += int(limit * (1 - _KEEP))
        removed = 0
        for file in reversed(files):
            if excess <= 0:
                break
            if _remove(file):
                removed += 1
                excess -= file.size
        self._count("evicted", removed)
        return removed

    def clear(self) -> int:
        """Remove every emulated NEFF of the directory; gives their number.  Real NEFFs are left alone."""
        return sum(_remove(file) for file in self.entries())

    def stats(self) -> CacheStats:
        """Counts since this object was made."""
        with self._lock:
            return CacheStats(**{name: self._counts[name] for name in CacheStats.__slots__})

    def _count(self, name: str, by: int = 1) -> None:
        with self._lock:
            self._counts[name] += by


def _open_plainly(path: str, flags: int) -> int:
    # A link or a FIFO under the name of a NEFF must neither be followed nor hold the program.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _trusted(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _write_whole(root: Path, path: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=neff.TEMPORARY, dir=root)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _remove(file: neff.CachedFile) -> bool:
    try:
        if not file.header().build_version.startswith(BUILD_VERSION):
            return False
    except neff.NeffFormatError:
        pass  # what has no header is nobody's NEFF
    except OSError:
        return False
    return neff.remove(file)
