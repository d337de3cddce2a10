"""Eager against compiled, as text and HTML."""

from __future__ import annotations

from html import escape
from textwrap import wrap

from neuron_lab.render._format import DASH, WIDTH, count, duration, plural, printable, shorten
from neuron_lab.render._grid import aligned, grid_html
from neuron_lab.render._style import STYLE
from neuron_lab.report import OutputDifference, Trial, TrialSide, binary_size

_BREAKS = 5
_OUTPUTS = 6
_NAME = 48
_SENTENCE = 300


def trial_text(trial: Trial) -> str:
    """The verdict, the two sides, the differences of the results and the graph breaks; 100 columns at most."""
    blocks = [
        [shorten(_head(trial), WIDTH), *wrap(_verdict(trial), WIDTH)],
        aligned([("", "eager", "compiled"), *_rows(trial)]),
        aligned([("output", "max abs", "max rel"), *_outputs(trial)]) if trial.outputs else [],
        [line for text in _notes(trial) for line in wrap(text, WIDTH, subsequent_indent="  ")[:2]],
    ]
    return printable("\n\n".join("\n".join(block) for block in blocks if block))


def trial_html(trial: Trial) -> str:
    """The same as tables."""
    outputs = grid_html(("output", "max abs", "max rel"), _outputs(trial)) if trial.outputs else ""
    notes = "".join(f'<div class="nrn-soft">{escape(shorten(text, _SENTENCE))}</div>' for text in _notes(trial))
    return printable(
        f'<div class="nrn">{STYLE}<div>{escape(shorten(_head(trial), _SENTENCE))}</div><div><b>{escape(_verdict(trial))}</b></div>'
        f"{grid_html(('', 'eager', 'compiled'), _rows(trial))}{outputs}{notes}</div>"
    )


def _head(trial: Trial) -> str:
    emulated = " · emulated, not Trainium" if trial.emulated else ""
    return f"{trial.label or 'compare'} · eager against torch.compile · {trial.device}{emulated}"


def _verdict(trial: Trial) -> str:
    eager, compiled = trial.eager.quantile_ns(0.5), trial.compiled.quantile_ns(0.5)
    if trial.break_even is None:
        takes = f"a warm call takes {duration(compiled)} compiled and {duration(eager)} eager"
        if trial.saving_ns[2] > 0:
            return f"no difference beyond the noise: {takes}; more rounds may tell"
        return f"compile does not pay off: {takes}"
    best, fewest, most = trial.break_even
    if most is None:
        return f"compile may pay off after {plural(best, 'call')}, or never: the noise of the warm calls hides it (95 %: {count(fewest)} or more)"
    bounds = f"{count(fewest)} to {count(most)}"
    speed = f"{eager / compiled:.2f}× as fast" if compiled else "faster"
    return f"compile pays off after {plural(best, 'call')} (95 %: {bounds}): warm calls are {speed}"


def _rows(trial: Trial) -> list[tuple[str, str, str]]:
    sides = (trial.eager, trial.compiled)
    rows = [
        ("first call, empty NEFF cache", *(duration(side.cold_ns) for side in sides)),
        ("  of it compiling", *(_made(side) for side in sides)),
        ("  median of", *(plural(side.cold_runs, "call") for side in sides)),
        ("first call, NEFFs on disk", DASH, duration(trial.reload_ns)),
        ("warm call, median", *(duration(side.quantile_ns(0.5)) for side in sides)),
        ("  p10 – p90", *(_spread(side) for side in sides)),
        ("  measured in turns", *(plural(len(side.warm_ns), "call") for side in sides)),
        ("NEFFs of a warm call", *(count(side.neffs) for side in sides)),
        ("peak HBM", *(binary_size(side.peak_bytes) for side in sides)),
        ("graphs, breaks", DASH, f"{count(trial.graphs)}, {count(len(trial.breaks))}"),
    ]
    return [(name, eager, compiled) for name, eager, compiled in rows]


def _made(side: TrialSide) -> str:
    return f"{duration(side.compile_ns)}, {plural(side.made, 'NEFF')}" if side.made else DASH


def _spread(side: TrialSide) -> str:
    return f"{duration(side.quantile_ns(0.1))} – {duration(side.quantile_ns(0.9))}"


def _outputs(trial: Trial) -> list[tuple[str, str, str]]:
    worst = sorted(trial.outputs, key=lambda row: row.max_rel, reverse=True)[:_OUTPUTS]
    return [(_name(row), f"{row.max_abs:.2g}", f"{row.max_rel:.2g}") for row in worst]


def _name(row: OutputDifference) -> str:
    return shorten(f"{row.name} {row.dtype}{list(row.shape)}", _NAME)


def _notes(trial: Trial) -> list[str]:
    notes = [f"graph break at {item.where}: {item.reason}" for item in trial.breaks[:_BREAKS]]
    if len(trial.breaks) > _BREAKS:
        notes.append(f"… {plural(len(trial.breaks) - _BREAKS, 'more break')}, see .breaks")
    if len(trial.outputs) > _OUTPUTS:
        notes.append(f"… {plural(len(trial.outputs) - _OUTPUTS, 'more output')} closer than these, see .outputs")
    if trial.slowness is None:
        notes.append("times are as measured: how much other work slowed the machine is not known")
    else:
        notes.append(
            f"times are as without other work on the machine; by fixed work beside, it slowed calls {trial.slowness:.2f}×"
        )
    return notes
