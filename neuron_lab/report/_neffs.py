"""The NEFFs of a cache directory and of this process as rows: their order, and which of them a clean-up takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class NeffEntry:
    """One NEFF. `op` is an op or a graph; None where something is not known.

    `bytes` and `used` (seconds since the epoch) are of the file, None for a NEFF that is only in memory. `compile_s` is trace, lower
    and compile. `hits` are launches after the first, None for a NEFF that is not in this process's memory or is a graph. `problem`
    says why the file cannot be read. `place` is where the function is that a graph was first made of.
    """

    key: str
    op: str
    signature: str
    emulated: bool
    bytes: int | None
    used: float | None
    compile_s: float | None
    hits: int | None
    problem: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class CacheChange:
    """What a clean-up did, or with `dry_run` would do. Sizes in bytes.

    `skipped` were used meanwhile or may not be deleted, `others` belong to the other kind of device and were not looked at.
    `forgotten` NEFFs were also dropped from this process's memory, None when it was left alone.
    """

    directory: str
    removed: tuple[NeffEntry, ...]
    freed: int
    left: int
    left_bytes: int
    skipped: int
    others: int
    forgotten: int | None
    dry_run: bool


_ORDERS: dict[str, Callable[[NeffEntry], tuple[float, str]]] = {
    "used": lambda row: (-(row.used or 0.0), row.key),
    "size": lambda row: (-(row.bytes or 0), row.key),
    "compile": lambda row: (-(row.compile_s or 0.0), row.key),
    "hits": lambda row: (-(row.hits or 0), row.key),
    "op": lambda row: (0.0, f"{row.op} {row.signature} {row.key}"),
}
NEFF_SORTS = tuple(_ORDERS)


def in_order(rows: Iterable[NeffEntry], sort: str) -> tuple[NeffEntry, ...]:
    """The newest, largest, dearest, busiest first, or by op; `sort` is one of NEFF_SORTS."""
    return tuple(sorted(rows, key=_ORDERS[sort]))


def dispensable(
    rows: Iterable[NeffEntry], *, now: float, older_than: float | None, keep: int | None
) -> tuple[NeffEntry, ...]:
    """The files not used for `older_than` seconds, and beyond `keep` bytes the least recently used."""
    files = sorted((row for row in rows if row.bytes is not None), key=lambda row: (row.used or 0.0, row.key))
    left = sum(row.bytes or 0 for row in files)
    found = []
    for row in files:
        too_old = older_than is not None and now - (row.used or 0.0) > older_than
        if too_old or (keep is not None and left > keep):
            found.append(row)
            left -= row.bytes or 0
    return tuple(found)


def neffs_frame(rows: Sequence[NeffEntry]) -> pd.DataFrame:
    """One row a NEFF; `used` is a time in UTC."""
    import pandas as pd

    names = [item.name for item in fields(NeffEntry)]
    frame = pd.DataFrame([[getattr(row, name) for name in names] for row in rows], columns=names)
    frame["used"] = pd.to_datetime(frame["used"], unit="s", utc=True)
    return frame.astype({"bytes": "Int64", "hits": "Int64", "compile_s": "Float64"})
