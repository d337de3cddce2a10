"""What the cores do now, as text and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from neuron_lab.device import DeviceInfo
from neuron_lab.recording import CoreLoad
from neuron_lab.render._format import WIDTH, duration, ranges, wrapped
from neuron_lab.render._style import STYLE
from neuron_lab.report import binary_size

_INDENT = 13


def top_text(info: DeviceInfo, span_ns: int | None, cores: Sequence[CoreLoad]) -> str:
    """Aligned lines: cores that were used with what they hold, then the others."""
    lines = [top_headline(info, span_ns, cores)]
    for core in _used(cores):
        lines.append(f"neuron:{core.core:<3} busy {_busy(core):>6}   {_memory(core)}")
        lines += [f"{'':<{_INDENT}}{line}" for line in wrapped(_kinds(core), " · ", WIDTH - _INDENT)]
    unused = top_unused(cores)
    return "\n".join([*lines, unused] if unused else lines)


def top_html(info: DeviceInfo, span_ns: int | None, cores: Sequence[CoreLoad]) -> str:
    """The same as a table."""
    rows = "".join(
        f'<tr><th class="nrn-name" scope="row">neuron:{core.core}</th><td>{_busy(core)}</td>'
        f'<td class="nrn-left">{_memory(core)}</td><td class="nrn-left">{escape(" · ".join(_kinds(core)))}</td></tr>'
        for core in _used(cores)
    )
    head = (
        '<thead><tr><th class="nrn-name" scope="col">core</th><th scope="col">busy</th>'
        '<th class="nrn-left" scope="col">HBM</th><th class="nrn-left" scope="col">by category</th></tr></thead>'
    )
    table = f'<div class="nrn-scroll"><table class="nrn-t">{head}<tbody>{rows}</tbody></table></div>' if rows else ""
    foot = f'<div class="nrn-soft">{escape(top_unused(cores))}</div>'
    return f'<div class="nrn">{STYLE}<div>{escape(top_headline(info, span_ns, cores))}</div>{table}{foot}</div>'


def top_headline(info: DeviceInfo, span_ns: int | None, cores: Sequence[CoreLoad]) -> str:
    """The device, and which time `busy` is about."""
    parts = [info.name, *(["emulated, not Trainium"] if info.kind == "emulator" else [])]
    if span_ns is not None:
        parts.append(f"busy in the last {duration(span_ns)}")
    elif info.kind == "emulator" and cores:
        parts.append("busy is counted from now on: look again")
    elif cores:
        parts.append("this device does not tell how busy it is")
    return " · ".join(parts)


def top_unused(cores: Sequence[CoreLoad]) -> str:
    """The cores that nothing was done with, "" when there are none."""
    used = {core.core for core in _used(cores)}
    unused = [core.core for core in cores if core.core not in used]
    if not unused:
        return "" if cores else "no core"
    return f"neuron:{ranges(unused)} unused, HBM {binary_size(cores[unused[0]].memory.limit)} each"


def _used(cores: Sequence[CoreLoad]) -> list[CoreLoad]:
    return [core for core in cores if core.memory.peak or core.busy]


def _busy(core: CoreLoad) -> str:
    return "–" if core.busy is None else f"{100 * core.busy:.1f} %"


def _memory(core: CoreLoad) -> str:
    memory = core.memory
    return f"HBM {binary_size(memory.used)} of {binary_size(memory.limit)}, peak {binary_size(memory.peak)}"


def _kinds(core: CoreLoad) -> list[str]:
    return [f"{kind} {binary_size(size)}" for kind, size in core.kinds]
