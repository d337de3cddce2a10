"""One NEFF, opened: from the cache by the beginning of its key, or any file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuron_lab import _files, neff, render
from neuron_lab._cache import NeffCache, cache
from neuron_lab.errors import FileProblem, UsageProblem
from neuron_lab.report import NeffEntry

if TYPE_CHECKING:
    import pandas as pd

# What a person waits for: real NEFFs of large models have some hundred megabytes.
_LIMITS = neff.Limits(payload=2 << 30, expanded=2 << 30, members=50_000, kept=128 << 20)
_CANDIDATES = 6


@dataclass(frozen=True, slots=True)
class OpenedNeff:
    """A NEFF's header, members and what they tell. In a notebook it displays as a page; `.frame` lists the members."""

    path: Path
    content: neff.Neff
    account: neff.Account

    @property
    def header(self) -> neff.Header:
        """The 1,024 bytes before the payload, as fields."""
        return self.content.header

    @property
    def stablehlo(self) -> str:
        """The module it was compiled from. Raises UsageProblem for a NEFF that has none: real ones do not."""
        if self.account.stablehlo is None:
            raise UsageProblem(f"{self.path.name} has no StableHLO in it: only emulated NEFFs do")
        return self.account.stablehlo

    @property
    def frame(self) -> pd.DataFrame:
        """One row a member: name and bytes, in the order of the file."""
        import pandas as pd

        return pd.DataFrame([(member.name, member.size) for member in self.content.members], columns=["name", "bytes"])

    @property
    def tensors(self) -> pd.DataFrame:
        """One row an input or output: direction ("in", "out"), name, bytes, and where the file tells them dtype and shape."""
        import pandas as pd

        rows = [(port.direction, port.name, port.bytes, port.dtype, port.shape) for port in self.account.ports]
        return pd.DataFrame(rows, columns=["direction", "name", "bytes", "dtype", "shape"])

    def to_text(self) -> str:
        """The page as text, 100 columns and 40 lines at most."""
        return render.neff_text(self.path.name, self.content, self.account)

    def to_html(self) -> str:
        """The page as one self-contained HTML fragment."""
        return render.neff_html(self.path.name, self.content, self.account)

    def __repr__(self) -> str:
        return f"<NEFF {self.path.name}: {self.account.op}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.to_text(), "text/html": self.to_html()}


def open_neff(key: str | os.PathLike[str]) -> OpenedNeff:
    """Open a NEFF, real or emulated: `key` is the beginning of a key that `cache()` lists, or the path of a file.

    Nothing is unpacked to disk, and reading is bounded: 2 GiB, 50,000 members. Raises UsageProblem for a key that is unknown or
    begins several, FileProblem for a file that is no NEFF, is damaged or beyond the bounds.
    """
    text = os.fspath(key)
    is_path = not isinstance(key, str) or os.sep in text or "/" in text or text.endswith(".neff")
    path = _files.readable(text) if is_path else _in_cache(text)
    try:
        content = neff.read(path, limits=_LIMITS)
    except FileNotFoundError:
        raise FileProblem(f"cannot read {path}: another process has just removed it") from None
    except OSError as error:
        raise FileProblem(f"cannot read {path}: {error.strerror or error}") from None
    except neff.NeffFormatError as error:
        raise FileProblem(f"cannot open {path} as a NEFF: {error}") from None
    return OpenedNeff(path, content, neff.account(content))


def _in_cache(prefix: str) -> Path:
    listing = cache()
    found = [row for row in listing.entries if prefix and row.key.startswith(prefix.lower())]
    if len(found) != 1:
        raise UsageProblem(_not_one(prefix, found, listing))
    (row,) = found
    if row.bytes is None or listing.location.root is None:
        raise UsageProblem(
            f"{row.key[:8]} {row.op} is in this process's memory only: its file was cleared, or never written, so there is none to open"
        )
    return neff.path_of(listing.location.root, row.key)


def _not_one(prefix: str, found: list[NeffEntry], listing: NeffCache) -> str:
    rows = found or list(listing.entries)
    shown = ", ".join(f"{_telling(row.key, rows)} {row.op}".strip() for row in rows[:_CANDIDATES])
    more = f" and {len(rows) - _CANDIDATES} more" if len(rows) > _CANDIDATES else ""
    if found:
        return f"{prefix!r} begins {len(found)} keys: {shown}{more}"
    where = f"there are {shown}{more}" if rows else f"the cache is empty: {listing.location}"
    return f"no NEFF's key begins with {prefix!r}; {where}; a file needs its path, as in ./name.neff"


def _telling(key: str, rows: list[NeffEntry]) -> str:
    """As much of the key as tells it from the others, eight digits at least."""
    length = 8
    while length < len(key) and sum(row.key.startswith(key[:length]) for row in rows) > 1:
        length += 1
    return key[:length]
