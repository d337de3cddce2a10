"""Where factories and the ops after them put their results, and how tensors are printed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from tests.conformance._both import Program, assert_agrees, numbers, programs
from tests.emulated import DEVICE

NAN, INF = float("nan"), float("inf")


def longs(device: str, *values: int) -> Tensor:
    return torch.tensor(values, device=device)


FACTORIES: dict[str, Program] = {
    "zeros": lambda d: torch.zeros(2, 3, device=d),
    "ones": lambda d: torch.ones(2, dtype=torch.int32, device=d),
    "full": lambda d: torch.full((2,), 7, device=d),
    "arange": lambda d: torch.arange(1, 10, 3, device=d),
    "arange of floats": lambda d: torch.arange(0, 1, 0.25, device=d),
    "linspace": lambda d: torch.linspace(0, 1, 5, device=d),
    "logspace": lambda d: torch.logspace(0, 2, 3, device=d),
    "eye": lambda d: torch.eye(2, 3, device=d),
    "tensor": lambda d: torch.tensor([[1, 2], [3, 4]], device=d),
    "as_tensor": lambda d: torch.as_tensor([1.5, 2], device=d),
    "scalar_tensor": lambda d: torch.scalar_tensor(3, device=d),
    "tril_indices": lambda d: torch.tril_indices(3, 3, device=d),
    "hann_window": lambda d: torch.hann_window(5, device=d),
    "complex": lambda d: torch.complex(torch.ones(2, device=d), torch.zeros(2, device=d)),
    "randint": lambda d: torch.randint(0, 9, (3,), device=d),
    "zeros_like": lambda d: torch.zeros_like(torch.ones(3, 2, device=d).t()),
    "full_like": lambda d: torch.full_like(torch.ones(2, device=d), 5, dtype=torch.int64),
    "new_tensor": lambda d: torch.ones(2, device=d).new_tensor([1, 2]),
    "new_zeros": lambda d: torch.ones(2, device=d).new_zeros(3),
    "new_full": lambda d: torch.ones(2, device=d).new_full((2,), 3),
    "meshgrid": lambda d: torch.meshgrid(numbers(d, 2), numbers(d, 3), indexing="ij"),
    "vander": lambda d: torch.vander(numbers(d, 3)),
}


@programs(FACTORIES)
def test_factory(program: Program) -> None:
    assert_agrees(program)


@pytest.mark.parametrize("core", range(4))
@programs(FACTORIES)
def test_a_factory_makes_its_tensor_on_the_core_it_is_given(program: Program, core: int) -> None:
    made = program(f"neuron:{core}")
    for tensor in made if isinstance(made, tuple) else [made]:
        assert tensor.device == torch.device(DEVICE, core) and tensor.untyped_storage().device == tensor.device


COMPUTED: dict[str, Program] = {
    "compiled": lambda d: torch.ones(3, device=d) + 1,
    "view": lambda d: torch.ones(3, device=d)[1:],
    "copy": lambda d: torch.ones(3, 2, device=d).t().contiguous(),
    "cast": lambda d: torch.ones(3, device=d).half(),
    "random": lambda d: torch.randn_like(torch.ones(3, device=d)),
    "fallback": lambda d: torch.linalg.qr(torch.eye(2, device=d))[0],
    "sized by its data": lambda d: torch.nonzero(torch.ones(3, device=d)),
    "masked": lambda d: torch.ones(3, device=d)[torch.ones(3, device=d) > 0],
    "empty": lambda d: torch.empty(0, device=d) + 1,
    "reduction to 0-d": lambda d: torch.ones(3, device=d).sum(),
    "gradient": lambda d: _gradient(d),
    "index on the host": lambda d: torch.ones(3, device=d)[torch.tensor([1])],
    "number on the host": lambda d: torch.tensor(2.0) * torch.ones(3, device=d),
    "dropout": lambda d: torch.dropout(torch.ones(3, device=d), 0.5, True),
    "out=": lambda d: torch.add(torch.ones(3, device=d), 1, out=torch.empty(0, device=d)),
    "resized": lambda d: torch.empty(0, device=d).resize_(5),
}


def _gradient(device: str) -> torch.Tensor:
    x = torch.ones(3, device=device, requires_grad=True)
    (x.exp() * 2).sum().backward()
    assert x.grad is not None
    return x.grad


@pytest.mark.parametrize("core", range(4))
@programs(COMPUTED)
def test_results_stay_on_their_core(program: Program, core: int) -> None:
    made = program(f"neuron:{core}")
    assert made.device == made.untyped_storage().device == torch.device(DEVICE, core)
    assert torch.neuron.current_device() == 0


def test_empty_strided_has_the_strides_it_is_given() -> None:
    assert torch.empty_strided((2, 3), (1, 2), device=DEVICE).stride() == (1, 2)


def test_a_printed_tensor_names_its_device() -> None:
    assert repr(torch.arange(3, device="neuron:1")) == "tensor([0, 1, 2], device='neuron:1')"


@programs(
    {
        "large": lambda d: repr(numbers(d, 60, 60)),
        "complex": lambda d: repr(torch.tensor([1 + 2j], device=d)),
        "empty": lambda d: repr(torch.empty(0, device=d)),
        "gradient": lambda d: repr(torch.ones(2, device=d, requires_grad=True) * 2),
        "parameter": lambda d: repr(torch.nn.Parameter(torch.ones(2, device=d))),
        "bool": lambda d: repr(torch.tensor([True], device=d)),
        "format": lambda d: f"{torch.tensor(1.5, device=d):.3f}",
    }
)
def test_what_is_printed_is_what_the_cpu_prints(program: Program) -> None:
    shown = program(DEVICE).replace(", device='neuron:0'", "")
    assert shown == program("cpu")


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
@programs(
    {
        "empty": lambda d: torch.empty(3, device=d),
        "integers": lambda d: torch.empty(3, dtype=torch.int16, device=d),
        "empty_strided": lambda d: torch.empty_strided((2, 2), (1, 2), device=d),
        "empty_like": lambda d: torch.empty_like(torch.ones(2, 3, device=d).t()),
        "resize_": lambda d: torch.ones(2, device=d).resize_(5),
        "resize_ to less": lambda d: torch.ones(4, device=d).resize_(2),
    }
)
def test_what_is_not_written_yet_is_filled_when_algorithms_are_deterministic(program: Program) -> None:
    assert_agrees(program)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr], ids=str)
def test_a_sparse_factory_is_refused(layout: torch.layout) -> None:
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.empty(2, 2, layout=layout, device=DEVICE)


def test_numpy_asks_for_the_host() -> None:
    with pytest.raises(TypeError, match=r"can't convert neuron:0 device type tensor to numpy. Use Tensor.cpu()"):
        torch.ones(3, device=DEVICE).numpy()
