"""One NEFF as text and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from textwrap import wrap

from neuron_lab.neff import HEADER_SIZE, Account, Header, Memory, Neff, Port
from neuron_lab.render._format import WIDTH, count, cut, duration, plural, printable, shorten, size
from neuron_lab.render._grid import grid_html
from neuron_lab.render._style import STYLE
from neuron_lab.report import three_digits

_LABEL = 11
_PORTS = 4
_MEMBERS = 8
_MEMBERS_HTML = 60
_LINES = 40
_MODULE = 8
_MODULE_HTML = 24_000
_LINE_HTML = 300
_NAME_HTML = 80
_VALUE = 300
_DIGITS = 32  # of a hash; an MD5 has no more
_UNITS = ("", "k", "M", "G", "T", "P")


def neff_text(name: str, content: Neff, account: Account) -> str:
    """What it is, what it takes, its members and the beginning of its StableHLO; 100 columns and 40 lines at most."""
    lines = [shorten(_title(name, content, account), WIDTH)]
    for label, value in _facts(content, account):
        first, *more = wrap(shorten(value, _VALUE), WIDTH - _LABEL - 1) or [""]
        lines += [f"{label:<{_LABEL}} {first}", *(f"{'':<{_LABEL}} {line}" for line in more[:1])]
    members = sorted(content.members, key=lambda member: -member.size)
    listed = " · ".join(f"{shorten(member.name, 40)} {size(member.size)}" for member in members[:_MEMBERS])
    rest = f" · … {count(len(members) - _MEMBERS)} more, see .frame" if len(members) > _MEMBERS else ""
    lines += wrap(f"{'members':<{_LABEL}} {listed or 'none'}{rest}", WIDTH, subsequent_indent=" " * (_LABEL + 1))[:6]
    if account.stablehlo is not None:
        code = account.stablehlo.splitlines()
        lines += ["", f"StableHLO, {plural(len(code), 'line')}"]
        shown = min(_MODULE, _LINES - 1 - len(lines))
        lines += [cut(f"  {line}", WIDTH) for line in code[:shown]]
        lines += [f"  … {count(len(code) - shown)} more, see .stablehlo"] if len(code) > shown else []
    return printable("\n".join(lines))


def neff_html(name: str, content: Neff, account: Account) -> str:
    """The same; members and StableHLO fold."""
    facts = "".join(
        f'<tr><th class="nrn-name" scope="row">{escape(label)}</th><td class="nrn-left">{escape(shorten(value, _VALUE))}</td></tr>'
        for label, value in _facts(content, account)
    )
    members = content.members[:_MEMBERS_HTML]
    table = grid_html(("member", "size"), [(shorten(member.name, _NAME_HTML), size(member.size)) for member in members])
    left = len(content.members) - len(members)
    rest = f'<div class="nrn-soft">… {count(left)} more, see <code>.frame</code></div>' if left else ""
    title = escape(shorten(_title(name, content, account), 200))
    return printable(
        f'<div class="nrn">{STYLE}<div class="nrn-head"><b>{title}</b></div>'
        f'<div class="nrn-scroll"><table class="nrn-t"><tbody>{facts}</tbody></table></div>'
        f"<details><summary>{plural(len(content.members), 'member')}</summary>{table}{rest}</details>{_module(account)}</div>"
    )


def _module(account: Account) -> str:
    if account.stablehlo is None:
        return ""
    lines, shown, left = account.stablehlo.splitlines(), [], _MODULE_HTML
    for line in lines:
        shown.append(escape(cut(line, _LINE_HTML), quote=False))
        left -= len(shown[-1])
        if left < 0:
            break
    rest = len(lines) - len(shown)
    note = f'<div class="nrn-soft">… {count(rest)} more, see <code>.stablehlo</code></div>' if rest else ""
    code = printable("\n".join(shown))
    return (
        f"<details><summary>StableHLO, {plural(len(lines), 'line')}</summary>"
        f'<div class="nrn-scroll"><pre class="nrn-code">{code}</pre></div>{note}</details>'
    )


def _title(name: str, content: Neff, account: Account) -> str:
    kind = "emulated NEFF" if account.emulated else "NEFF"
    op = account.op or content.header.name or name
    return f"{op} · {kind}, {size(HEADER_SIZE + content.header.data_size)} · {account.key or name}"


def _facts(content: Neff, account: Account) -> list[tuple[str, str]]:
    first = account.signature.partition("\n")[0]
    found = [
        ("signature", first),
        ("function", ", ".join(filter(None, (account.function, account.place)))),
        ("made", _made(account)),
        ("cost", _cost(account)),
        ("memory", "" if account.memory is None else _memory(account.memory)),
        ("inputs", _ports(account.ports, "in")),
        ("outputs", _ports(account.ports, "out")),
        ("versions", " · ".join(f"{name} {version}" for name, version in account.versions)),
        ("header", _header(content.header)),
        ("uuid", content.header.uuid.hex()),
        ("hash", _hash(content)),
        *(("note", note) for note in account.notes[:3]),
    ]
    return [(label, value) for label, value in found if value]


def _made(account: Account) -> str:
    stages = (("trace", account.trace_s), ("lower", account.lower_s), ("compile", account.compile_s))
    parts = [f"{name} {duration(seconds * 1e9)}" for name, seconds in stages if seconds is not None]
    if account.tier:
        parts.append(f"tier {account.tier}")
    if account.created is not None and 0 <= account.created < 1e11:
        parts.insert(0, datetime.fromtimestamp(account.created, UTC).strftime("%Y-%m-%d %H:%M UTC"))
    return " · ".join(parts)


def _cost(account: Account) -> str:
    flops, moved = account.flops, account.bytes_accessed
    if flops is None or moved is None:
        return ""
    text = f"{_scaled(flops)}FLOP, {size(round(moved))} read and written"
    if flops and moved:
        text += f", {three_digits(flops / moved)} FLOP a byte"
    return text + (f" ({account.cost_source})" if account.cost_source else "")


def _scaled(value: float) -> str:
    for unit in _UNITS[:-1]:
        if value < 999.5:
            return f"{value:.0f} {unit}" if not unit else f"{three_digits(value)} {unit}"
        value /= 1000
    return f"{three_digits(value)} {_UNITS[-1]}"


def _memory(memory: Memory) -> str:
    """Static: known before it runs."""
    parts = (
        ("inputs", memory.inputs),
        ("outputs", memory.outputs),
        ("scratch", memory.scratch),
        ("constants", memory.constants),
        ("code", memory.code),
    )
    return " · ".join(f"{name} {size(value)}" for name, value in parts if value is not None)


def _ports(ports: Sequence[Port], direction: str) -> str:
    rows = [port for port in ports if port.direction == direction]
    listed = [
        f"{port.dtype}{list(port.shape)} {size(port.bytes)}"
        if port.dtype and port.shape is not None
        else f"{shorten(port.name, 40)} {size(port.bytes)}"
        for port in rows[:_PORTS]
    ]
    if len(rows) > _PORTS:
        listed.append(f"… {count(len(rows) - _PORTS)} more, see .tensors")
    return " · ".join(listed)


def _header(header: Header) -> str:
    cores = plural(header.num_tpb, "core")
    return (
        f"package {header.pkg_version} · NEFF {header.major}.{header.minor} · {cores} · LNC {header.lnc_size} · "
        f"features {header.feature_bits:#x} · {header.build_version or 'no build version'}"
    )


def _hash(content: Neff) -> str:
    if not any(content.header.hash):
        return "none"
    told = content.header.hash.hex()[:_DIGITS] + "…" * any(content.header.hash[_DIGITS // 2 :])
    return f"{told} · {'it is that of the payload' if content.verified else 'not verified'}"
