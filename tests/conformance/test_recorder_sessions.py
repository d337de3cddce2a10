"""Sessions of the generic recorder: what each sees, and that nothing of them stays in the process."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch_neuronx
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch_neuronx import metrics

import neuron_lab
from neuron_lab import DeviceProblem, device
from neuron_lab.device import DeviceInfo, Hook, RawLog, _process, _resolve, generic
from neuron_lab.device.generic._surface import Surface
from neuron_lab.emulator import events
from tests import emulated
from tests.emulated import DEVICE


@pytest.fixture(autouse=True)
def everything_is_put_back() -> Iterator[None]:
    start, launch = threading.Thread.start, torch_neuronx._C.execute_compiled_graph
    counting = metrics.is_enabled()
    yield
    assert threading.Thread.start is start and torch_neuronx._C.execute_compiled_graph is launch
    assert metrics.is_enabled() == counting and _get_current_dispatch_mode_stack() == []


@pytest.fixture
def x() -> torch.Tensor:
    tensor = torch.ones(4, device=DEVICE)
    tensor.relu(), tensor.exp()
    return tensor


def recorded(work: Callable[[], object], session: Hook | None = None) -> RawLog:
    return emulated.recorded(work, session or generic.hook())


def ops(log: RawLog) -> list[str]:
    return [row[0] for row in log.ops]


def test_a_warm_call(x: torch.Tensor) -> None:
    log = recorded(lambda: x.relu())  # a line of this file
    ((op, kind, neff, core, thread, start_ns, end_ns, device_ns, nbytes, cold, where),) = log.ops
    assert (op, kind, len(neff), core, nbytes, cold) == ("aten::relu", "compiled", 32, 0, 32, False)
    assert thread == threading.get_ident() and 0 < device_ns <= end_ns - start_ns
    assert where[0] == __file__ and log.compiles == [] and log.synchronised


def test_a_cold_call_has_its_compile_in_one_piece() -> None:
    y = torch.empty(2, 11, device=DEVICE)
    log = recorded(y.tan)
    ((op, neff, source, _, trace_ns, lower_ns, compile_ns, signature),) = log.compiles
    assert (op, neff, source, trace_ns, lower_ns) == ("aten::tan", log.ops[0][2], "compiled", 0, 0)
    assert 0 < compile_ns < log.ops[0][6] - log.ops[0][5] and log.ops[0][7] == 0
    assert signature == "aten::tan(float32[2, 11]) default=float32"


def test_a_neff_from_disk() -> None:
    y = torch.empty(2, 12, device=DEVICE)
    y.tan()
    torch_neuronx._C._clear_compilation_memory_cache()
    log = recorded(y.tan)
    assert [row[2] for row in log.compiles] == ["disk"] and log.ops[0][9]


def test_counters_and_sets_of_the_program_stay(x: torch.Tensor) -> None:
    torch.linalg.svd(torch.ones(2, 2, device=DEVICE))
    before = set(torch_neuronx.get_fallback_ops()), set(torch_neuronx.get_executed_ops())
    recorded(x.relu)
    assert before[0] <= set(torch_neuronx.get_fallback_ops()) and before[1] <= set(torch_neuronx.get_executed_ops())


def test_nested_sessions_each_see_their_own(x: torch.Tensor) -> None:
    inner: list[RawLog] = []

    def work() -> None:
        x.relu()
        inner.append(recorded(x.exp))
        x.relu()

    assert ops(recorded(work)) == ["aten::relu", "aten::exp", "aten::relu"] and ops(inner[0]) == ["aten::exp"]


def test_sessions_that_overlap(x: torch.Tensor) -> None:
    first, second = generic.hook(), generic.hook()
    first.start(), second.start()
    x.relu()
    log = first.stop()
    x.exp()
    assert ops(log) == ["aten::relu"] and ops(second.stop()) == ["aten::relu", "aten::exp"]


def test_a_full_ring_keeps_the_totals(x: torch.Tensor) -> None:
    log = recorded(lambda: [x.relu() for _ in range(8)], generic.Hook(capacity=3))
    assert (len(log.ops), log.dropped, log.totals[0][4]) == (3, 5, 8)


def test_a_session_is_started_once(x: torch.Tensor) -> None:
    session = generic.hook()
    with pytest.raises(RuntimeError, match="is not open"):
        session.stop()
    session.start()
    with pytest.raises(RuntimeError, match="already open"):
        session.start()
    session.stop()
    assert ops(recorded(x.relu, session)) == ["aten::relu"]


def test_an_error_inside_an_op_passes_and_leaves_no_row(x: torch.Tensor) -> None:
    def fail() -> None:
        with pytest.raises(RuntimeError):
            torch.ones(2, 3, device=DEVICE) @ x
        x.exp()

    assert ops(recorded(fail))[-1] == "aten::exp" and not {"aten::mm", "aten::mv"} & set(ops(recorded(fail)))


class Worker(threading.Thread):
    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__()
        self.work = work

    def run(self) -> None:
        self.work()


def test_threads_that_the_program_starts_are_seen(x: torch.Tensor) -> None:
    def work() -> None:
        threads = [threading.Thread(target=x.relu), Worker(x.relu), Worker(lambda: Worker(x.exp).run())]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: x.exp(), range(10)))

    log = recorded(work)
    assert Counter(ops(log)) == {"aten::relu": 2, "aten::exp": 11} and len({row[4] for row in log.ops}) >= 2
    assert {row[1] for row in log.totals} == {"compiled"} and sum(row[5] for row in log.totals) == 0


def test_sessions_of_two_threads_see_both(x: torch.Tensor) -> None:
    inside, leave = threading.Event(), threading.Event()
    logs: list[RawLog] = []

    def other() -> None:
        def work() -> None:
            inside.set()
            leave.wait(10)
            x.exp()

        logs.append(recorded(work))

    thread = threading.Thread(target=other)
    thread.start()  # before the session of this one

    def work() -> None:
        inside.wait(10)
        x.relu()
        leave.set()
        thread.join()

    assert ops(recorded(work)) == ["aten::relu", "aten::exp"] and ops(logs[0]) == ["aten::relu", "aten::exp"]


def test_a_session_that_another_thread_ends(x: torch.Tensor) -> None:
    session = generic.hook()
    session.start()
    x.relu()
    with ThreadPoolExecutor(1) as pool:
        log = pool.submit(session.stop).result()
    x.relu()
    assert ops(log) == ["aten::relu"]
    assert ops(recorded(x.exp)) == ["aten::exp"]  # which takes the mode that was left along


class Doubled(TorchDispatchMode):
    """Makes two of every `exp`."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.exp.default:
            func(*args)
        return func(*args, **(kwargs or {}))


def test_modes_of_the_program_work_as_before(x: torch.Tensor) -> None:
    with Doubled():
        assert ops(recorded(x.exp)) == ["aten::exp"] * 2

    def work() -> None:
        with Doubled():
            x.exp()
        mode.__enter__()

    mode = Doubled()
    assert ops(recorded(work)) == ["aten::exp"] * 2
    assert _get_current_dispatch_mode_stack() == [mode]
    mode.__exit__(None, None, None)


def test_lazy_modules_work(x: torch.Tensor) -> None:
    def work() -> None:
        nn.LazyLinear(2).to(DEVICE)(x)

    assert "aten::linear" in ops(recorded(work))


def test_a_program_gives_the_same_values_while_it_is_recorded() -> None:
    def train() -> list[torch.Tensor]:
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.GELU(), nn.Linear(8, 2)).to(DEVICE)
        optimizer = torch.optim.AdamW(net.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.randn(6, 4, device=DEVICE)).square().mean().backward()
            optimizer.step()
        return [value.cpu() for value in net.state_dict().values()]

    expected, found = train(), []
    recorded(lambda: found.extend(train()))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.fixture
def trainium(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulated device, taken for one without a fast hook."""
    info = DeviceInfo(
        "trainium", "Trainium trn2", "torch_neuronx registered the device", 1, {"torch_neuronx": "2.14.0"}
    )
    for module in (device, _resolve, _process):
        monkeypatch.setattr(module, "resolve", lambda: info)


def test_a_profile_on_trainium(trainium: None, x: torch.Tensor) -> None:
    with neuron_lab.profile() as p:
        torch.linalg.svd((x[:, None] * x).relu())
    assert p.ops.set_index("op").calls.to_dict() == {"aten::mul.Tensor": 1, "aten::relu": 1, "aten::_linalg_svd": 1}
    text = p.to_text()
    assert "ops were waited for one by one: device time includes their dispatch" in text
    assert "emulated" not in text and "aten::_linalg_svd ran on the CPU 1×: reason not known" in text
    assert p.compiles[["trace_s", "lower_s", "xla_s"]].isna().all(axis=None) and (p.compiles.compile_s > 0).all()
    assert "waited for one by one" in p.to_html()


def step(net: nn.Module, x: torch.Tensor) -> None:
    net(x).square().mean().backward()
    torch.linalg.eigh(x.T @ x)
    assert net(x[:3]).sum().item() is not None


# Times differ, and what only the emulator tells: reasons, the parts of a compile, 64-bit values.
SAME_COLUMNS = ["op", "calls", "cold", "fallback_calls", "host_calls", "bytes"]
SAME_TOTALS = (
    *("op_calls", "cold_calls", "warm_calls", "fallback_calls", "neffs", "neffs_compiled", "neffs_loaded"),
    *("copies", "copy_bytes", "op_bytes", "syncs", "cores", "error"),
)


def test_both_recorders_give_the_same_report(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(6, 4).to(DEVICE)
    reports = []
    monkeypatch.setattr(device, "compile_history", tuple)  # what the first one compiles is the second one's past
    for make in (events.hook, generic.hook):
        monkeypatch.setattr(device, "hook", make)
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(DEVICE)
        torch_neuronx._C._clear_compilation_cache()
        with neuron_lab.profile() as p:
            step(net, x)
        reports.append(p)
    fast, slow = reports
    columns = [name for name in SAME_COLUMNS if name in fast.ops.columns]
    assert len(columns) >= 4
    by_op = [p.ops[columns].sort_values("op").reset_index(drop=True) for p in reports]
    assert by_op[0].equals(by_op[1])
    assert {name: slow.summary[name] for name in SAME_TOTALS} == {name: fast.summary[name] for name in SAME_TOTALS}
    assert [finding.code for finding in slow.findings] == [finding.code for finding in fast.findings]
    modules = [sorted(zip(p.modules.module, p.modules.calls, strict=True)) for p in reports]
    assert modules[0] == modules[1]


def test_a_graph_compiled_before_is_launched_as_it_is() -> None:
    torch._dynamo.reset()
    fast = torch.compile(nn.Linear(3, 2).to(DEVICE), backend="neuron")
    x = torch.ones(2, 3, device=DEVICE)
    with torch.no_grad():
        fast(x)
        log = recorded(lambda: (fast(x), fast(x)))
    ((op, kind, neff, _, calls, cold, *_),) = log.totals
    assert (op.startswith("graph::"), kind, len(neff), calls, cold, log.compiles) == (True, "compiled", 32, 2, 0, [])


def test_a_release_without_counters_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch_neuronx.metrics, "get_counter_value")
    with pytest.raises(DeviceProblem, match="cannot be profiled: it has no get_counter_value"):
        Surface()


def test_what_a_release_does_not_tell_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    y = torch.ones(2, 13, device=DEVICE)
    monkeypatch.delattr(torch_neuronx._C, "_get_compilation_cache_entries")
    monkeypatch.delattr(torch.neuron, "get_dynamo_metrics")
    log = recorded(lambda: (y.tan(), y.tan()))
    assert [(row[0], row[1], row[2], row[9]) for row in log.ops] == [
        ("aten::tan", "compiled", None, True),
        ("aten::tan", "compiled", None, False),
    ]
    assert [(row[0], row[1], row[2], row[7]) for row in log.compiles] == [("aten::tan", "", "compiled", "")]


def test_storages_are_not_read(x: torch.Tensor) -> None:
    log = recorded(lambda: torch.empty(0, device=DEVICE).set_(x.untyped_storage()))
    assert log.ops == [] and log.copies == []


def test_a_neff_made_again_is_the_same_one() -> None:
    y = torch.ones(2, 14, device=DEVICE)
    first = recorded(y.tan)
    torch_neuronx._C._clear_compilation_cache()
    again = recorded(lambda: (y.tan(), y.tan()))
    assert [row[2] for row in again.ops] == [first.ops[0][2]] * 2 and [row[9] for row in again.ops] == [True, False]


class Unnamed(nn.Module):
    def named_modules(self, *args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu()


def test_a_module_that_cannot_be_named_has_no_path(x: torch.Tensor) -> None:
    log = recorded(lambda: Unnamed()(x))
    assert [(row[0], row[10]) for row in log.totals] == [("aten::relu", None)]
