"""Eager against compiled: what was measured, and from which call on compiling pays."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import NormalDist, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class TrialSide:
    """One way to run the program. Times in nanoseconds, sizes in bytes.

    `cold_ns` is a first call, with an empty NEFF cache, the median of `cold_runs`; `compile_ns` the part of it that made `made`
    NEFFs. `warm_ns` are synchronised calls, one a round. `neffs` are used by a warm call, `peak_bytes` is the highest HBM during one.
    """

    name: str
    cold_ns: int
    cold_runs: int
    compile_ns: int
    made: int
    neffs: int
    warm_ns: tuple[int, ...]
    peak_bytes: int

    def quantile_ns(self, part: float) -> float:
        """The latency that `part` of the warm calls do not exceed, interpolated."""
        return _quantile(sorted(self.warm_ns), part)


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """Where Dynamo had to leave the graph, and why."""

    reason: str
    where: str


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """One tensor of the result: the largest difference, in units of the tensor and as a part of the eager value."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    max_abs: float
    max_rel: float


@dataclass(frozen=True, slots=True)
class Trial:
    """Everything one comparison measured.

    `reload_ns` is the first compiled call when its NEFFs are already on disk, the median of several. `batches` tells how many of the
    rounds, in their order, followed each other. Times are as without other work on the machine, which made the warm calls `slowness`
    times as long (median); None: they are as measured.
    """

    label: str
    device: str
    emulated: bool
    eager: TrialSide
    compiled: TrialSide
    batches: tuple[int, ...]
    reload_ns: int
    slowness: float | None
    graphs: int
    breaks: tuple[GraphBreak, ...]
    outputs: tuple[OutputDifference, ...]

    @property
    def price_ns(self) -> int:
        """What the first compiled call costs beyond a warm one."""
        return max(0, self.compiled.cold_ns - round(median(self.compiled.warm_ns)))

    @property
    def saving_ns(self) -> tuple[float, float, float]:
        """What a warm call saves: median over the rounds, and the bounds of its 95 % interval.

        The two calls of a round are subtracted, so a drift of the machine hits both alike. The bounds are order statistics of the
        batches' medians: what slows the machine for a moment hits all calls of a batch, which say no more than one does.
        """
        pairs = zip(self.eager.warm_ns, self.compiled.warm_ns, strict=True)
        savings = [eager - compiled for eager, compiled in pairs]
        ends = itertools.accumulate(self.batches)
        medians = sorted(median(savings[end - size : end]) for size, end in zip(self.batches, ends, strict=True))
        half = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2) * math.sqrt(len(medians)) / 2
        low = max(0, math.floor(len(medians) / 2 - half))
        return median(savings), medians[low], medians[len(medians) - 1 - low]

    @property
    def break_even(self) -> tuple[int, int, int | None] | None:
        """Calls after which compiling has paid against an eager program that is warm: best guess, fewest, most.

        None when a compiled call is not faster; `most` is None when the noise allows that it is not.
        """
        middle, low, high = self.saving_ns
        if middle <= 0:
            return None
        most = math.ceil(self.price_ns / low) if low > 0 else None
        return math.ceil(self.price_ns / middle), math.ceil(self.price_ns / high), most


def trial_frame(trial: Trial) -> pd.DataFrame:
    """One row a side, times in seconds and latencies in milliseconds."""
    import pandas as pd

    rows = [
        {
            "side": side.name,
            "cold_s": side.cold_ns / 1e9,
            "cold_n": side.cold_runs,
            "compile_s": side.compile_ns / 1e9,
            "neffs_made": side.made,
            "neffs": side.neffs,
            "median_ms": side.quantile_ns(0.5) / 1e6,
            "p10_ms": side.quantile_ns(0.1) / 1e6,
            "p90_ms": side.quantile_ns(0.9) / 1e6,
            "n": len(side.warm_ns),
            "peak_bytes": side.peak_bytes,
        }
        for side in (trial.eager, trial.compiled)
    ]
    return pd.DataFrame(rows)


def trial_outputs_frame(trial: Trial) -> pd.DataFrame:
    """One row a tensor of the result."""
    import pandas as pd

    names = [item.name for item in fields(OutputDifference)]
    return pd.DataFrame([[getattr(row, name) for name in names] for row in trial.outputs], columns=names)


def trial_breaks_frame(trial: Trial) -> pd.DataFrame:
    """One row a graph break."""
    import pandas as pd

    return pd.DataFrame([(item.reason, item.where) for item in trial.breaks], columns=["reason", "where"])


def _quantile(ordered: Sequence[int], part: float) -> float:
    place = part * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
