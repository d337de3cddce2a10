"""torch.profiler shows the device: NEURON columns, kernels and copies, memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.flop_counter import FlopCounterMode

from tests.emulated import DEVICE

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


@pytest.fixture
def x() -> torch.Tensor:
    tensor = torch.ones(16, 16, device=DEVICE)
    tensor @ tensor, tensor.relu()
    return tensor


def profiled(work: Callable[[], Any], **options: Any) -> Any:
    with profile(activities=BOTH, **options) as found:
        work()
    return found


def trace(found: Any, folder: Path) -> list[dict[str, Any]]:
    path = folder / "trace.json"
    found.export_chrome_trace(str(path))
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def test_the_activity_is_supported() -> None:
    assert ProfilerActivity.PrivateUse1 in torch.profiler.supported_activities()


def test_an_op_has_device_time_inside_its_own(x: torch.Tensor) -> None:
    rows = profiled(lambda: (x @ x, x.relu())).key_averages()
    found = {row.key: row for row in rows if row.device_type.name == "CPU"}
    for op in ("aten::mm", "aten::relu"):
        assert 0 < found[op].self_device_time_total <= found[op].self_cpu_time_total
    assert "Self NEURON" in rows.table()


def test_a_fallback_has_no_device_time(x: torch.Tensor) -> None:
    rows = profiled(lambda: torch.unique(x)).key_averages()
    (row,) = [row for row in rows if row.key == "aten::_unique2"]
    assert row.self_device_time_total == 0


def test_the_trace_has_kernels_copies_and_their_ops(x: torch.Tensor, tmp_path: Path) -> None:
    found = trace(profiled(lambda: torch.ones(8).to(DEVICE).relu().cpu()), tmp_path)
    (kernel,) = [event for event in found if event.get("cat") == "kernel"]
    assert kernel["name"] == "aten::relu" and kernel["args"]["emulated"] and len(kernel["args"]["neff"]) == 32
    (op,) = [event for event in found if event.get("cat") == "cpu_op" and event["name"] == "aten::relu"]
    assert op["args"]["External id"] == kernel["args"]["External id"]
    assert op["ts"] <= kernel["ts"] and kernel["ts"] + kernel["dur"] <= op["ts"] + op["dur"] + 1
    copies = [event["name"] for event in found if event.get("cat") == "gpu_memcpy"]
    assert copies == ["Memcpy HtoD", "Memcpy DtoH"]
    assert any(event.get("cat") == "ac2g" for event in found)
    labels = [event["args"]["labels"] for event in found if event.get("name") == "process_labels"]
    assert "emulated neuron:0" in labels


def test_each_core_is_a_device_of_its_own(tmp_path: Path) -> None:
    y = torch.ones(16, 16, device="neuron:2")
    y.relu()
    found = trace(profiled(lambda: y.relu()), tmp_path)
    assert [event["pid"] for event in found if event.get("cat") == "kernel"] == [2]


def test_memory_is_told(x: torch.Tensor) -> None:
    rows = profiled(lambda: x.relu(), profile_memory=True).key_averages()
    (row,) = [row for row in rows if row.key == "aten::relu" and row.device_type.name == "CPU"]
    assert row.self_device_memory_usage == x.nbytes


def test_a_backward_in_autograds_thread(x: torch.Tensor) -> None:
    y = x.clone().requires_grad_()

    def step() -> None:
        (y @ y).sum().backward()

    step()
    names = [row.key for row in profiled(step).key_averages() if row.device_type.name != "CPU"]
    assert names.count("aten::mm") == 1


def test_a_schedule_of_steps(x: torch.Tensor) -> None:
    seen: list[int] = []

    def ready(found: Any) -> None:
        seen.append(sum(row.count for row in found.key_averages() if row.device_type.name != "CPU"))

    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(activities=BOTH, schedule=plan, on_trace_ready=ready, acc_events=True) as found:
        for _ in range(8):
            x.relu()
            found.step()
    assert seen == [2, 4]


def test_the_device_alone(x: torch.Tensor) -> None:
    with profile(activities=[ProfilerActivity.PrivateUse1]) as found:
        x.relu()
    assert [event.name for event in found.events()] == ["aten::relu"]


def test_nothing_is_recorded_after_a_profile(x: torch.Tensor) -> None:
    profiled(x.relu)
    x.relu()
    assert sum(row.count for row in profiled(x.relu).key_averages() if row.device_type.name != "CPU") == 1


def test_the_older_profiler(x: torch.Tensor) -> None:
    with torch.autograd.profiler.profile(use_device=DEVICE) as found:
        x.relu()
    (row,) = [row for row in found.key_averages() if row.key == "aten::relu" and row.device_type.name == "CPU"]
    assert row.device_time_total > 0


@pytest.mark.parametrize("sizes", [(8,), (2, 8), (2, 3, 8)])
@pytest.mark.parametrize("grad", [False, True])
def test_flops_of_a_layer_and_its_backward_are_counted(sizes: tuple[int, ...], grad: bool) -> None:
    totals = []
    for device in ("cpu", DEVICE):
        layer = torch.nn.Linear(8, 4).to(device)
        with FlopCounterMode(display=False) as counter:
            layer(torch.ones(sizes, device=device, requires_grad=grad)).sum().backward()
        totals.append(counter.get_total_flops())
    assert totals[0] == totals[1] > 0
