"""The split and the memory of a report as a matplotlib figure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from neuron_lab.render import _words
from neuron_lab.render._curve import peak_words
from neuron_lab.render._format import duration
from neuron_lab.render._style import PART_COLORS
from neuron_lab.report import Curve, Report, binary_size, named

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CORES = 4
_COLUMNS = 1000


def report_figure(report: Report) -> Figure:
    """The split, and below it HBM over time of each core that used some. Nothing of pyplot's state is touched."""
    from neuron_lab.render._shown_figure import Figure

    curves = report.curves[:_CORES]
    heights = [1.0, *(1.2 for _ in curves)]
    figure = Figure(figsize=(9, 1.8 + 1.2 * sum(heights[1:]) + 1), layout="constrained")
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    _split(axes[0], report)
    figure.legend(loc="outside lower left", ncols=4, frameon=False, fontsize="small")
    for panel, curve in zip(axes[1:], curves, strict=True):
        _memory(panel, report, curve)
    return figure


def _split(axes: Axes, report: Report) -> None:
    left = 0.0
    for part in report.split.parts:
        if part.ns:
            label = f"{_words.PART_LABELS[part.name]} {duration(part.ns)}"
            axes.barh(0, part.ns / 1e6, left=left, color=PART_COLORS[part.name], label=label)
            left += part.ns / 1e6
    label = f"{report.summary.label} · " if report.summary.label else ""
    emulated = ", not Trainium" if report.summary.emulated else ""
    axes.set_title(f"{label}{report.summary.device}{emulated} · {duration(report.recording.wall_ns)}", loc="left")
    axes.set_xlabel("ms of wall time")
    axes.set_yticks([])
    if left:
        axes.set_xlim(0, left)


def _memory(axes: Axes, report: Report, curve: Curve) -> None:
    """Steps, light up to the highest use in each slice of time and full up to the lowest; the peak is marked."""
    from matplotlib.ticker import MultipleLocator

    columns = curve.columns(_COLUMNS)
    wall = curve.wall_ns / 1e6
    times = [wall * index / _COLUMNS for index in range(_COLUMNS + 1)]
    unknown = curve.unknown(_COLUMNS)
    for level, opacity in ((1, 0.35), (0, 0.55)):
        values = [math.nan] * unknown + [float(column[level]) for column in columns[unknown:]]
        axes.fill_between(
            times, [*values, values[-1]], step="post", alpha=opacity, color=PART_COLORS["device"], linewidth=0
        )
    axes.plot([curve.peak_ns / 1e6], [curve.peak], "o", color=PART_COLORS["compile"])
    made_of = [f"{binary_size(portion.bytes)} {name}" for portion, name in named(curve.portions, report.place)]
    axes.set_title(f"HBM {', '.join(peak_words(curve))}\n{' · '.join(made_of)}", loc="left", fontsize="small")
    axes.yaxis.set_major_locator(MultipleLocator(1 << max(0, curve.peak.bit_length() - 2)))
    axes.yaxis.set_major_formatter(lambda value, _: binary_size(int(value)))
    axes.set_xlabel("ms")
    axes.set_ylim(0, 1.1 * max(1, curve.peak))
    if wall:
        axes.set_xlim(0, wall)
