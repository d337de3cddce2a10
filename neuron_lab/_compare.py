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
from neuron_lab._trial import CompileTrial
from neuron_lab.errors import DeviceProblem, UsageProblem
from neuron_lab.recording import Recorder, Surroundings, environment, measured
from neuron_lab.report import Report, Trial, TrialSide

# Other work on the machine only ever makes a call longer: of the first calls made within so much time the fastest is told.
_COLD_RUNS = 6
_COLD_BUDGET_NS = 12 * 10**9
# As many rounds as asked for are told, of those between all first calls; more are made while these are not as alike as that.
_BATCH = 5
_ALIKE = 1.1
_PATIENCE_NS = 3 * 10**9

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
    memory, is an empty one for the time being, and the compilers have been started; the fastest of up to six is told. Warm calls of
    each are made in turns, synchronised, between the first calls and after them; the fastest `rounds` are told. Parameters, buffers,
    gradients, optimizer state, random numbers, grad mode, default device, NEFF cache and what Dynamo has compiled for you are as
    before.

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
    bench = _Bench(hook, state, clock)
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
    turns = _Turns(bench, eager, compiled)
    colds = _cold_again(bench, first, lambda: eager, turns)
    compiled_colds = _cold_again(bench, first_compiled, lambda: _compiled(run), turns)
    reload_ns = _reload_ns(bench, run, len(compiled_colds), turns)
    told = turns.fastest(rounds)
    eager_ns, compiled_ns = zip(*told, strict=True)
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
        left_out=len(turns.taken) - rounds,
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


class _Turns:
    """Warm calls in turns, (eager, compiled) in nanoseconds: in batches, spread over the time that the comparison takes."""

    def __init__(self, bench: _Bench, eager: Callable[[], Any], compiled: Callable[[], Any]) -> None:
        self._bench, self._eager, self._compiled = bench, eager, compiled
        self.taken: list[tuple[int, int]] = []

    def take(self) -> None:
        """A batch; what ran before it may have left nothing in the processor's caches, so there is one round more."""
        self._turn()
        for _ in range(_BATCH):
            self.taken.append(self._turn())

    def fastest(self, rounds: int) -> list[tuple[int, int]]:
        """So many rounds, in the order in which they were taken."""
        until = self._bench.clock() + _PATIENCE_NS
        while len(self.taken) < rounds or (not self._alike(rounds) and self._bench.clock() < until):
            self.take()
        least = sorted(range(len(self.taken)), key=lambda index: sum(self.taken[index]))[:rounds]
        return [self.taken[index] for index in sorted(least)]

    def _alike(self, rounds: int) -> bool:
        lengths = sorted(map(sum, self.taken))
        return lengths[rounds - 1] <= lengths[0] * _ALIKE

    def _turn(self) -> tuple[int, int]:
        """One call of each; who goes first changes from round to round."""
        if len(self.taken) % 2:
            took, _ = self._bench.timed(self._compiled)
            return self._bench.timed(self._eager)[0], took
        took, _ = self._bench.timed(self._eager)
        return took, self._bench.timed(self._compiled)[0]


def _cold_again(bench: _Bench, first: _Cold, anew: Callable[[], Callable[[], Any]], turns: _Turns) -> list[_Cold]:
    """More first calls of the same program, as far as the time allows."""
    runs = [first]
    while len(runs) < _COLD_RUNS and sum(run.took_ns for run in runs) + first.took_ns <= _COLD_BUDGET_NS:
        turns.take()
        call = anew()
        with device.fresh_caches():
            runs.append(bench.cold(call))
    return runs


def _reload_ns(bench: _Bench, run: _Step, runs: int, turns: _Turns) -> int:
    """The fastest of so many first calls whose NEFFs are on disk."""
    found = []
    for _ in range(runs):
        turns.take()
        found.append(bench.timed(_compiled(run))[0])
    return min(found)


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
