"""The split and the memory of a report as a matplotlib figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuron_lab.render import _words
from neuron_lab.render._format import binary_size, duration
from neuron_lab.render._style import PART_COLORS
from neuron_lab.report import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def report_figure(report: Report) -> Figure:
    """Two panels: where the wall time went, and HBM of each core that was used. Nothing of pyplot's state is touched."""
    from matplotlib.figure import Figure

    cores = [core for core in report.recording.memory if core.peak]
    heights = [1.0, 0.4 + 0.3 * len(cores)] if cores else [1.0]
    figure = Figure(figsize=(9, 1.8 + sum(heights)), layout="constrained")
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    _split(axes[0], report)
    figure.legend(loc="outside lower left", ncols=4, frameon=False, fontsize="small")
    if cores:
        _memory(axes[1], report)
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


def _memory(axes: Axes, report: Report) -> None:
    cores = [core for core in report.recording.memory if core.peak]
    for place, core in enumerate(cores):
        axes.barh(place, core.peak, color=PART_COLORS["rest"], height=0.6)
        axes.barh(place, core.used, color=PART_COLORS["device"], height=0.6)
        text = f" {binary_size(core.used)} held at the end, peak {binary_size(core.peak)} of {binary_size(core.limit)}"
        axes.text(core.peak, place, text, va="center", fontsize="small")
    axes.set_yticks(range(len(cores)), [f"neuron:{core.core}" for core in cores])
    axes.xaxis.set_major_formatter(lambda value, _: binary_size(int(value)))
    axes.set_xlabel("HBM")
    axes.set_xlim(0, 2 * max(core.peak for core in cores))  # room for the words
