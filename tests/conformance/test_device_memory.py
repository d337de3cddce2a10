"""HBM: what is counted, the two shapes of the statistics, running out of it, and that nothing leaks."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch
from torch import nn

from neuron_lab.emulator import dispatch

CORE = 3
MIB = 1 << 20


def settle() -> None:
    """Let go of what earlier tests left to the garbage collector, and to the compile thread, which keeps its last job."""
    dispatch._worker.run("settled", lambda: None)
    gc.collect()


@pytest.fixture
def used() -> Callable[[], int]:
    """Bytes that the test holds on its core."""
    settle()
    before = torch.neuron.memory_allocated(CORE)
    return lambda: torch.neuron.memory_allocated(CORE) - before


def there(*sizes: int) -> torch.Tensor:
    return torch.zeros(sizes, device=f"neuron:{CORE}")


def test_a_tensor_counts_its_bytes_until_it_goes(used: Callable[[], int]) -> None:
    x = there(1000)
    held = used()
    del x
    assert (held, used()) == (4000, 0)


def test_a_view_holds_the_whole_storage(used: Callable[[], int]) -> None:
    part = there(1000)[:1]
    assert used() == 4000
    del part


def test_a_result_counts_its_bytes(used: Callable[[], int]) -> None:
    y = there(1000) + 1
    assert used() == 4000
    del y


def test_a_fallback_result_counts_its_bytes(used: Callable[[], int]) -> None:
    x = torch.randn(10, device=f"neuron:{CORE}")
    assert used() == 40
    del x


def test_a_resized_storage_counts_its_new_bytes(used: Callable[[], int]) -> None:
    x = there(10)
    x.resize_(1000)
    assert used() == 4000
    x.untyped_storage().resize_(0)
    assert used() == 0


def test_cores_count_for_themselves(used: Callable[[], int]) -> None:
    x = torch.zeros(1000, device="neuron:1")
    assert used() == 0
    del x


def test_an_in_place_op_takes_nothing(used: Callable[[], int]) -> None:
    x = there(1000)
    x.add_(1).mul_(2)
    assert used() == 4000


@pytest.mark.parametrize(
    "work",
    [
        lambda x: (x @ x).relu().sum(),
        lambda x: x[::2].t().contiguous(),
        lambda x: x.add_(1)[0, 0].item(),
        lambda x: torch.randn_like(x),
        lambda x: x[x > 0.5],
        lambda x: torch.linalg.qr(x),
        lambda x: x.cpu().to(x.device),
        lambda x: torch.cat([x, x[:0], x]),
        lambda x: x.clone().requires_grad_().exp().sum().backward(),
        lambda x: x.half().float(),
        lambda x: torch.add(x, 1, out=torch.empty(0, device=x.device)),
    ],
    ids=["matmul", "layout", "in place", "random", "mask", "fallback", "copies", "cat", "backward", "cast", "out="],
)
def test_300_iterations_leak_no_device_bytes(used: Callable[[], int], work: Callable[[torch.Tensor], object]) -> None:
    x = there(16, 16)
    for _ in range(300):
        work(x)
    settle()
    assert used() == 16 * 16 * 4


def test_training_leaks_no_device_bytes(used: Callable[[], int]) -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).to(f"neuron:{CORE}")
    optimizer = torch.optim.AdamW(module.parameters())
    held = []
    for _ in range(20):
        optimizer.zero_grad()
        module(there(4, 8)).sum().backward()
        optimizer.step()
        gc.collect()
        held.append(used())
    assert len(set(held[1:])) == 1


def test_a_failed_op_leaks_nothing(used: Callable[[], int]) -> None:
    x = there(100)
    for _ in range(20):
        with pytest.raises(RuntimeError):
            x + there(7)
    gc.collect()
    assert used() == 400


def test_the_peak_begins_anew_at_a_reset(used: Callable[[], int]) -> None:
    x = there(1000)
    torch.neuron.reset_peak_memory_stats(CORE)
    level = torch.neuron.memory_allocated(CORE)
    y = there(500)
    del y
    assert torch.neuron.max_memory_allocated(CORE) - level == 2000
    torch.neuron.reset_peak_memory_stats(CORE)
    assert torch.neuron.max_memory_allocated(CORE) == level
    del x


def test_accumulated_counts_begin_anew_at_a_reset() -> None:
    torch.neuron.reset_accumulated_memory_stats(CORE)
    x = there(1000)
    del x
    stats = torch.neuron.memory_stats(CORE)
    assert (stats["allocation_requests"], stats["num_tensor_frees"]) == (1, 1)
    assert (stats["allocated_bytes"]["allocated"], stats["allocated_bytes"]["freed"]) == (4000, 4000)


def test_the_statistics_have_both_shapes() -> None:
    x = there(1000)
    stats = torch.neuron.memory_stats(CORE)
    for name in ("allocated_bytes", "reserved_bytes", "active_bytes"):
        assert set(stats[name]) == {"current", "peak", "allocated", "freed"}
        for key, value in stats[name].items():
            assert stats[f"{name}.all.{key}"] == value
    assert (
        stats["allocated_bytes"]["current"] == torch.neuron.memory_allocated(CORE) == torch.neuron.memory_reserved(CORE)
    )
    assert {"num_alloc_retries", "num_ooms", "num_tensor_frees", "allocation_requests"} <= set(stats)
    del x


def test_torch_accelerator_tells_the_same() -> None:
    x = there(1000)
    assert torch.accelerator.memory_allocated(CORE) == torch.neuron.memory_allocated(CORE)
    assert torch.accelerator.max_memory_allocated(CORE) == torch.neuron.max_memory_allocated(CORE)
    assert torch.accelerator.memory_reserved(CORE) == torch.neuron.memory_reserved(CORE)
    flat = torch.accelerator.memory_stats(CORE)
    assert flat["allocated_bytes.all.current"] == torch.neuron.memory_stats(CORE)["allocated_bytes.all.current"]
    torch.accelerator.reset_peak_memory_stats(CORE)
    torch.accelerator.reset_accumulated_memory_stats(CORE)
    torch.accelerator.empty_cache()
    assert torch.accelerator.max_memory_allocated(CORE) == torch.neuron.memory_allocated(CORE)
    del x


def test_no_pinned_memory_is_kept_after_its_tensor() -> None:
    pinned = torch.ones(3).pin_memory()
    torch.accelerator.empty_host_cache()
    assert pinned.is_pinned() and pinned.tolist() == [1, 1, 1]


def test_the_summary_is_a_table() -> None:
    text = torch.neuron.memory_summary(CORE)
    assert text.splitlines()[:2] == ["=" * 75, f"  Neuron Memory Summary, Device {CORE} (emulated)"]
    assert len(torch.neuron.memory_summary(CORE, abbreviated=True).splitlines()) == len(text.splitlines()) - 2


@pytest.fixture
def two_mib(hbm_limit: Callable[[int], None]) -> int:
    """What is held on the core plus 2 MiB is its HBM; gives what is held."""
    settle()
    held = torch.neuron.memory_allocated(CORE)
    hbm_limit(max(held, *(torch.neuron.memory_allocated(core) for core in range(4))) + 2 * MIB)
    return held


FACTORS: dict[str, Callable[[], object]] = {
    "factory": lambda: torch.empty(3 * MIB, dtype=torch.uint8, device=f"neuron:{CORE}"),
    "from the host": lambda: torch.empty(3 * MIB, dtype=torch.uint8).to(f"neuron:{CORE}"),
    "compiled": lambda: there(1, 1000) + there(1000, 1),
    "fallback": lambda: torch.randn(MIB, device=f"neuron:{CORE}"),
    "resize_": lambda: there(1).resize_(MIB),
    "storage": lambda: torch.UntypedStorage(3 * MIB, device=f"neuron:{CORE}"),
    "contiguous": lambda: there(1).expand(MIB).contiguous(),
    "repeat": lambda: there(16).repeat(MIB),
    "out=": lambda: torch.add(there(1, 1000), there(1000, 1), out=torch.empty(0, device=f"neuron:{CORE}")),
}


@pytest.mark.usefixtures("two_mib")
@pytest.mark.parametrize("work", FACTORS.values(), ids=FACTORS)
def test_what_does_not_fit_is_out_of_memory(work: Callable[[], object]) -> None:
    with pytest.raises(torch.OutOfMemoryError, match=r"NRT allocation failed for size \d+ \(OOM\): neuron:3 has"):
        work()


@pytest.mark.parametrize("work", FACTORS.values(), ids=FACTORS)
def test_nothing_of_what_did_not_fit_stays(work: Callable[[], object], two_mib: int) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        work()
    settle()
    assert torch.neuron.memory_allocated(CORE) == two_mib
    assert (there(4) + 1).tolist() == [1, 1, 1, 1]


@pytest.mark.usefixtures("two_mib")
def test_the_message_tells_numbers_and_remedy() -> None:
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(3 * MIB, dtype=torch.uint8, device=f"neuron:{CORE}")
    text = str(caught.value)
    assert text.startswith("NRT allocation failed for size 3145728 (OOM): neuron:3 has ")
    assert (
        "HBM limit" in text and "3145728 more were asked for" in text and "smaller batch" in text and "emulated" in text
    )


@pytest.mark.usefixtures("two_mib")
def test_an_out_of_memory_error_is_counted() -> None:
    before = torch.neuron.memory_stats(CORE)["num_ooms"]
    with pytest.raises(RuntimeError):
        torch.empty(3 * MIB, dtype=torch.uint8, device=f"neuron:{CORE}")
    assert torch.neuron.memory_stats(CORE)["num_ooms"] == before + 1


@pytest.mark.usefixtures("two_mib")
def test_the_limit_is_reached_exactly() -> None:
    free, _ = torch.accelerator.get_memory_info(CORE)
    x = torch.empty(free, dtype=torch.uint8, device=f"neuron:{CORE}")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1, dtype=torch.uint8, device=f"neuron:{CORE}")
    del x


def test_out_of_memory_in_a_backward(hbm_limit: Callable[[int], None]) -> None:
    x = torch.zeros(1, device=f"neuron:{CORE}", requires_grad=True)
    y = x.expand(MIB).exp().sum()
    hbm_limit(torch.neuron.memory_allocated(CORE) + MIB)
    with pytest.raises(torch.OutOfMemoryError):
        y.backward()
    assert torch.neuron.current_device() == 0


@pytest.mark.parametrize("nbytes", [0, -1])
def test_a_limit_is_positive(nbytes: int, hbm_limit: Callable[[int], None]) -> None:
    with pytest.raises(RuntimeError, match="must be positive"):
        hbm_limit(nbytes)
