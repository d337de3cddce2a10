"""Is `torch.compile` worth it? The same program eagerly and compiled, measured side by side."""

from __future__ import annotations

import copy
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuron_lab import device, render
from neuron_lab.errors import DeviceProblem, UsageProblem
from neuron_lab.recording import Recorder, Surroundings, environment
from neuron_lab.report import (
    GraphBreak,
    OutputDifference,
    Report,
    Trial,
    TrialSide,
    trial_breaks_frame,
    trial_frame,
    trial_outputs_frame,
)

if TYPE_CHECKING:
    import pandas as pd

_CACHE = "TORCH_NEURONX_NEFF_CACHE_DIR"
_WARM_UP = 2

Clock = Callable[[], int]


class CompileTrial:
    """Eager against compiled. In a notebook it displays as tables; `.sides`, `.outputs` and `.breaks` are DataFrames."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial

    @property
    def sides(self) -> pd.DataFrame:
        """One row for eager, one for compiled: cold and compile seconds, NEFFs, warm latency in ms, peak HBM in bytes."""
        return trial_frame(self.trial)

    @property
    def outputs(self) -> pd.DataFrame:
        """One row a tensor of the result: `max_abs` and `max_rel` from the eager one."""
        return trial_outputs_frame(self.trial)

    @property
    def breaks(self) -> pd.DataFrame:
        """One row a graph break: reason and place."""
        return trial_breaks_frame(self.trial)

    @property
    def break_even(self) -> tuple[int, int, int | None] | None:
        """Calls after which compiling has paid, with the bounds of its 95 % interval; None when it never does."""
        return self.trial.break_even

    def to_text(self) -> str:
        """The comparison as text, 100 columns at most."""
        return render.trial_text(self.trial)

    def to_html(self) -> str:
        """The comparison as one self-contained HTML fragment."""
        return render.trial_html(self.trial)

    def __repr__(self) -> str:
        return f"<neuron eager against compiled: {self.trial.label}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.to_text(), "text/html": self.to_html()}


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

    Both start each call from the same tensors and random numbers. The first calls are cold: the NEFF cache on disk is an empty
    one for the time being (ops that this process has run before stay in memory). Then `rounds` warm calls of each, in turns,
    synchronised. Parameters, buffers, gradients, optimizer state, random numbers, grad mode, default device, NEFF cache and what
    Dynamo has compiled for you are as before.

    train: run backward from the result, a loss or an object with `.loss`, and compare the gradients too. A function that runs
    backward and its optimizer itself needs no `train`. rounds: at least 5. clock: nanoseconds.

    Raises UsageProblem, beginning with "not comparable", when two eager calls differ, when the results are of different kinds, or
    when nothing ran on the device; DeviceProblem when nothing can be measured. What `function` raises passes through.
    """
    if rounds < 5:
        raise UsageProblem(f"rounds={rounds}: fewer than 5 warm calls say nothing about their spread")
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
        with _empty_cache(), _dynamo_as_before():
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

    cold, _, first = bench.recorded(eager)
    bench.state.keep_made_state()
    expected = _repeated(bench, eager)
    compiled, breaks = _compiler(run)
    with breaks:
        compiled_cold, _, made = bench.recorded(compiled)
    _, result = bench.timed(compiled)
    outputs = _differences(bench.left(result), expected)
    again, _ = _compiler(run)
    reload_ns, _ = bench.timed(again)
    eager_ns, compiled_ns = _in_turns(bench, eager, compiled, rounds)
    _, _, eager_warm = bench.recorded(eager)
    _, _, compiled_warm = bench.recorded(compiled)
    summary = first.summary
    return Trial(
        label=label,
        device=summary.device,
        emulated=summary.emulated,
        eager=_side("eager", cold, first, eager_warm, eager_ns),
        compiled=_side("compiled", compiled_cold, made, compiled_warm, compiled_ns),
        reload_ns=reload_ns,
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
    if not report.summary.neffs:
        raise UsageProblem(
            "not comparable: nothing ran on the device; move the model and its inputs with .to('neuron')"
        )
    one, other = runs
    for name in one.keys() | other.keys():
        if name not in one or name not in other or not _same(one[name], other[name]):
            raise UsageProblem(
                f"not comparable: two eager calls give different values of {name} though they start alike. The function keeps "
                "state that cannot be put back; pass what it changes as arguments, or let it close over the modules"
            )
    return one


def _compiler(run: _Step) -> tuple[Callable[[], Any], _Breaks]:
    """The program compiled for the first time, apart from what the user has compiled."""
    import torch

    compiled = torch.compile(_anew(run.function), backend="neuron", dynamic=False, isolate_recompiles=True)  # type: ignore[call-overload]  # the overloads lag behind
    return (lambda: run(compiled)), _Breaks()


def _anew(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of its own that calls `function`."""

    def program(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return program


class _Breaks:
    """Collects what Dynamo says while it compiles."""

    def __init__(self) -> None:
        self.found: tuple[GraphBreak, ...] = ()
        self.graphs = 0

    def __enter__(self) -> None:
        from torch._dynamo import utils

        self._count = len(utils.graph_break_reasons)
        self._graphs = utils.counters["stats"]["unique_graphs"]

    def __exit__(self, *_: object) -> None:
        from torch._dynamo import utils

        reasons = utils.graph_break_reasons[self._count :]
        self.graphs = utils.counters["stats"]["unique_graphs"] - self._graphs
        found: dict[str, str] = {}
        for item in reasons:  # for one break Dynamo may tell two, the second in its own terms
            found.setdefault(_place(item), item.reason.strip().partition("\n")[0])
        self.found = tuple(GraphBreak(reason, where) for where, reason in found.items())


def _place(reason: Any) -> str:
    if not reason.user_stack:
        return "an unknown line"
    frame = reason.user_stack[-1]
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    named = None if shell is None else shell.compile.format_code_name(frame.filename)
    return f"{named[1] if named else os.path.basename(frame.filename)} line {frame.lineno}"


def _in_turns(
    bench: _Bench, eager: Callable[[], Any], compiled: Callable[[], Any], rounds: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Warm calls; who goes first changes from round to round."""
    times: dict[bool, list[int]] = {False: [], True: []}
    for round_ in range(-_WARM_UP, rounds):
        for second in (False, True):
            is_compiled = second != bool(round_ % 2)
            took, _ = bench.timed(compiled if is_compiled else eager)
            if round_ >= 0:
                times[is_compiled].append(took)
    return tuple(times[False]), tuple(times[True])


def _side(name: str, cold_ns: int, cold: Report, warm: Report, warm_ns: tuple[int, ...]) -> TrialSide:
    found = cold.summary
    # A core on which nothing was taken has no peak of its own in the span.
    used = [item.used for item in warm.recording.memory_log.peaks] + [core.used for core in warm.recording.memory]
    peak = max(used, default=0)
    return TrialSide(
        name, cold_ns, round(found.compile_s * 1e9), found.neffs_compiled, warm.summary.neffs, warm_ns, peak
    )


def _differences(actual: dict[str, Any], expected: dict[str, Any]) -> tuple[OutputDifference, ...]:
    if actual.keys() != expected.keys():
        names = ", ".join(sorted(actual.keys() ^ expected.keys()))
        raise UsageProblem(f"not comparable: only one of eager and compiled gives {names}")
    rows = []
    for name, want in expected.items():
        got = actual[name]
        if got.shape != want.shape or got.dtype != want.dtype:
            raise UsageProblem(
                f"not comparable: {name} is {want.dtype} {list(want.shape)} eager, {got.dtype} {list(got.shape)} compiled"
            )
        rows.append(_difference(name, got, want))
    return tuple(rows)


def _same(one: Any, other: Any) -> bool:
    alike: bool = one.shape == other.shape and one.dtype == other.dtype
    return alike and _difference("", one, other).max_abs == 0


def _difference(name: str, got: Any, want: Any) -> OutputDifference:
    import torch

    dtype = str(want.dtype).removeprefix("torch.")
    if torch.equal(got, want) or not want.numel():
        return OutputDifference(name, tuple(want.shape), dtype, 0.0, 0.0)
    wide = torch.complex128 if want.dtype.is_complex else torch.float64
    a, b = got.to(wide), want.to(wide)
    same = (a == b) | (a.isnan() & b.isnan())
    # Where only one is not a number, or infinite, nothing finite tells how far apart they are.
    apart = (a - b).abs().nan_to_num(nan=float("inf"), posinf=float("inf")).masked_fill(same, 0.0)
    relative = (apart / b.abs()).nan_to_num(nan=0.0, posinf=float("inf"))
    return OutputDifference(name, tuple(want.shape), dtype, float(apart.max()), float(relative.max()))


def _loss(result: Any) -> Any:
    import torch

    loss = result if isinstance(result, torch.Tensor) else getattr(result, "loss", None)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.grad_fn is None:
        raise UsageProblem(
            "not comparable: train needs a loss, one differentiable number or an object with .loss; "
            f"the function gave {type(result).__name__}"
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


@contextmanager
def _dynamo_as_before() -> Iterator[None]:
    """Dynamo's lists and counters are the user's; its compiled code is kept apart by `isolate_recompiles`."""
    from torch._dynamo import utils

    count, counters = len(utils.graph_break_reasons), copy.deepcopy(utils.counters)
    try:
        yield
    finally:
        del utils.graph_break_reasons[count:]
        utils.counters.clear()
        utils.counters.update(counters)


@contextmanager
def _empty_cache() -> Iterator[None]:
    """A NEFF cache of its own on disk, for as long as this lasts."""
    before = os.environ.get(_CACHE)
    with tempfile.TemporaryDirectory(prefix="neuron_lab-compare-") as folder:
        os.environ[_CACHE] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[_CACHE]
            else:
                os.environ[_CACHE] = before
