"""The NEFF cache: what is in it, and cleaning it up while others use it."""

from __future__ import annotations

import functools
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuron_lab import device, neff, render
from neuron_lab._quantities import bytes_of, seconds_of
from neuron_lab.device import CacheLocation
from neuron_lab.errors import UsageProblem
from neuron_lab.report import NEFF_SORTS, CacheChange, NeffEntry, dispensable, in_order, neffs_frame

if TYPE_CHECKING:
    import pandas as pd

_LARGEST_DESCRIPTION = 8 << 20
_SIGNATURE = 2000


@dataclass(frozen=True, slots=True)
class CacheCleaning:
    """What `prune` or `clear` did. In a notebook it displays as a sentence; `change` has the numbers."""

    change: CacheChange

    def to_text(self) -> str:
        """The sentence, 100 columns at most."""
        return render.change_text(self.change)

    def to_html(self) -> str:
        """The same as one self-contained HTML fragment."""
        return render.change_html(self.change)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.to_text(), "text/html": self.to_html()}


@dataclass(frozen=True, slots=True)
class NeffCache:
    """The NEFFs on disk and in this process's memory, as they were at one moment. In a notebook it displays as a table."""

    location: CacheLocation
    entries: tuple[NeffEntry, ...]
    top: int
    at: float
    """When it was looked at, in seconds since the epoch."""

    @property
    def frame(self) -> pd.DataFrame:
        """One row a NEFF, all of them: bytes of the file, `used` in UTC, `compile_s` for trace, lower and compile, `hits` in this process;
        missing where something is not known."""
        return neffs_frame(self.entries)

    def prune(
        self, *, older_than: str | float | None = None, keep: str | int | None = None, dry_run: bool = False
    ) -> CacheCleaning:
        """Delete NEFF files that were not used for `older_than` ("7d", or seconds), then the least recently used beyond `keep` ("2GB",
        or bytes), of the device's own kind.

        Programs that run are not disturbed: what they have loaded stays with them. Files that were used since this listing was made
        are left.

        dry_run: delete nothing, tell what would go. Raises UsageProblem for values that make no sense, or when both are missing.
        """
        if older_than is None and keep is None:
            raise UsageProblem(
                "prune what? older_than='7d' for what was not used for a week, keep='2GB' for the rest beyond a size"
            )
        age = seconds_of(older_than) if isinstance(older_than, str) else older_than
        size = bytes_of(keep) if isinstance(keep, str) else keep
        for name, value in (("older_than", age), ("keep", size)):
            if value is not None and not value >= 0:
                raise UsageProblem(f"{name} must be 0 or more, it is {value}")
        return self._remove(dispensable(self._own(), now=self.at, older_than=age, keep=size), dry_run, forget=False)

    def clear(self, *, dry_run: bool = False) -> CacheCleaning:
        """Delete every NEFF file, and let this process forget those in its memory: the next call of each op compiles again.

        Graphs of torch.compile that are loaded stay so. Files of the other kind of device (real ones, while the emulator serves) are
        left, and those that were used since this listing was made. dry_run: delete nothing, tell what would go.
        """
        return self._remove(tuple(row for row in self._own() if row.bytes is not None), dry_run, forget=True)

    def _own(self) -> list[NeffEntry]:
        """Of the device's kind; what cannot be read is nobody's and goes too."""
        return [row for row in self.entries if row.problem or row.emulated == self.location.emulated]

    def _remove(self, chosen: tuple[NeffEntry, ...], dry_run: bool, *, forget: bool) -> CacheCleaning:
        root = self.location.root
        leftovers = neff.unfinished(root) if root is not None else []
        gone = chosen if dry_run else tuple(row for row in chosen if root is not None and neff.remove(_file(root, row)))
        emptied = leftovers if dry_run else [file for file in leftovers if neff.remove(file)]
        own = [row for row in self._own() if row.bytes is not None]
        freed = sum(row.bytes or 0 for row in gone)
        return CacheCleaning(
            CacheChange(
                directory=str(self.location),
                removed=gone,
                freed=freed + sum(file.size for file in emptied),
                left=len(own) - len(gone),
                left_bytes=sum(row.bytes or 0 for row in own) - freed,
                skipped=len(chosen) - len(gone),
                others=sum(row.bytes is not None for row in self.entries) - len(own),
                forgotten=device.forget_neffs(dry_run=dry_run) if forget else None,
                dry_run=dry_run,
            )
        )

    def to_text(self) -> str:
        """The table as text, 100 columns at most."""
        return render.cache_text(str(self.location), self.entries, self.top, self.at)

    def to_html(self) -> str:
        """The table as one self-contained HTML fragment."""
        return render.cache_html(str(self.location), self.entries, self.top, self.at)

    def __repr__(self) -> str:
        return f"<NEFF cache: {self.location}, {len(self.entries)} NEFFs>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.to_text(), "text/html": self.to_html()}


def cache(*, sort: str = "used", top: int = 20) -> NeffCache:
    """Look at the NEFF cache now: every NEFF file of the directory in force, and what is only in this process's memory.

    sort: "used" (the newest first), "size", "compile", "hits" or "op". top: rows of the table; `.frame` has all.

        neuron_lab.cache().prune(older_than="7d", keep="2GB")
        neuron_lab.cache().clear()

    Raises UsageProblem for values that make no sense.
    """
    if sort not in NEFF_SORTS:
        raise UsageProblem(f"sort={sort!r} is none of {', '.join(NEFF_SORTS)}")
    if not isinstance(top, int) or top < 1:
        raise UsageProblem(f"top must be at least 1, not {top!r}")
    location = device.cache_location()
    loaded = {item.key: item for item in device.loaded_neffs()}
    found = [] if location.root is None else [_entry(file) for file in neff.scan(location.root)]
    files = [row for row in found if row is not None]
    rows = [replace(row, hits=loaded[row.key].hits) if row.key in loaded else row for row in files]
    for key in loaded.keys() - {row.key for row in files}:
        item = loaded[key]
        spent = item.made_ns / 1e9 if item.made_ns else None
        rows.append(NeffEntry(key, item.op, item.signature, location.emulated, None, None, spent, item.hits))
    return NeffCache(location, in_order(rows, sort), top, time.time())


def _entry(file: neff.CachedFile) -> NeffEntry | None:
    """None when another process removes the file at this moment."""
    try:
        header = file.header()
        told = _told(file.path, header)
    except FileNotFoundError:
        return None
    except (OSError, neff.NeffFormatError) as error:
        return NeffEntry(file.key, "", "", False, file.size, file.used, None, None, str(error))
    made = [part for part in (told.trace_s, told.lower_s, told.compile_s) if part is not None]
    made_s = sum(made) if made else None
    return NeffEntry(
        file.key, header.name, told.signature, told.emulated, file.size, file.used, made_s, None, place=told.place
    )


@functools.lru_cache(maxsize=1 << 14)
def _told(path: Path, header: neff.Header) -> neff.Account:
    """What a row needs of a file. The header tells it from one made again under its name."""
    _, content = neff.read_member(path, "neff.json", largest=_LARGEST_DESCRIPTION)
    try:
        told = json.loads(content) if content else {}
    except (ValueError, RecursionError):
        told = {}
    found = neff.describe(told if isinstance(told, dict) else {})
    signature = found.signature.partition("\n")[0]  # below it, a graph's text
    return replace(found, signature=signature[:_SIGNATURE])


def _file(root: Path, row: NeffEntry) -> neff.CachedFile:
    return neff.CachedFile(row.key, neff.path_of(root, row.key), row.bytes or 0, row.used or 0.0)
