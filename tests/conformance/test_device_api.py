"""torch.neuron, torch.accelerator and torch_neuronx: cores, streams, events, tracking and the compilation cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch_neuronx
from torch import Tensor

from tests.emulated import DEVICE, output_of

accelerator = torch.accelerator


def core_of_a_new_tensor() -> int:
    return torch.empty(1, device=DEVICE).get_device()


def test_the_device_is_the_accelerator() -> None:
    assert accelerator.is_available() and accelerator.current_accelerator() == torch.device(DEVICE)


def test_there_are_four_cores() -> None:
    assert accelerator.device_count() == torch.neuron.device_count() == torch_neuronx.device_count() == 4


def test_it_is_initialised_once_used() -> None:
    torch.neuron.init()
    assert torch.neuron.is_initialized() and torch.neuron._initialized and not torch.neuron._is_in_bad_fork()


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    assert not hasattr(torch.neuron, "no_such_thing")


@pytest.mark.parametrize("device", [2, "neuron:2", torch.device("neuron:2")], ids=repr)
def test_set_device(device: Any) -> None:
    torch.neuron.set_device(device)
    assert torch.neuron.current_device() == accelerator.current_device_index() == core_of_a_new_tensor() == 2
    torch.neuron.set_device(0)


def test_a_negative_core_changes_nothing() -> None:
    torch.neuron.set_device(-1)
    assert torch.neuron.current_device() == 0


CONTEXTS: dict[str, Callable[[int], Any]] = {
    "torch.neuron.device": torch.neuron.device,
    "torch.neuron.device_of": lambda core: torch.neuron.device_of(torch.empty(1, device=f"neuron:{core}")),
    "torch.accelerator.device_index": accelerator.device_index,
    "torch.device": lambda core: torch.device(DEVICE, core),
}


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_a_context_changes_the_core_until_it_ends(context: Callable[[int], Any]) -> None:
    with context(3):
        inside = torch.empty(1).get_device() if isinstance(context(3), torch.device) else core_of_a_new_tensor()
    assert (inside, core_of_a_new_tensor()) == (3, 0)


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_a_context_that_raises_puts_the_core_back(context: Callable[[int], Any]) -> None:
    with pytest.raises(KeyError), context(3):
        raise KeyError
    assert torch.neuron.current_device() == 0


def test_device_of_a_host_tensor_changes_nothing() -> None:
    with torch.neuron.device(1), torch.neuron.device_of(torch.ones(1)):
        assert core_of_a_new_tensor() == 1


def test_set_device_index() -> None:
    accelerator.set_device_index(1)
    assert core_of_a_new_tensor() == 1
    accelerator.set_device_index(0)


@pytest.mark.parametrize("device", [None, 1, "neuron:1"], ids=repr)
def test_synchronize(device: Any) -> None:
    torch.neuron.synchronize(device)
    accelerator.synchronize(device)


def test_names_and_properties() -> None:
    properties = torch.neuron.get_device_properties(1)
    assert torch.neuron.get_device_name(1) == "neuron:1"
    assert (properties.name, properties.total_memory, properties.emulated) == ("trn2", 24 << 30, True)


def test_memory_info() -> None:
    free, total = accelerator.get_memory_info(3)
    assert total == 24 << 30 and free == total - torch.neuron.memory_allocated(3)


def test_sleep_does_nothing() -> None:
    assert torch.neuron._sleep(10**9) is None


def test_torch_neuronx_is_emulated_and_says_so() -> None:
    assert torch_neuronx.__version__.endswith("+emulated")


def test_torch_neuronx_offers_what_torch_neuron_does() -> None:
    assert all(getattr(torch_neuronx, name) is getattr(torch.neuron, name) for name in torch.neuron.__all__)


@pytest.fixture
def default_device() -> Iterator[None]:
    torch.set_default_device("neuron:1")
    yield
    torch.set_default_device(None)


@pytest.mark.usefixtures("default_device")
def test_a_default_device_makes_modules_and_data_on_it() -> None:
    module = torch.nn.Linear(2, 2)
    loss = module(torch.randn(2, 2)).sum()
    loss.backward()
    assert module.weight.grad is not None
    assert loss.get_device() == module.weight.grad.get_device() == torch.tensor([1]).get_device() == 1


@pytest.mark.usefixtures("default_device")
def test_a_default_device_does_not_reach_the_compiler() -> None:
    assert (torch.ones(11, 3) * 3 + torch.ones(3)).sum().item() == 132


def test_streams_are_pooled() -> None:
    streams = [torch.neuron.Stream() for _ in range(20)]
    assert len({stream.stream_id for stream in streams}) == 8
    assert torch.neuron.default_stream().stream_id == 0


def test_a_stream_is_current_until_its_context_ends() -> None:
    stream = torch.neuron.Stream()
    with torch.neuron.stream(stream):
        assert torch.neuron.current_stream() == accelerator.current_stream() == stream
        x = torch.ones(3, device=DEVICE) + 1
    assert torch.neuron.current_stream() == torch.neuron.default_stream() and x.tolist() == [2, 2, 2]


def test_a_stream_of_another_core_puts_stream_and_core_back() -> None:
    with torch.neuron.stream(torch.neuron.Stream(device=2)):
        assert core_of_a_new_tensor() == 2
    assert torch.neuron.current_device() == 0
    assert torch.neuron.current_stream(2) == torch.neuron.default_stream(2)


def test_nested_streams() -> None:
    outer, inner = torch.neuron.Stream(), torch.neuron.Stream()
    with torch.neuron.stream(outer):
        with torch.neuron.stream(inner):
            pass
        assert torch.neuron.current_stream() == outer


def test_no_stream_changes_nothing() -> None:
    before = torch.neuron.current_stream()
    with torch.neuron.stream(None):
        torch.neuron.set_stream(None)
        assert torch.neuron.current_stream() == before


def test_set_stream() -> None:
    stream = torch.neuron.Stream()
    torch.neuron.set_stream(stream)
    assert torch.neuron.current_stream() == stream
    torch.neuron.set_stream(torch.neuron.default_stream())


def test_a_plain_stream_is_a_context() -> None:
    with torch.Stream(device=DEVICE) as stream:
        assert accelerator.current_stream() == stream
    assert accelerator.current_stream() == torch.neuron.default_stream()


def test_streams_are_always_idle() -> None:
    stream = torch.neuron.Stream()
    event = stream.record_event()
    stream.wait_event(event)
    stream.wait_stream(torch.neuron.default_stream())
    stream.synchronize()
    event.synchronize()
    event.wait(stream)
    assert stream.query() and event.query()


def test_a_stream_knows_its_core() -> None:
    assert torch.neuron.Stream("neuron:3").device == torch.device("neuron:3")


def test_record_stream_does_nothing() -> None:
    x = torch.ones(3, device=DEVICE)
    x.record_stream(torch.neuron.Stream())
    assert x.sum().item() == 3


def recorded(*, timed: bool = True, core: int = 0) -> torch.neuron.Event:
    event = torch.neuron.Event(enable_timing=timed)
    event.record(torch.neuron.default_stream(core))
    return event


def test_an_event_tells_the_time_to_a_later_one() -> None:
    assert recorded().elapsed_time(recorded()) >= 0


def test_plain_events_tell_the_time() -> None:
    events = [torch.Event(device=DEVICE, enable_timing=True) for _ in range(2)]
    for event in events:
        event.record()
    assert events[0].elapsed_time(events[1]) >= 0


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (lambda: recorded(timed=False), recorded, "Event was not created with timing enabled"),
        (recorded, lambda: recorded(timed=False), "Event was not created with timing enabled"),
        (lambda: torch.neuron.Event(enable_timing=True), recorded, "Event has not been recorded"),
        (recorded, lambda: torch.neuron.Event(enable_timing=True), "Event has not been recorded"),
        (recorded, lambda: recorded(core=1), "Events must be on the same device"),
    ],
)
def test_events_without_a_time_between_them(start: Callable[[], Any], end: Callable[[], Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        start().elapsed_time(end())


def test_elapsed_time_takes_an_event() -> None:
    with pytest.raises(TypeError, match=r"takes a torch.neuron.Event"):
        recorded().elapsed_time(torch.Event(device=DEVICE, enable_timing=True))


@pytest.fixture
def tracking() -> None:
    torch_neuronx.clear_op_tracking()


@pytest.mark.usefixtures("tracking")
def test_executed_ops_have_their_full_names() -> None:
    x = torch.zeros(3, device=DEVICE)
    torch_neuronx.clear_op_tracking()
    (x + 1).relu()
    assert sorted(torch_neuronx.get_executed_ops()) == ["aten::add.Tensor", "aten::relu"]


@pytest.mark.usefixtures("tracking")
def test_a_fallback_is_tracked_as_one() -> None:
    torch.unique(torch.ones(3, device=DEVICE))
    assert "aten::_unique2" in torch_neuronx.get_fallback_ops()
    assert set(torch_neuronx.get_fallback_ops()) <= set(torch_neuronx.get_executed_ops())


@pytest.mark.usefixtures("tracking")
def test_views_and_copies_are_not_tracked() -> None:
    x = torch.empty(2, 3, device=DEVICE)
    x.t().view(-1) if x.t().is_contiguous() else x.view(-1)
    x[0].unsqueeze(0).expand(2, 3).cpu()
    x.copy_(torch.ones(3))
    assert torch_neuronx.get_executed_ops() == []


@pytest.mark.usefixtures("tracking")
def test_linear_is_an_op_of_its_own() -> None:
    module = torch.nn.Linear(3, 2).to(DEVICE)
    torch_neuronx.clear_op_tracking()
    module(torch.empty(2, 3, device=DEVICE))
    assert torch_neuronx.get_executed_ops() == ["aten::linear"]


@pytest.mark.usefixtures("tracking")
def test_cleared_tracking_is_empty() -> None:
    torch.ones(3, device=DEVICE).exp()
    torch_neuronx.clear_op_tracking()
    assert torch_neuronx.get_executed_ops() == torch_neuronx.get_fallback_ops() == []


def changes(work: Callable[[], Any]) -> dict[str, float]:
    """What a piece of work adds to the cache's counts."""
    before = torch_neuronx._C._get_compilation_cache_stats()
    work()
    after = torch_neuronx._C._get_compilation_cache_stats()
    return {name: after[name] - before[name] for name in before}


@pytest.fixture
def cold() -> Callable[[], Tensor]:
    """An op call that nothing has compiled yet."""
    torch_neuronx._C._clear_compilation_cache()
    x = torch.empty(3, 5, 7, device=DEVICE)
    return lambda: torch.atan(x)


def test_a_cold_op_counts_two_misses(cold: Callable[[], Tensor]) -> None:
    added = changes(cold)
    assert (
        added["cache_misses"],
        added["in_memory_misses"],
        added["persistent_misses"],
        added["total_compilations"],
    ) == (2, 1, 1, 1)
    assert added["cache_hits"] == 0 and added["total_entries"] == 1 and added["total_compilation_time_ms"] > 0


def test_a_warm_op_counts_one_hit(cold: Callable[[], Tensor]) -> None:
    cold()
    added = changes(cold)
    assert (added["cache_hits"], added["in_memory_hits"], added["cache_misses"], added["total_entries"]) == (1, 1, 0, 0)


def test_an_op_from_disk_counts_a_miss_and_a_hit(cold: Callable[[], Tensor]) -> None:
    cold()
    torch_neuronx._C._clear_compilation_memory_cache()
    added = changes(cold)
    assert (
        added["persistent_hits"],
        added["in_memory_misses"],
        added["persistent_misses"],
        added["total_compilations"],
    ) == (1, 1, 0, 0)


def test_a_cleared_cache_compiles_again(cold: Callable[[], Tensor]) -> None:
    cold()
    torch_neuronx._C._clear_compilation_cache()
    assert torch_neuronx._C._get_all_cache_keys() == []
    assert changes(cold)["total_compilations"] == 1


def test_an_entry_tells_about_its_neff(cold: Callable[[], Tensor]) -> None:
    cold()
    cold()
    (entry,) = torch_neuronx._C._get_compilation_cache_entries()
    assert (
        entry["cache_key"]
        == torch_neuronx._C._get_all_cache_keys()[0]
        == "aten::atan(float32[3, 5, 7]) default=float32"
    )
    assert (entry["op"], entry["access_count"], len(entry["neff"])) == ("aten::atan", 2, 32)
    assert entry["neff_size_bytes"] > 1024 and entry["compilation_time_ms"] > 0


def test_the_keys_of_the_statistics() -> None:
    assert set(torch_neuronx._C._get_compilation_cache_stats()) == {
        *(
            "total_entries",
            "in_memory_hits",
            "in_memory_misses",
            "persistent_hits",
            "persistent_misses",
            "cache_hits",
            "cache_misses",
        ),
        *("hit_rate", "memory_usage_bytes", "total_compilation_time_ms", "evictions_performed", "total_compilations"),
        *("max_cache_size_bytes", "max_cache_entries", "memory_utilization_ratio"),
    }


def test_the_profiler_of_pytorch_sees_the_ops() -> None:
    x = torch.ones(3, device=DEVICE)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        x + 1
    assert "aten::add" in {row.key for row in profile.key_averages()}


LAST_BACKWARD = """
import torch
x = torch.ones(2, device="neuron", requires_grad=True)
(x * 2).sum().backward()
x.register_hook(lambda grad: torch.autograd.Variable._execution_engine.queue_callback(lambda: print("done")))
(x * 2).sum().backward()
"""


@pytest.mark.parametrize("attempt", range(4))
def test_a_backward_with_a_callback_is_the_last_thing_of_a_program(attempt: int) -> None:
    """Its thread and the end of the process meet: without care one attempt in four ends with SIGABRT."""
    assert output_of(LAST_BACKWARD) == "done"
