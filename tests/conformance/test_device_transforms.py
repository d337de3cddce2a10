"""torch.func, inference mode, torch.compile, threads and data loaders."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from tests.conformance._both import Program, assert_agrees, drawn, numbers, programs
from tests.emulated import DEVICE, output_of


def wave(x: Tensor) -> Tensor:
    return (x.sin() * x).sum()


TRANSFORMS: dict[str, Program] = {
    "vmap": lambda d: torch.vmap(torch.dot)(numbers(d, 2, 3), numbers(d, 2, 3)),
    "vmap of an in-place op": lambda d: torch.vmap(lambda x: x.clone().add_(1))(numbers(d, 2, 3)),
    "vmap with randomness": lambda d: torch.vmap(lambda x: x + torch.rand(3, device=d), randomness="same")(
        numbers(d, 2, 3)
    ),
    "grad": lambda d: torch.func.grad(wave)(numbers(d, 3)),
    "vmap of grad": lambda d: torch.vmap(torch.func.grad(wave))(numbers(d, 3, 4)),
    "jvp": lambda d: torch.func.jvp(torch.sin, (numbers(d, 3),), (torch.ones(3, device=d),)),
    "vjp": lambda d: torch.func.vjp(torch.sin, numbers(d, 3))[1](torch.ones(3, device=d)),
    "jacrev": lambda d: torch.func.jacrev(lambda x: x * x)(numbers(d, 3)),
    "jacfwd": lambda d: torch.func.jacfwd(lambda x: x * x)(numbers(d, 3)),
    "hessian": lambda d: torch.func.hessian(wave)(numbers(d, 3)),
    "functional_call": lambda d: torch.func.functional_call(
        torch.nn.Linear(3, 1),
        {"weight": torch.ones(1, 3, device=d), "bias": torch.zeros(1, device=d)},
        numbers(d, 2, 3),
    ),
    "forward mode": lambda d: _dual(d),
}


def _dual(device: str) -> list[Tensor | None]:
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(numbers(device, 3), torch.ones(3, device=device))
        return list(torch.autograd.forward_ad.unpack_dual(dual.exp()))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # PyTorch's own forward mode uses it
@programs(TRANSFORMS)
def test_transform(program: Program) -> None:
    assert_agrees(program, rtol=1e-5, atol=1e-5)


def test_inference_mode() -> None:
    with torch.inference_mode():
        x = torch.ones(3, 3, device=DEVICE)
        y = x @ x + 1
        y.add_(1)
        y[0] = 3
        assert y.is_inference() and y.tolist() == [[3, 3, 3], [5, 5, 5], [5, 5, 5]]


def test_an_op_compiled_in_inference_mode_serves_training() -> None:
    def work() -> Tensor:
        return torch.ones(13, device=DEVICE, requires_grad=True).erf()

    with torch.inference_mode():
        work()
    work().sum().backward()


def test_no_grad() -> None:
    x = drawn(DEVICE, 3)
    with torch.no_grad():
        assert not (x * 2).requires_grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile(backend: str) -> None:
    compiled = torch.compile(lambda x: x.sin() + 1, backend=backend)
    assert_agrees(lambda d: compiled(numbers(d, 3)), rtol=1e-6, atol=1e-6)


def in_threads(count: int, work: Callable[[int], object]) -> list[object]:
    """The results of `work` in threads that start together."""
    gate = threading.Barrier(count)

    def started(index: int) -> object:
        gate.wait()
        return work(index)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(started, range(count)))


def test_threads_compute() -> None:
    def work(index: int) -> bool:
        x = torch.ones(3 + index % 2, 4 + index)
        expected = torch.softmax(x @ x.t(), -1)
        return torch.allclose(torch.softmax(x.to(DEVICE) @ x.to(DEVICE).t(), -1).cpu(), expected)

    assert all(in_threads(4, work))


def test_threads_run_backwards() -> None:
    def work(index: int) -> object:
        x = torch.ones(5, device=f"neuron:{index}", requires_grad=True)
        for _ in range(5):
            (x * index).sum().backward()
        assert x.grad is not None
        return x.grad.tolist()

    assert in_threads(4, work) == [[5.0 * index] * 5 for index in range(4)]


def test_each_thread_has_its_current_core() -> None:
    def work(index: int) -> int:
        torch.neuron.set_device(index)
        return torch.ones(1, device=DEVICE).get_device()

    assert in_threads(4, work) == [0, 1, 2, 3]
    assert torch.neuron.current_device() == 0


def test_threads_that_ask_for_one_op_compile_it_once() -> None:
    import torch_neuronx

    before = torch_neuronx._C._get_compilation_cache_stats()["total_compilations"]
    x = torch.empty(3, 11, 2, device=DEVICE)
    in_threads(6, lambda _: torch.asinh(x))
    assert torch_neuronx._C._get_compilation_cache_stats()["total_compilations"] == before + 1


def test_a_tensor_goes_in_another_thread() -> None:
    before = torch.neuron.memory_allocated(1)
    held = [torch.ones(100, device="neuron:1") + 1]
    in_threads(1, lambda _: held.clear())
    gc.collect()
    assert torch.neuron.memory_allocated(1) == before


RACE = """
import sys, threading, torch
torch.neuron.init()
sys.setswitchinterval(1e-6)
tensors = [torch.ones(4, 4).to("neuron") for _ in range(16)]
gate = threading.Barrier(16)
def work(x):
    gate.wait()
    (x + x).mul(2).sigmoid().neg().exp()
threads = [threading.Thread(target=work, args=(x,)) for x in tensors]
for thread in threads: thread.start()
for thread in threads: thread.join()
import torch_neuronx
from neuron_lab.emulator import shim
print(sorted({row[0] for row in shim().plans()}))
"""


def test_threads_that_first_meet_an_op_together() -> None:
    expected = ["aten::add.Tensor", "aten::exp", "aten::mul.Tensor", "aten::neg", "aten::sigmoid"]
    assert output_of(RACE) == str(expected)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_feeds_the_device(workers: int) -> None:
    torch.ones(1, device=DEVICE)
    loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, num_workers=workers, pin_memory=True)
    batches = [batch for (batch,) in loader]
    assert all(batch.is_pinned() for batch in batches)
    assert [batch.to(DEVICE, non_blocking=True).sum().item() for batch in batches] == [6, 22]
