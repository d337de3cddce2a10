"""Is `torch.compile` worth it? The same program eagerly and compiled, measured side by side."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from neuron_lab import device
from neuron_lab._closeness import differences, same_values
from neuron_lab._compiled import Breaks, compiled_anew, dynamo_as_before, start_compilers
from neuron_lab._pace import Pace
from neuron_lab._trial import CompileTrial
from neuron_lab.errors import DeviceProblem, UsageProblem
from neuron_lab.recording import Recorder, Surroundings, environment, measured
from neuron_lab.report import Report, Trial, TrialSide

_WARM_UP = 2
# What slows a call down is never the program: of the first calls made within so much time the fastest is told.
_COLD_RUNS = 4
_COLD_BUDGET_NS = 12 * 10**9
_PATIENCE_NS = 3 * 10**9  # for rounds in which the machine runs at its full pace

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

    Both start each call from the same tensors and random numbers. The first calls are cold: the NEFF cache, on disk and in
    memory, is an empty one for the time being, and the compilers have been started; the fastest of up to four is told. Then
    `rounds` warm calls of each, in turns, synchronised; a round in which others slowed the machine down is repeated, for 3 s at
    most. Parameters, buffers, gradients, optimizer state, random numbers, grad mode, default device, NEFF cache and what Dynamo has
    compiled for you are as before.

    train: run backward from the result, a loss or an object with `.loss`, and compare the gradients too. A function that runs
    backward and its optimizer itself needs no `train`. rounds: at least 5. label: what the result calls the program, by default the
    function's name. clock: nanoseconds.

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
        raise UsageProblem(f"rounds={rounds!r}: fewer than 5 warm calls say nothing about their spread")
    if device.resolve().kind == "trainium":
        raise DeviceProblem(
            "comparing needs the emulator: on Trainium a recording waits for every op, which would count as compile time"
        )
    hook = device.hook()
    from neuron_lab._restore import State

    name = label or str(getattr(function, "__qualname__", type(function).__name__))
    state = State(function, (args, kwargs))
    run = _Step(function, args, kwargs, train, {id(tensor): name for name, tensor in state.tensors.items()})
    bench = _Bench(hook, state, clock, Pace(clock))
    try:
        with measured(), device.fresh_caches(), dynamo_as_before():
            return CompileTrial(_trial(name, run, bench, rounds))
    finally:
        state.close()


@dataclass(frozen=True, slots=True)
class _Trained:
    """What the program gave, and the gradients of its loss by name."""

    result: Any
    gradients: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Step:
    """The program, called with the user's arguments by either side."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    train: bool
    names: Mapping[int, str]
    """Of parameters, by id."""

    def __call__(self, function: Callable[..., Any]) -> Any:
        result = function(*self.args, **self.kwargs)
        if not self.train:
            return result
        gradients = {
            f"{self.names.get(leaf, f'input {index}')}.grad": gradient
            for index, (leaf, gradient) in enumerate(_gradients(_loss(result)))
            if gradient is not None
        }
        return _Trained(result, gradients)


@dataclass(frozen=True, slots=True)
class _Bench:
    """Runs calls from the same start and measures them."""

    hook: Any
    state: Any
    clock: Clock
    pace: Pace

    def timed(self, call: Callable[[], Any], begin: Callable[[], None] = lambda: None) -> tuple[int, Any]:
        """Nanoseconds of one synchronised call, and what it gave; `begin` is called when everything is in place."""
        import torch

        self.state.again()
        neuron = torch.get_device_module("neuron")
        neuron.synchronize()
        begin()
        begun = self.clock()
        result = call()
        neuron.synchronize()
        return self.clock() - begun, result

    def recorded(self, call: Callable[[], Any]) -> tuple[int, Any, Report]:
        """The same under a recorder, whose own cost is in the time."""
        recorder = Recorder(self.hook, environment(), surroundings=Surroundings(memory=device.core_memory))
        try:
            took, result = self.timed(call, recorder.start)
        finally:
            recorder.stop()
        return took, result, Report(recorder.finish())

    def cold(self, call: Callable[[], Any]) -> _Cold:
        """A first call; whether nothing was compiled before is the caller's business."""
        took, _, report = self.recorded(call)
        return _Cold(took, report)

    def left(self, result: Any) -> dict[str, Any]:
        """The tensors a call gave, and what it wrote to parameters and buffers, on the host."""
        import torch
        from torch.utils import _pytree as pytree

        named = result.gradients if isinstance(result, _Trained) else {}
        leaves, _ = pytree.tree_flatten_with_path(result.result if isinstance(result, _Trained) else result)
        named |= {f"result{pytree.keystr(path)}": value for path, value in leaves if isinstance(value, torch.Tensor)}
        written: dict[str, Any] = self.state.written()
        return {name: tensor.detach().cpu() for name, tensor in named.items()} | written


def _trial(label: str, run: _Step, bench: _Bench, rounds: int) -> Trial:
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
    colds = _cold_again(bench, first, lambda: eager)
    compiled_colds = _cold_again(bench, first_compiled, lambda: _compiled(run))
    reload_ns = min(bench.timed(_compiled(run))[0] for _ in compiled_colds)
    turns, repeated = _at_full_pace(bench, eager, compiled, rounds)
    eager_ns, compiled_ns = zip(*turns, strict=True)
    _, _, eager_warm = bench.recorded(eager)
    _, _, compiled_warm = bench.recorded(compiled)
    summary = first.report.summary
    return Trial(
        label=label,
        device=summary.device,
        emulated=summary.emulated,
        eager=_side("eager", colds, eager_warm, eager_ns),
        compiled=_side("compiled", compiled_colds, compiled_warm, compiled_ns),
        reload_ns=reload_ns,
        repeated=repeated,
        graphs=breaks.graphs,
        breaks=breaks.found,
        outputs=outputs,
    )


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


def _compiled(run: _Step) -> Callable[[], Any]:
    program = compiled_anew(run.function)
    return lambda: run(program)


@dataclass(frozen=True, slots=True)
class _Cold:
    """A first call, with nothing compiled before."""

    took_ns: int
    report: Report


def _cold_again(bench: _Bench, first: _Cold, anew: Callable[[], Callable[[], Any]]) -> list[_Cold]:
    """More first calls of the same program, as far as the time allows."""
    runs = [first]
    while len(runs) < _COLD_RUNS and sum(run.took_ns for run in runs) + first.took_ns <= _COLD_BUDGET_NS:
        call = anew()
        with device.fresh_caches():
            runs.append(bench.cold(call))
    return runs


def _at_full_pace(
    bench: _Bench, eager: Callable[[], Any], compiled: Callable[[], Any], rounds: int
) -> tuple[list[tuple[int, int]], int]:
    """Warm calls in turns: the rounds that the machine disturbed least, and how many others there were."""
    taken: list[tuple[int, tuple[int, int]]] = []
    pace, begun = bench.pace, bench.clock()
    for round_ in range(-_WARM_UP, 0):
        _turn(bench, eager, compiled, round_)
    before = pace.look()
    while len(taken) < rounds or (
        sum(pace.is_full(look) for look, _ in taken) < rounds and bench.clock() - begun < _PATIENCE_NS
    ):
        turn = _turn(bench, eager, compiled, len(taken))
        after = pace.look()
        taken.append((max(before, after), turn))
        before = after
    least = sorted(range(len(taken)), key=lambda index: taken[index][0])[:rounds]
    return [taken[index][1] for index in sorted(least)], len(taken) - rounds


def _turn(bench: _Bench, eager: Callable[[], Any], compiled: Callable[[], Any], round_: int) -> tuple[int, int]:
    """One call of each; who goes first changes from round to round."""
    if round_ % 2:
        took, _ = bench.timed(compiled)
        return bench.timed(eager)[0], took
    took, _ = bench.timed(eager)
    return took, bench.timed(compiled)[0]


def _side(name: str, colds: list[_Cold], warm: Report, warm_ns: tuple[int, ...]) -> TrialSide:
    cold = min(colds, key=lambda run: run.took_ns)
    found = cold.report.summary
    # A core on which nothing was taken has no peak of its own in the span.
    used = [item.used for item in warm.recording.memory_log.peaks] + [core.used for core in warm.recording.memory]
    peak = max(used, default=0)
    return TrialSide(
        name=name,
        cold_ns=cold.took_ns,
        cold_runs=len(colds),
        compile_ns=round(found.compile_s * 1e9),
        made=found.neffs_compiled,
        neffs=warm.summary.neffs,
        warm_ns=warm_ns,
        peak_bytes=peak,
    )


def _loss(result: Any) -> Any:
    import torch

    loss = result if isinstance(result, torch.Tensor) else getattr(result, "loss", None)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.grad_fn is None:
        raise UsageProblem(
            "not comparable: train needs a loss, one differentiable number or an object with .loss; "
            f"the function gave {type(result).__name__} (a cell gives the value of its last line, an expression)"
        )
    return loss


def _gradients(loss: Any) -> list[tuple[int, Any]]:
    """By every leaf that the loss depends on, with its id, in the order of ids; nothing is added to their .grad."""
    import torch

    leaves: dict[int, Any] = {}
    open_, seen = [loss.grad_fn], set()
    while open_:
        node = open_.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves[id(node.variable)] = node.variable
        open_ += [before for before, _ in node.next_functions]
    ids = sorted(leaves)
    return list(zip(ids, torch.autograd.grad(loss, [leaves[i] for i in ids], allow_unused=True), strict=True))
