"""The device's state as text and HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from neuron_lab.device import CoreMemory, Description, IgnoredVariable
from neuron_lab.render._format import WIDTH, count, cut, plural, ranges, shorten, size, wrapped
from neuron_lab.render._style import STYLE
from neuron_lab.report import binary_size

_VALUE_WIDTH = 86
_CORES = 16


def status_text(device: Description, versions: Mapping[str, str], ignored: Sequence[IgnoredVariable] | None) -> str:
    """Aligned lines, 100 columns at most."""
    pairs = [*_pairs(device, versions), *_warnings(ignored)]
    width = max(len(name) for name, _ in pairs)
    lines = [
        (name if index == 0 else "", line) for name, value in pairs for index, line in enumerate(value.split("\n"))
    ]
    return "\n".join(cut(f"{name:<{width}}  {line}", WIDTH) for name, line in lines)


def status_html(device: Description, versions: Mapping[str, str], ignored: Sequence[IgnoredVariable] | None) -> str:
    """A two-column table, the variables that do nothing last."""
    rows = [_row(name, value, "") for name, value in _pairs(device, versions)]
    rows += [_row(name, value, ' class="nrn-cpu"') for name, value in _warnings(ignored)]
    return f'<div class="nrn">{STYLE}<div class="nrn-scroll"><table class="nrn-t"><tbody>{"".join(rows)}</tbody></table></div></div>'


def _row(name: str, value: str, mark: str) -> str:
    lines = escape(value).replace("\n", "<br>")
    return f'<tr{mark}><th class="nrn-name" scope="row">{escape(name)}</th><td class="nrn-left">{lines}</td></tr>'


def _pairs(device: Description, versions: Mapping[str, str]) -> list[tuple[str, str]]:
    info = device.info
    pairs = [("device", info.name), ("chosen", info.why), ("cores", str(info.core_count))]
    used = [(index, core) for index, core in enumerate(device.cores) if core.peak]
    pairs += [(f"neuron:{index}", _memory(core)) for index, core in used[:_CORES]]
    if len(used) > _CORES:
        pairs.append(("…", f"{len(used) - _CORES} more cores in use"))
    unused = [index for index, core in enumerate(device.cores) if not core.peak]
    if unused:
        pairs.append((f"neuron:{ranges(unused)}", f"unused, HBM {binary_size(device.cores[unused[0]].limit)} each"))
    if device.cache is not None:
        cache = device.cache
        hits = (
            f"{count(cache.hits_memory)} hits in memory, {count(cache.hits_disk)} on disk, {count(cache.misses)} misses"
        )
        pairs.append(
            (
                "NEFF cache",
                f"{cache.directory}\n{plural(cache.entries, 'NEFF')}, {size(cache.bytes)} · this process: {hits}",
            )
        )
    pairs.append(
        (
            "versions",
            "\n".join(wrapped([f"{name} {version}" for name, version in versions.items()], " · ", _VALUE_WIDTH)),
        )
    )
    return pairs


def _memory(core: CoreMemory) -> str:
    return f"HBM {binary_size(core.used)} of {binary_size(core.limit)} used, peak {binary_size(core.peak)}"


def _warnings(ignored: Sequence[IgnoredVariable] | None) -> list[tuple[str, str]]:
    return [
        (
            "not read",
            "\n".join(filter(None, [f"{item.name}={shorten(item.value, 40)} is set and changes nothing", item.hint])),
        )
        for item in ignored or ()
    ]
