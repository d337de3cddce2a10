"""HBM over time, its peak and what that was made of, as text and HTML."""

from __future__ import annotations

from html import escape

from neuron_lab.render._format import WIDTH, duration, plural, shorten, wrapped
from neuron_lab.render._style import PART_COLORS
from neuron_lab.report import Curve, Report, binary_size, named

_SPARK = "▁▂▃▄▅▆▇█"
_SPARK_WIDTH = 28
_CORES = 2
_CORES_HTML = 4
_PLACE = 30
_MADE_OF = "    made of "
_PLACE_HTML = 80
# Slices of the span that are drawn, and the units of the drawing's height.
_COLUMNS = 300
_HEIGHT = 40


def memory_lines(report: Report) -> list[str]:
    """The curve of each core with its peak, and below it what the peak was made of."""
    lines = []
    for curve in report.curves[:_CORES]:
        lines.append(shorten(f"HBM {_spark(curve)} {', '.join(peak_words(curve))}", WIDTH))
        made_of = [
            f"{binary_size(portion.bytes)} {shorten(name, _PLACE)}"
            for portion, name in named(curve.portions, report.place)
        ]
        parts = wrapped(made_of, " · ", WIDTH - len(_MADE_OF))
        lines += [f"{' ' * len(_MADE_OF) if index else _MADE_OF}{part}" for index, part in enumerate(parts)]
    if missing := _missing(report):
        lines.append(f"    {missing}")
    if len(report.curves) > _CORES:
        lines.append(f"… HBM of {plural(len(report.curves) - _CORES, 'more core')}, see .memory")
    return lines


def memory_section(report: Report) -> str:
    """The same with a drawing of each curve."""
    blocks = []
    for curve in report.curves[:_CORES_HTML]:
        peak, *more = peak_words(curve)
        words = f"{_key('compile')}<b>{escape(peak)}</b>" + "".join(f", {escape(text)}" for text in more)
        made_of = " · ".join(
            f'<span class="nrn-bit">{escape(binary_size(portion.bytes))} '
            f"{_code(escape(shorten(name, _PLACE_HTML))) if portion.where else escape(name)}</span>"
            for portion, name in named(curve.portions, report.place)
        )
        missing = f' <span class="nrn-soft">({_missing(report)})</span>' if _missing(report) else ""
        blocks.append(
            f'<div class="nrn-hbm"><div>HBM {words}{_refused(report, curve)}{missing}</div>{_drawing(report, curve)}'
            f'<div class="nrn-soft">at the peak: {made_of}</div></div>'
        )
    if len(report.curves) > _CORES_HTML:
        more_cores = plural(len(report.curves) - _CORES_HTML, "more core")
        blocks.append(f'<div class="nrn-soft">… HBM of {more_cores}, see <code>.memory</code></div>')
    return "".join(blocks)


def peak_words(curve: Curve) -> list[str]:
    """ "neuron:0 peak 41.2 MiB of 24 GiB at 310 ms", "3 MiB at the end"."""
    limit = f" of {binary_size(curve.limit)}" if curve.limit else ""
    when = f"at {duration(curve.peak_ns)}" if curve.peak_ns else "at the start"
    return [
        f"neuron:{curve.core} peak {binary_size(curve.peak)}{limit} {when}",
        f"{binary_size(curve.used)} at the end",
    ]


def _code(text: str) -> str:
    return f'<span class="nrn-code">{text}</span>'


def _key(color: str) -> str:
    """What a line in the drawing means stands beside its colour."""
    return f'<span class="nrn-key" style="background:{PART_COLORS[color]}"></span>'


def _refused(report: Report, curve: Curve) -> str:
    ooms = [oom for oom in report.recording.memory_log.ooms if oom.core == curve.core]
    if not ooms:
        return ""
    when = duration(max(0, ooms[-1].at_ns - report.recording.start_ns))
    return f" \N{EN SPACE}{_key('fallback')}no room for {escape(binary_size(ooms[-1].asked))} more at {escape(when)}"


def _missing(report: Report) -> str:
    dropped = report.recording.memory_log.dropped
    return f"{plural(dropped, 'older change')} not drawn" if dropped else ""


def _spark(curve: Curve) -> str:
    """Dots where nothing is known."""
    top, unknown = max(1, curve.peak), curve.unknown(_SPARK_WIDTH)
    known = curve.columns(_SPARK_WIDTH)[unknown:]
    return "·" * unknown + "".join(_SPARK[min(len(_SPARK) - 1, max(0, high * len(_SPARK) // top))] for _, high in known)


def _drawing(report: Report, curve: Curve) -> str:
    """Light up to the highest use in each slice of time, full up to the lowest, and lines at the peak and at what did not fit."""
    columns = curve.columns(_COLUMNS)
    color = PART_COLORS["device"]
    label = escape(f"HBM of neuron:{curve.core} over time, {', '.join(peak_words(curve))}")
    marks = _mark(_at(curve.peak_ns, curve.wall_ns), PART_COLORS["compile"])
    for oom in report.recording.memory_log.ooms:
        if oom.core == curve.core:
            marks += _mark(_at(oom.at_ns - report.recording.start_ns, curve.wall_ns), PART_COLORS["fallback"])
    return (
        f'<svg class="nrn-curve" viewBox="0 0 {_COLUMNS} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f'<path d="{_area([high for _, high in columns], curve.peak)}" fill="{color}" fill-opacity=".35"/>'
        f'<path d="{_area([low for low, _ in columns], curve.peak)}" fill="{color}" fill-opacity=".55"/>{marks}</svg>'
        f'<div class="nrn-axis"><span>0</span><span>{escape(duration(curve.wall_ns))}</span></div>'
    )


def _at(ns: int, wall_ns: int) -> int:
    return min(_COLUMNS, max(0, ns * _COLUMNS // max(1, wall_ns)))


def _mark(column: int, color: str) -> str:
    return f'<path d="M{column} 0V{_HEIGHT}" stroke="{color}" stroke-width="1.5" vector-effect="non-scaling-stroke"/>'


def _area(levels: list[int], top: int) -> str:
    """A path of steps; equal neighbours are one step."""
    path, previous = [f"M0 {_HEIGHT}"], -1.0
    for column, level in enumerate(levels):
        height = round(_HEIGHT * (1 - min(1.0, max(0.0, level / max(1, top)))), 1)
        if height != previous:
            path.append(f"H{column}V{height:g}")
            previous = height
    return "".join([*path, f"H{len(levels)}V{_HEIGHT}Z"])
