"""Findings about compiling: again for another size or value, traced again, timed cold, too many small units."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from neuron_lab.recording import GraphCompile, Where
from neuron_lab.report._guards import guard_failure
from neuron_lab.report._recompiles import Change, Recompile, fix_for, read
from neuron_lab.report._rules import Facts, Finding, line_of
from neuron_lab.report._sizes import plural

# Arguments that are a layer's own: another size there is another layer, not another batch.
_WEIGHTS = {
    "aten::linear": {"input 1", "input 2"},
    "aten::linear_backward": {"input 2"},
    "aten::addmm": {"input 0", "input 2"},
    "aten::convolution": {"input 1", "input 2"},
    "aten::convolution_backward": {"input 2"},
    "aten::embedding": {"input 0"},
    "aten::native_layer_norm": {"input 2", "input 3"},
    "aten::native_batch_norm": {"input 1", "input 2", "input 3", "input 4"},
}
_MATRIX = {**_WEIGHTS, "aten::mm": {"input 1"}}
_SIZES_SHOWN = 3
# Fewer values are layers that differ, such as a softmax over dim 1 and one over dim 2.
_VALUES = 4
_TINY_NS = 200_000
_TINY_NEFFS = 16
_TINY_LINES = 8
_POINTWISE = frozenset(
    f"aten::{name}"
    for name in (
        "add sub mul div neg exp log sqrt rsqrt pow tanh sigmoid abs reciprocal clamp maximum minimum where sin cos relu erf "
        "square addcmul addcdiv lerp"
    ).split()
)


def other_sizes(facts: Facts) -> Iterator[Finding]:
    """NRN012: the same ops, made again because one size changed."""
    candidates = [(row, row.change) for row in facts.recompiles if row.change is not None]
    printing, widths = facts.printing, _widths(facts)
    # A layer that keeps its own tensors and sees another size is certain proof of another batch.
    proven = {
        (change.old, change.new)
        for row, change in candidates
        if row.compile.op in _WEIGHTS and not set(change.touched) & _WEIGHTS[row.compile.op]
    }
    sized = [
        (row, change)
        for row, change in candidates
        if _is_data(row, change, widths, proven) and line_of(row.where) not in printing
    ]
    for group in _groups([pair for pair in sized if _is_repeated(facts, pair, sized, proven)]):
        cause, change, sizes = _cause(group)
        verb = "compiled" if any(row.compile.source != "disk" for row, _ in group) else "loaded"
        yield Finding(
            "NRN012",
            _place_of(facts, cause.where, {row.where for row, _ in group}),
            f"{plural(len(group), 'NEFF')} {verb} again because a size changed: dim {change.dimension} of "
            f"{change.arguments[0]} of {cause.compile.op}, {sizes}",
            sum(row.compile.total_ns for row, _ in group),
            _fix(group),
            tuple(dict.fromkeys(row.compile.op for row, _ in group)),
        )


def other_values(facts: Facts) -> Iterator[Finding]:
    """NRN013: made again for every value of an argument that is part of the signature."""
    groups: defaultdict[tuple[object, ...], list[tuple[Recompile, Change]]] = defaultdict(list)
    for row in facts.recompiles:
        change = row.change
        # What has no tensor, arange(n), makes one: it is not called again for another value, but for another size.
        if change is None or not read(row.compile.signature).tensors:
            continue
        if change.kind == "static" and row.where is not None:
            groups[line_of(row.where), row.compile.op, change.arguments].append((row, change))
    for group in groups.values():
        values = {change.new for _, change in group} | {change.old for _, change in group}
        if len(values) < _VALUES:
            continue
        row, change = group[0]
        yield Finding(
            "NRN013",
            facts.place(row.where),
            f"{row.compile.op} compiled for {len(group)} more values of {change.arguments[0]}: {_some([c.new for _, c in group])}",
            sum(item.compile.total_ns for item, _ in group),
            "pass it as a tensor, or keep to a few values",
            (row.compile.op,),
        )


def traced_again(facts: Facts) -> Iterator[Finding]:
    """NRN015: torch.compile met another value again and again; another size is NRN012's."""
    groups: defaultdict[tuple[str, int, str], list[GraphCompile]] = defaultdict(list)
    for graph in facts.recording.graphs:
        if graph.reasons:
            groups[graph.file, graph.first_line, graph.title].append(graph)
    for group in groups.values():
        failed = [guard_failure(graph) for graph in group]
        given_up = [item for item in failed if item.limit]
        if not given_up and (len(group) < _VALUES or all(item.size for item in failed)):
            continue
        last = (given_up or failed)[-1]
        cause = next((item.fix for item in reversed(failed) if item.fix and not item.limit), last.fix)
        traced = plural(len(group) - len(given_up), "more time")  # at the limit nothing is traced any more
        yield Finding(
            "NRN015",
            facts.place(group[0].place),
            f"torch.compile traced {group[0].title} {traced}: {last.text}",
            sum(graph.duration_ns for graph in group),
            cause,
        )


def cold_timing(facts: Facts) -> Iterator[Finding]:
    """NRN011: the program takes the time itself, and most of it was compiling and loading."""
    cold = facts.split.compile_ns + facts.split.load_ns + facts.split.startup_ns
    if facts.recording.reads_clock and 2 * cold > facts.recording.wall_ns:
        yield Finding(
            "NRN011",
            facts.recording.label,
            f"this cell takes the time, and {100 * cold / facts.recording.wall_ns:.0f} % of it was compiling and loading",
            cold,
            "run it once before you time it, and compare warm with warm",
        )


def many_tiny_neffs(facts: Facts) -> Iterator[Finding]:
    """NRN014: one function runs many small pointwise NEFFs in a row, which a compiler would fuse."""
    times: defaultdict[tuple[str, int, str], defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    lines: defaultdict[tuple[str, int, str], set[int]] = defaultdict(set)
    places: dict[tuple[str, int, str], Where] = {}
    for total in facts.recording.op_totals:
        if total.where is None or total.neff is None or total.op.partition(".")[0].rstrip("_") not in _POINTWISE:
            continue
        if total.cold_calls:
            return  # a cold program's times say nothing about a warm one's
        key = total.where.file, total.where.first_line, total.where.function
        times[key][total.neff].append(total.device_ns / total.calls)
        lines[key].add(total.where.line)
        places.setdefault(key, total.where)
    for key, neffs in times.items():
        typical = median(median(values) for values in neffs.values())
        if len(neffs) >= _TINY_NEFFS and len(lines[key]) >= _TINY_LINES and typical < _TINY_NS:
            yield Finding(
                "NRN014",
                facts.place(places[key]),
                f"{key[2]} runs {len(neffs)} pointwise NEFFs of {typical / 1e3:.0f} µs each; fused they are one",
                0,
                'torch.compile(backend="neuron") makes one NEFF of them',
            )


def _is_data(row: Recompile, change: Change, widths: set[int], proven: set[tuple[str, str]]) -> bool:
    """A changed size that no layer explains."""
    if change.kind != "dimension" or row.where is None:
        return False
    own = _MATRIX.get(row.compile.op, set())
    if set(change.touched) <= own or (row.compile.op in _WEIGHTS and set(change.touched) & own):
        return False
    return int(change.new) not in widths or (change.old, change.new) in proven


def _widths(facts: Facts) -> set[int]:
    """Every size of a layer's own tensors in this recording."""
    return {
        size
        for item in (*facts.recording.compiles, *facts.recording.earlier)
        for name, tensor in read(item.signature).tensors
        if name in _WEIGHTS.get(item.op, ())
        for size in tensor.sizes
    }


def _is_repeated(
    facts: Facts,
    pair: tuple[Recompile, Change],
    all_pairs: list[tuple[Recompile, Change]],
    proven: set[tuple[str, str]],
) -> bool:
    """Proof that it is the same program again: the line ran with the old size before, or through several, or all its ops changed alike."""
    row, change = pair
    nearest = row.nearest
    assert nearest is not None
    ran_before = sum(
        total.calls
        for total in facts.recording.op_totals
        if total.neff == nearest.neff and line_of(total.where) == line_of(row.where)
    )
    if row.same_span and ran_before >= 2:
        return True
    same_place = [other for item, other in all_pairs if _seat(item, other) == _seat(row, change)]
    if len({other.new for other in same_place} | {other.old for other in same_place}) >= 3:
        return True
    alike = [item for item, other in all_pairs if (other.old, other.new) == (change.old, change.new)]
    if len({item.compile.op for item in alike}) < 2:
        return False
    # What ran before this span may have been another program, which happened to have such a size.
    return row.same_span or (change.old, change.new) in proven or 2 * len(alike) > len(facts.recompiles)


def _groups(pairs: list[tuple[Recompile, Change]]) -> list[list[tuple[Recompile, Change]]]:
    """Together what shares a line or a change of size."""
    groups: list[tuple[set[object], list[tuple[Recompile, Change]]]] = []
    for pair in pairs:
        row, change = pair
        keys: set[object] = {line_of(row.where), (change.old, change.new)}
        members = [pair]
        rest = []
        for known, others in groups:
            if known & keys:
                keys |= known
                members = others + members
            else:
                rest.append((known, others))
        groups = [*rest, (keys, members)]
    return [members for _, members in groups]


def _cause(group: list[tuple[Recompile, Change]]) -> tuple[Recompile, Change, str]:
    """The op that met the most sizes, the first of several: what comes after it only follows. With its sizes in words."""
    met: defaultdict[tuple[object, ...], dict[str, None]] = defaultdict(dict)
    for row, change in group:
        met[_seat(row, change)].update(dict.fromkeys([change.old, change.new]))
    row, change = min(group, key=lambda pair: (-len(met[_seat(*pair)]), pair[0].compile.start_ns))
    sizes = list(met[_seat(row, change)])
    return row, change, " → ".join(sizes) if len(sizes) == 2 else f"{len(sizes)} sizes: {_some(sizes)}"


def _seat(row: Recompile, change: Change) -> tuple[object, ...]:
    """The dimension of an argument of an op at a line."""
    return line_of(row.where), row.compile.op, change.dimension, change.arguments


def _some(values: list[str]) -> str:
    shown = ", ".join(values[:_SIZES_SHOWN])
    return f"{shown}, …" if len(values) > _SIZES_SHOWN else shown


def _fix(group: list[tuple[Recompile, Change]]) -> str:
    """One for all: a size that mostly grows by one, one that changed once, or many."""
    changes = {(change.old, change.new): change for _, change in group}
    growing = [change for change in changes.values() if int(change.new) == int(change.old) + 1]
    if len(changes) == 1 or 2 * len(growing) > len(changes):
        return fix_for((growing or list(changes.values()))[:1])
    return "pad to one size, or to a few (buckets)"


def _place_of(facts: Facts, dearest: Where | None, places: set[Where | None]) -> str:
    others = len({line_of(where) for where in places}) - 1
    return facts.place(dearest) + (f" and {plural(others, 'more line')}" if others else "")
