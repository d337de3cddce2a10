"""Memory history in PyTorch's format."""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.cuda import _memory_viz

from tests.emulated import DEVICE

memory = torch.neuron.memory


@pytest.fixture(autouse=True)
def recording() -> Iterator[None]:
    memory._record_memory_history(clear_history=True)
    yield
    memory._record_memory_history(enabled=None, clear_history=True)


def segments(nbytes: int, told: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    told = told or memory._snapshot()
    return [segment for segment in told["segments"] if segment["total_size"] == nbytes]


def actions(core: int = 0) -> list[tuple[str, int]]:
    return [(event["action"], event["size"]) for event in memory._snapshot()["device_traces"][core]]


def take() -> torch.Tensor:
    return torch.empty(1234, dtype=torch.uint8, device=DEVICE)


def test_a_living_block_knows_the_line_that_took_it() -> None:
    x = take()
    (segment,) = segments(1234)
    assert (segment["address"], segment["device"], segment["segment_type"]) == (x.data_ptr(), 0, "small")
    (block,) = segment["blocks"]
    assert block["state"] == "active_allocated" and block["size"] == 1234
    frame = block["frames"][0]
    assert (frame["name"], Path(frame["filename"])) == ("take", Path(__file__))
    assert (
        Path(__file__).read_text().splitlines()[frame["line"] - 1]
        == "    return torch.empty(1234, dtype=torch.uint8, device=DEVICE)"
    )


def test_the_trace_tells_taking_and_giving_back() -> None:
    x = take()
    del x
    names = ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free"]
    assert actions() == [(name, 1234) for name in names]
    times = [event["time_us"] for event in memory._snapshot()["device_traces"][0]]
    assert times == sorted(times)


def test_results_fallbacks_and_uploads_are_traced() -> None:
    x = torch.ones(300).to(DEVICE)
    y = x.exp()
    z = torch.unique(x)
    sizes = {size for action, size in actions() if action == "alloc"}
    assert {x.nbytes, y.nbytes, z.nbytes} <= sizes


def test_each_core_has_its_trace() -> None:
    x = torch.empty(77, dtype=torch.uint8, device="neuron:2")
    assert ("alloc", 77) in actions(2) and ("alloc", 77) not in actions(0)
    assert segments(77)[0]["device"] == 2
    del x


def test_what_does_not_fit_is_traced() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 40, dtype=torch.uint8, device=DEVICE)
    (event,) = memory._snapshot()["device_traces"][0]
    assert (event["action"], event["size"]) == ("oom", 1 << 40) and 0 < event["device_free"] < 1 << 40
    assert "addr" not in event


def test_the_oldest_entries_go() -> None:
    memory._record_memory_history(max_entries=4)
    kept = [torch.empty(size, dtype=torch.uint8, device=DEVICE) for size in range(1, 9)]
    assert [size for action, size in actions() if action == "alloc"] == [5, 6, 7, 8]
    del kept


def test_without_a_record_the_blocks_are_told_all_the_same() -> None:
    memory._record_memory_history(enabled=None, clear_history=True)
    x = take()
    (segment,) = segments(1234)
    assert segment["blocks"][0]["frames"] == [] and actions() == []
    del x


def test_state_alone_keeps_frames_and_no_trace() -> None:
    memory._record_memory_history(enabled="state", clear_history=True)
    x = take()
    assert segments(1234)[0]["blocks"][0]["frames"] and actions() == []
    del x


def test_no_context_keeps_no_frames() -> None:
    memory._record_memory_history(context=None)
    x = take()
    assert segments(1234)[0]["blocks"][0]["frames"] == []
    assert memory._snapshot()["device_traces"][0][-1]["frames"] == []
    del x


def test_a_backward_is_recorded() -> None:
    x = torch.ones(50, device=DEVICE, requires_grad=True)
    (x * 2).sum().backward()
    assert ("alloc", 200) in actions()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"enabled": "yes"}, "enabled must be"),
        ({"context": "no"}, "context must be"),
        ({"stacks": "cpp"}, "stacks must be"),
        ({"max_entries": 0}, "max_entries must be"),
    ],
)
def test_another_word_is_refused(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        memory._record_memory_history(**wrong)


def test_the_dump_is_what_pytorchs_viewer_reads(tmp_path: Path) -> None:
    x, y = take(), torch.ones(1 << 19, device=DEVICE)
    del x
    path = tmp_path / "snapshot.pickle"
    memory._dump_snapshot(path)
    protocol = next(arg for op, arg, _ in pickletools.genops(path.read_bytes()) if op.name == "PROTO")
    assert protocol == 4
    told = pickle.loads(path.read_bytes())
    assert segments(2 << 20, told)[0]["segment_type"] == "large"
    assert "segments:" in _memory_viz.segsum(told)
    assert "alloc" in _memory_viz.trace(told)
    for draw in (_memory_viz.trace_plot, _memory_viz.segment_plot):
        assert draw(told)
    del y
