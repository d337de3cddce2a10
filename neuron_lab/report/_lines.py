"""The gutter: what each line of the user's own source did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from neuron_lab.recording import Compile, OpTotal, Recording, Where


@dataclass(frozen=True, slots=True)
class LineRow:
    """Everything one line did. `place` is "In[12]" or a file's name; `text` its source, "" when that is not to be had.

    `compile_ns` made `neffs_compiled` NEFFs, `load_ns` read `neffs_loaded` from disk. `ops` are the op calls' full names.
    `peak_bytes`: the highest use of a core's HBM after the line took some, 0 when it took none.
    """

    file: str
    place: str
    function: str
    first_line: int
    line: int
    text: str
    ops: tuple[str, ...]
    calls: int
    neffs: int
    neffs_compiled: int
    neffs_loaded: int
    compile_ns: int
    load_ns: int
    device_ns: int
    fallback_calls: int
    fallback_ns: int
    copies: int
    copy_bytes: int
    bytes: int
    peak_bytes: int
    total_ns: int

    @property
    def where(self) -> str:
        """ "In[12] line 4"."""
        return f"{self.place} line {self.line}"


@dataclass(slots=True)
class _Sums:
    """Of the line `where`, with the function that it was first met in. All but `ops` and `neffs` are fields of LineRow."""

    where: Where
    ops: dict[str, None] = field(default_factory=dict)
    neffs: set[str] = field(default_factory=set)
    calls: int = 0
    neffs_compiled: int = 0
    neffs_loaded: int = 0
    compile_ns: int = 0
    load_ns: int = 0
    device_ns: int = 0
    fallback_calls: int = 0
    fallback_ns: int = 0
    copies: int = 0
    copy_bytes: int = 0
    bytes: int = 0
    peak_bytes: int = 0
    total_ns: int = 0


_SUMMED = tuple(item.name for item in fields(_Sums) if item.name not in ("where", "ops", "neffs"))


def compile_lines(recording: Recording) -> dict[str, Where]:
    """The line that waited for each NEFF: the one whose cold call of it took longest."""
    waits = [total for total in recording.op_totals if total.cold_calls and total.neff and total.where]
    return {str(total.neff): total.where for total in sorted(waits, key=lambda total: total.total_ns) if total.where}


def line_rows(recording: Recording) -> tuple[LineRow, ...]:
    """One row a line that did something: the profiled cell first, then the others as their files were met; by line number."""
    sums = _sums(recording)
    names = {source.file: source.name for source in recording.sources}
    texts = {(source.file, number): text for source in recording.sources for number, text in source.lines}
    files = list(dict.fromkeys(file for file, _ in sums))
    files.sort(key=lambda file: names.get(file) != recording.label)
    rows = [
        LineRow(
            file=file,
            place=names.get(file, file),
            function=row.where.function,
            first_line=row.where.first_line,
            line=line,
            text=texts.get((file, line), ""),
            ops=tuple(row.ops),
            neffs=len(row.neffs),
            **{name: getattr(row, name) for name in _SUMMED},
        )
        for (file, line), row in sums.items()
    ]
    return tuple(sorted(rows, key=lambda row: (files.index(row.file), row.line)))


def _sums(recording: Recording) -> dict[tuple[str, int], _Sums]:
    found: dict[tuple[str, int], _Sums] = {}

    def of(where: Where) -> _Sums:
        return found.setdefault((where.file, where.line), _Sums(where))

    for total in recording.op_totals:
        if total.where is not None:
            _add_calls(of(total.where), total)
    for copied in recording.copy_totals:
        if copied.where is not None:
            row = of(copied.where)
            row.copies += copied.calls
            row.copy_bytes += copied.bytes
            row.total_ns += copied.total_ns
    for peak in recording.memory_log.line_peaks:
        if peak.where is not None:
            row = of(peak.where)
            row.peak_bytes = max(row.peak_bytes, peak.used)
    waited = compile_lines(recording)
    for item in recording.compiles:
        if item.neff in waited:
            _add_compile(of(waited[item.neff]), item)
    return found


def _add_calls(row: _Sums, total: OpTotal) -> None:
    row.ops[total.op] = None
    row.calls += total.calls
    row.bytes += total.bytes
    row.total_ns += total.total_ns
    if total.neff is not None:
        row.neffs.add(total.neff)
    if total.kind == "compiled":
        row.device_ns += total.device_ns
    elif total.kind == "fallback":
        row.fallback_calls += total.calls
        row.fallback_ns += total.total_ns


def _add_compile(row: _Sums, item: Compile) -> None:
    row.total_ns += item.ahead_ns
    if item.source == "disk":
        row.neffs_loaded += 1
        row.load_ns += item.total_ns
    else:
        row.neffs_compiled += 1
        row.compile_ns += item.total_ns


@dataclass(frozen=True, slots=True)
class GutterLine:
    """A line as it is shown: `row` is None for one of context. `opens` names the cell or file when it changes, and `skips` lines that are left out."""

    number: int
    text: str
    row: LineRow | None
    opens: str = ""
    skips: bool = False


def gutter(recording: Recording, rows: Sequence[LineRow], count: int) -> tuple[list[GutterLine], list[LineRow]]:
    """At most `count` lines of source, the dearest of `rows` with a line of context before them, and the rows left out.

    A heading of a file counts as a line.
    """
    kept: set[LineRow] = set()
    files: set[str] = set()
    for row in sorted(rows, key=lambda row: (-row.total_ns, row.file, row.line)):
        if len(kept) + 1 + len(files | {row.file}) > count:
            break
        kept.add(row)
        files.add(row.file)
    shown = _laid_out(recording, rows, kept, context=True)
    if _height(shown) > count:
        shown = _laid_out(recording, rows, kept, context=False)
    return shown, [row for row in rows if row not in kept]


def _height(lines: Sequence[GutterLine]) -> int:
    return len(lines) + sum(bool(line.opens) for line in lines)


def _laid_out(recording: Recording, rows: Sequence[LineRow], kept: set[LineRow], *, context: bool) -> list[GutterLine]:
    texts = {source.file: dict(source.lines) for source in recording.sources}
    lines: list[GutterLine] = []
    for file in dict.fromkeys(row.file for row in rows if row in kept):
        own = {row.line: row for row in rows if row.file == file and row in kept}
        numbers = set(own)
        if context:
            numbers |= {number for line in own for number in (line - 1,) if texts.get(file, {}).get(number, "").strip()}
        place, previous = next(iter(own.values())).place, None
        for number in sorted(numbers):
            lines.append(
                GutterLine(
                    number,
                    texts.get(file, {}).get(number, ""),
                    own.get(number),
                    opens=place if previous is None else "",
                    skips=previous is not None and number > previous + 1,
                )
            )
            previous = number
    return lines
