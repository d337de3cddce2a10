"""Is `torch.compile` worth it? The same program eagerly and compiled, measured side by side."""

from __future__ import annotations

import gc
import inspect
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from neuron_lab import device
from neuron_lab._closeness import differences, same_values
from neuron_lab._compiled import Breaks, compiled_anew, dynamo_as_before, start_compilers
from neuron_lab._pace import Pace
from neuron_lab._step import Step, Trained
from neuron_lab._trial import CompileTrial
from neuron_lab.errors import DeviceProblem, UsageProblem
from neuron_lab.recording import Recorder, Surroundings, environment, measured
from neuron_lab.report import OutputDifference, Report, Trial, TrialSide

# First calls are repeated while this time lasts. In parts of one run on a shared machine, medians over 12 s differed by more than 15 %
# in 1 pair of 20, over 28 s in none; where 28 s are six first calls, as of a small GPT-2, those of two processes did in 1 pair of 3.
_BUDGET_NS = 40 * 10**9
_FIRST_CALLS = 20
# Warm calls are made in batches between them, so that they are spread over the same time: of at least so many rounds, which take that
# part of the time of the first call before.
_BATCH = 5
_WARM_PART = 0.2

Clock = Callable[[], int]


def compare(
    function: Callable[..., Any],
    /,
    *args: Any,
    train: bool = False,
    rounds: int = 20,
    label: str = "",
    clock: Clock = time.perf_counter_ns,
    **kwargs: Any,
) -> CompileTrial:
    """Run `function(*args, **kwargs)` eagerly and under `torch.compile(backend="neuron")`.

    Both start each call from the same tensors and random numbers. First calls are cold: the NEFF cache, on disk and in memory, is an
    empty one for the time being, and the compilers have been started. They are repeated for 40 s, 20 times at most. Warm calls of
    each are made in turns, synchronised, between the first calls. Medians are told, of times as without other work on the machine:
    each is divided by how much slower fixed pieces of work ran meanwhile, in a process of their own, than at their best in this or the
    last 19 comparisons (kept in the user's cache directory). Parameters, buffers, gradients, optimizer state, random numbers, grad mode,
    default device, NEFF cache and what Dynamo has compiled for you are as before.

    train: run backward from the result, a loss or an object with `.loss`, and compare the gradients too. A function that runs
    backward and its optimizer itself needs no `train`. rounds: warm calls of each, at least 5; most programs leave time for more.
    label: what the result calls the program, by default the function's name. clock: nanoseconds; another one than the
    default is believed as it is.

    Raises UsageProblem, beginning with "not comparable", when two eager calls differ, when the results are of different kinds, or
    when nothing ran on the device; DeviceProblem when nothing serves `neuron`, and on Trainium, where a recording waits for every op.
    What `function` raises passes through.
    """
    if not callable(function):
        raise UsageProblem(
            f"compare calls the program itself and was given a {type(function).__name__}: "
            "write compare(model, x), not compare(model(x))"
        )
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise UsageProblem(
            f"not comparable: calling {function.__qualname__}() runs nothing yet; compare the function that does the work"
        )
    if not isinstance(rounds, int) or rounds < 5:
        raise UsageProblem(
            f"rounds={rounds!r} is no whole number from 5 on: fewer warm calls say nothing about their spread"
        )
    if device.resolve().kind == "trainium":
        raise DeviceProblem(
            "comparing needs the emulator: on Trainium a recording waits for every op, which would count as compile time"
        )
    hook = device.hook()
    from neuron_lab._restore import State

    name = label or str(getattr(function, "__qualname__", type(function).__name__))
    state = State(function, (args, kwargs))
    run = Step(function, args, kwargs, train, {id(tensor): name for name, tensor in state.tensors.items()})
    bench = _Bench(hook, state, clock)
    pace = Pace()
    try:
        with (
            measured(),
            device.fresh_caches(),
            dynamo_as_before(),
            _settled_heap(),
            pace if bench.real else nullcontext(),
        ):
            calls = _calls(run, bench, rounds)
    finally:
        state.close()
    return CompileTrial(_trial(name, calls, pace))


@dataclass(frozen=True, slots=True)
class _Span:
    """When a call began and ended, in nanoseconds."""

    begun: int
    ended: int

    @property
    def took(self) -> int:
        return self.ended - self.begun


@dataclass(frozen=True, slots=True)
class _Cold:
    """A first call, with nothing compiled before."""

    span: _Span
    report: Report


@dataclass(frozen=True, slots=True)
class _Calls:
    """All that was called, and what came of it. A round is a warm call of each side, a batch rounds that followed each other."""

    eager: list[_Cold]
    compiled: list[_Cold]
    reloads: list[_Span]
    batches: list[list[tuple[_Span, _Span]]]
    warm: tuple[Report, Report]
    outputs: tuple[OutputDifference, ...]
    breaks: Breaks


@dataclass(frozen=True, slots=True)
class _Bench:
    """Runs calls from the same start and measures them."""

    hook: Any
    state: Any
    clock: Clock

    @property
    def real(self) -> bool:
        """Whether the clock tells of this machine."""
        return self.clock is time.perf_counter_ns

    def timed(self, call: Callable[[], Any], begin: Callable[[], None] = lambda: None) -> tuple[_Span, Any]:
        """One synchronised call, and what it gave; `begin` is called when everything is in place."""
        import torch

        self.state.again()
        neuron = torch.get_device_module("neuron")
        neuron.synchronize()
        begin()
        begun = self.clock()
        result = call()
        neuron.synchronize()
        return _Span(begun, self.clock()), result

    def recorded(self, call: Callable[[], Any]) -> tuple[_Span, Any, Report]:
        """The same under a recorder, whose own cost is in the time."""
        recorder = Recorder(self.hook, environment(), surroundings=Surroundings(memory=device.core_memory))
        try:
            span, result = self.timed(call, recorder.start)
        finally:
            recorder.stop()
        return span, result, Report(recorder.finish())

    def cold(self, call: Callable[[], Any]) -> _Cold:
        """A first call; whether nothing was compiled before is the caller's business."""
        gc.collect()
        span, _, report = self.recorded(call)
        return _Cold(span, report)

    def left(self, result: Any) -> dict[str, Any]:
        """The tensors a call gave, and what it wrote to parameters and buffers, on the host."""
        import torch
        from torch.utils import _pytree as pytree

        named = result.gradients if isinstance(result, Trained) else {}
        leaves, _ = pytree.tree_flatten_with_path(result.result if isinstance(result, Trained) else result)
        named |= {f"result{pytree.keystr(path)}": value for path, value in leaves if isinstance(value, torch.Tensor)}
        written: dict[str, Any] = self.state.written()
        return {name: tensor.detach().cpu() for name, tensor in named.items()} | written


def _calls(run: Step, bench: _Bench, rounds: int) -> _Calls:
    def eager() -> Any:
        return run(run.function)

    start_compilers()
    first = bench.cold(eager)
    bench.state.keep_made_state()
    expected = _repeated(bench, eager)
    compiled, breaks = _compiled(run), Breaks()
    with breaks:
        first_compiled = bench.cold(compiled)
    _, result = bench.timed(compiled)
    outputs = differences(bench.left(result), expected)
    calls = _Calls([first], [first_compiled], [], [], _warm(bench, eager, compiled), outputs, breaks)
    turns = _Turns(bench, eager, compiled, calls.batches)
    until = bench.clock() + _BUDGET_NS
    while True:
        turns.take(calls.compiled[-1].span)
        gc.collect()
        calls.reloads.append(bench.timed(_compiled(run))[0])
        if len(calls.reloads) == _FIRST_CALLS or bench.clock() >= until:
            break
        turns.take(calls.reloads[-1])
        with device.fresh_caches():
            calls.eager.append(bench.cold(eager))
        turns.take(calls.eager[-1].span)
        anew = _compiled(run)
        with device.fresh_caches():
            calls.compiled.append(bench.cold(anew))
    while sum(map(len, calls.batches)) < rounds:
        turns.take(calls.reloads[-1])
    return calls


def _warm(bench: _Bench, *sides: Callable[[], Any]) -> tuple[Report, Report]:
    one, other = (bench.recorded(side)[2] for side in sides)
    return one, other


def _repeated(bench: _Bench, eager: Callable[[], Any]) -> dict[str, Any]:
    """What an eager call gives; a second one must give the same."""
    runs = []
    for _ in range(2):
        _, result, report = bench.recorded(eager)
        runs.append(bench.left(result))
    graphs = [row.op for row in report.op_rows if row.op.startswith("graph::")]
    if graphs:
        raise UsageProblem(
            f"not comparable: the program is compiled already, an eager call of it ran {graphs[0]}; compare the one that was "
            "given to torch.compile"
        )
    if not report.summary.neffs:
        raise UsageProblem(
            "not comparable: nothing ran on the device; move the model and its inputs with .to('neuron')"
        )
    one, other = runs
    for name in one.keys() | other.keys():
        if name not in one or name not in other or not same_values(one[name], other[name]):
            raise UsageProblem(
                f"not comparable: two eager calls give different values of {name} though they start alike. The function keeps "
                "state that cannot be put back; pass what it changes as arguments, or let it close over the modules"
            )
    return one


def _compiled(run: Step) -> Callable[[], Any]:
    program = compiled_anew(run.function)
    return lambda: run(program)


class _Turns:
    """Warm calls in turns, into `batches` as (eager, compiled)."""

    def __init__(
        self,
        bench: _Bench,
        eager: Callable[[], Any],
        compiled: Callable[[], Any],
        batches: list[list[tuple[_Span, _Span]]],
    ) -> None:
        self._bench, self._eager, self._compiled, self._batches = bench, eager, compiled, batches

    def take(self, after: _Span) -> None:
        """A batch after a first call, which may have left nothing in the processor's caches: so there is one round more."""
        until = self._bench.clock() + after.took * _WARM_PART
        self._turn(0)
        rounds: list[tuple[_Span, _Span]] = []
        while len(rounds) < _BATCH or self._bench.clock() < until:
            rounds.append(self._turn(len(rounds)))
        self._batches.append(rounds)

    def _turn(self, number: int) -> tuple[_Span, _Span]:
        """One call of each; who goes first changes from round to round."""
        if (number + len(self._batches)) % 2:
            span, _ = self._bench.timed(self._compiled)
            return self._bench.timed(self._eager)[0], span
        span, _ = self._bench.timed(self._eager)
        return span, self._bench.timed(self._compiled)[0]


@contextmanager
def _settled_heap() -> Iterator[None]:
    """Collecting all garbage takes up to half a second in a large program, and would fall into one call or another.

    Objects that are there already are put out of the collector's sight, unless the user has done so.
    """
    gc.collect()
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _trial(label: str, calls: _Calls, pace: Pace) -> Trial:
    def quiet(span: _Span) -> int:
        """What the call would have taken without other work on the machine."""
        return round(span.took / (pace.slowness(span.begun, span.ended) or 1))

    rounds = [spans for batch in calls.batches for spans in batch]
    sides = zip(*rounds, strict=True)
    eager_ns, compiled_ns = (tuple(map(quiet, spans)) for spans in sides)
    slow = [slow for spans in rounds for span in spans if (slow := pace.slowness(span.begun, span.ended))]
    summary = calls.eager[0].report.summary
    return Trial(
        label=label,
        device=summary.device,
        emulated=summary.emulated,
        eager=_side("eager", calls.eager, quiet, calls.warm[0], eager_ns),
        compiled=_side("compiled", calls.compiled, quiet, calls.warm[1], compiled_ns),
        batches=tuple(map(len, calls.batches)),
        reload_ns=statistics.median_low(map(quiet, calls.reloads)),
        slowness=statistics.median(slow) if slow else None,
        graphs=calls.breaks.graphs,
        breaks=calls.breaks.found,
        outputs=calls.outputs,
    )


def _side(
    name: str, colds: list[_Cold], quiet: Callable[[_Span], int], warm: Report, warm_ns: tuple[int, ...]
) -> TrialSide:
    ordered = sorted(colds, key=lambda cold: quiet(cold.span))
    cold = ordered[(len(ordered) - 1) // 2]
    cold_ns, found = quiet(cold.span), cold.report.summary
    # A core on which nothing was taken has no peak of its own in the span.
    used = [item.used for item in warm.recording.memory_log.peaks] + [core.used for core in warm.recording.memory]
    return TrialSide(
        name=name,
        cold_ns=cold_ns,
        cold_runs=len(colds),
        compile_ns=round(found.compile_s * 1e9 * cold_ns / cold.span.took),
        made=found.neffs_compiled,
        neffs=warm.summary.neffs,
        warm_ns=warm_ns,
        peak_bytes=max(used, default=0),
    )
