"""Copies between host, device and cores; saving, pickling and storages."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.conformance._both import Program, assert_agrees, assert_fails_alike, numbers, programs
from tests.emulated import DEVICE, output_of

PLACES = ["cpu", "neuron:0", "neuron:2"]
SOURCES: dict[str, Callable[[], Tensor]] = {
    "contiguous": lambda: numbers("cpu", 2, 3),
    "transposed": lambda: numbers("cpu", 3, 2).t(),
    "steps": lambda: numbers("cpu", 2, 6)[:, ::2],
    "offset": lambda: numbers("cpu", 3, 3)[1:],
    "expanded": lambda: numbers("cpu", 3).expand(2, 3),
    "wider": lambda: numbers("cpu", 2, 3, dtype=torch.float64),
    "integers": lambda: numbers("cpu", 2, 3, dtype=torch.int64),
    "bools": lambda: numbers("cpu", 2, 3) > 2,
}


@pytest.mark.parametrize("target", PLACES)
@pytest.mark.parametrize("origin", PLACES)
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_to(source: Callable[[], Tensor], origin: str, target: str) -> None:
    moved = source().to(origin).to(target)
    assert str(moved.device) == target and torch.equal(moved.cpu(), source())


@pytest.mark.parametrize("target", PLACES)
@pytest.mark.parametrize("origin", PLACES)
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_copy_(source: Callable[[], Tensor], origin: str, target: str) -> None:
    for destination in (
        torch.empty(2, 3),
        torch.empty(3, 2).t(),
        torch.empty(2, 3, dtype=torch.float16),
        torch.empty(2, 6)[:, 1::2],
    ):
        there = (
            destination.to(target)
            if destination.is_contiguous()
            else torch.empty_strided((2, 3), destination.stride(), device=target)
        )
        there.copy_(source().to(origin))
        assert torch.equal(there.cpu(), source().to(there.dtype))


@pytest.mark.parametrize("target", PLACES)
@pytest.mark.parametrize("origin", PLACES)
def test_a_copy_broadcasts(origin: str, target: str) -> None:
    there = torch.zeros(2, 3, device=target).copy_(torch.arange(3, device=origin))
    assert there.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_a_copy_keeps_the_strides() -> None:
    assert numbers("cpu", 2, 3).t().to(DEVICE).stride() == (1, 3)


def test_to_the_same_place_is_the_same_tensor() -> None:
    x = torch.ones(2, device=DEVICE)
    assert x.to(DEVICE) is x and x.to("neuron:0") is x


def test_to_with_copy_is_another_tensor() -> None:
    x = torch.ones(2, device=DEVICE)
    assert x.to(DEVICE, copy=True).data_ptr() != x.data_ptr()


CASTS: dict[str, Program] = {
    "half": lambda d: numbers(d, 3).half(),
    "bfloat16": lambda d: numbers(d, 3).bfloat16(),
    "double": lambda d: numbers(d, 3).double(),
    "to": lambda d: numbers(d, 2, 3).t().to(torch.float16),
    "type": lambda d: numbers(d, 3).type(torch.int32),
    "type_as": lambda d: numbers(d, 3).type_as(torch.ones(1, dtype=torch.float16, device=d)),
    "to uint8": lambda d: torch.tensor([1.0, 3.7], device=d).to(torch.uint8),
    "to bool": lambda d: torch.tensor([-0.0, float("nan"), 0.1], device=d).bool(),
    "channels last": lambda d: numbers(d, 1, 2, 3, 3).to(torch.float16, memory_format=torch.channels_last),
    "clone": lambda d: numbers(d, 2, 3).t().clone(),
    "contiguous": lambda d: numbers(d, 2, 3).t().contiguous(),
    "clone of an expanded tensor": lambda d: numbers(d, 3).expand(2, 3).clone(),
}


@programs(CASTS)
def test_cast(program: Program) -> None:
    assert_agrees(program)


def test_a_cast_between_cores_changes_both() -> None:
    moved = numbers("neuron:1", 3).to("neuron:2", torch.float16)
    assert (moved.dtype, moved.device.index, moved.tolist()) == (torch.float16, 2, [0, 1, 2])


CRASHING_CASTS = [
    torch.complex64,
    torch.float8_e5m2,
    torch.float8_e4m3fn,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.complex32,
]


@pytest.mark.parametrize("dtype", CRASHING_CASTS, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_a_cast_to_a_rare_dtype(dtype: torch.dtype) -> None:
    program = f"import torch; print(torch.tensor([1.0, 2.0], device='neuron').to({dtype}).cpu().to(torch.complex64).real.tolist())"
    assert output_of(program, PYTHONWARNINGS="ignore") == "[1.0, 2.0]"


def test_named_methods_of_the_device() -> None:
    x = torch.ones(2)
    assert not x.is_neuron
    assert x.neuron().is_neuron and x.neuron(3).device.index == 3


def test_numpy_there_and_back() -> None:
    array = np.arange(6.0).reshape(2, 3)
    assert (torch.from_numpy(array).to(DEVICE).cpu().numpy() == array).all()


def test_a_numpy_array_becomes_a_device_tensor() -> None:
    assert torch.tensor(np.arange(3), device=DEVICE).tolist() == [0, 1, 2]


def test_non_blocking_copies_have_finished() -> None:
    x = torch.ones(3).pin_memory().to(DEVICE, non_blocking=True)
    assert x.to("cpu", non_blocking=True).tolist() == [1, 1, 1]


def test_pinned_memory_is_known_as_such() -> None:
    assert torch.ones(3).pin_memory().is_pinned() and torch.ones(3, pin_memory=True).is_pinned()
    assert not torch.ones(3).is_pinned()


def test_a_device_tensor_cannot_be_pinned() -> None:
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(3, device=DEVICE).pin_memory()


def saved(value: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize(
    ("map_location", "expected"), [(None, "neuron:1"), ("cpu", "cpu"), ("neuron:3", "neuron:3"), (DEVICE, "neuron:0")]
)
def test_load_puts_a_tensor_where_it_was_or_is_told(map_location: str | None, expected: str) -> None:
    loaded = torch.load(saved(numbers("neuron:1", 3)), map_location=map_location)
    assert str(loaded.device) == expected and loaded.tolist() == [0, 1, 2]


@pytest.mark.parametrize("target", [DEVICE, "neuron:2"])
def test_load_moves_a_host_tensor_to_the_device(target: str) -> None:
    loaded = torch.load(saved(torch.ones(3)), map_location=target)
    assert loaded.device.type == DEVICE and loaded.tolist() == [1, 1, 1]


def test_load_of_a_core_that_is_not_there_says_so() -> None:
    state = saved(torch.ones(1, device="neuron:3")).getvalue().replace(b"neuron:3", b"neuron:7")
    with pytest.raises(RuntimeError, match=r"(?i)neuron.*7|7.*neuron|device"):
        torch.load(io.BytesIO(state))


def test_load_keeps_views_of_one_storage_together() -> None:
    x = torch.zeros(4, device=DEVICE)
    whole, part = torch.load(saved([x, x[1:3]]))
    part.add_(1)
    assert whole.tolist() == [0, 1, 1, 0]


def test_load_maps_a_file(tmp_path: Path) -> None:
    module = nn.Linear(3, 3).to(DEVICE)
    torch.save(module.state_dict(), tmp_path / "m.pt")
    state = torch.load(tmp_path / "m.pt", mmap=True, map_location=DEVICE)
    assert state["weight"].device.type == DEVICE and torch.equal(state["weight"], module.weight)


def test_a_state_dict_moves_between_host_and_device() -> None:
    host, there = nn.Linear(3, 3), nn.Linear(3, 3).to(DEVICE)
    there.load_state_dict(host.state_dict())
    assert torch.equal(there.weight.cpu(), host.weight)


COPIERS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "clone": torch.clone,
}


@pytest.mark.parametrize("copier", COPIERS.values(), ids=COPIERS)
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_copied_tensor_stays_on_its_core(copier: Callable[[Tensor], Tensor], source: Callable[[], Tensor]) -> None:
    x = source().to("neuron:1")
    copied = copier(x)
    assert copied.device == x.device and torch.equal(copied, x)


def test_a_deepcopied_module_owns_its_parameters() -> None:
    module = nn.Linear(3, 3).to(DEVICE)
    twin = copy.deepcopy(module)
    with torch.no_grad():
        twin.weight.zero_()
    assert module.weight.abs().sum() > 0


@pytest.mark.parametrize("copier", [COPIERS["pickle"], copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_copied_parameter_wants_its_gradient(copier: Callable[[Any], Any]) -> None:
    copied = copier(nn.Parameter(torch.ones(2, device=DEVICE)))
    assert isinstance(copied, nn.Parameter) and copied.requires_grad


def test_a_storage_knows_device_and_size() -> None:
    storage = torch.ones(4, device="neuron:1").untyped_storage()
    assert storage.device == torch.device("neuron:1") and storage.nbytes() == 16


def test_a_cloned_storage_stays_on_the_device() -> None:
    clone = torch.ones(4, device=DEVICE).untyped_storage().clone()
    assert clone.device.type == DEVICE and torch.empty(0, device=DEVICE).set_(clone).tolist() == [1, 1, 1, 1]


def test_a_storage_is_filled_and_copied() -> None:
    storage = torch.UntypedStorage(16, device=DEVICE)
    storage.copy_(torch.ones(4, device=DEVICE).untyped_storage())
    there = torch.empty(0, device=DEVICE).set_(storage)
    assert there.tolist() == [1, 1, 1, 1]
    storage.fill_(0)
    assert there.tolist() == [0, 0, 0, 0]


def test_a_storage_resized_to_nothing_gives_its_memory_back_and_stays_on_the_device() -> None:
    x = torch.ones(4, device="neuron:2")
    before = torch.neuron.memory_allocated(2)
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().device == torch.device("neuron:2")
    assert before - torch.neuron.memory_allocated(2) == 16


def test_a_storage_resized_keeps_what_fits() -> None:
    x = torch.arange(4.0, device=DEVICE)
    x.untyped_storage().resize_(8)
    x.untyped_storage().resize_(16)
    assert x[:2].tolist() == [0, 1]


WITHOUT_MEMORY: dict[str, Callable[[Tensor], Any]] = {
    "op": lambda x: x + 1,
    "in place": lambda x: x.add_(1),
    "out=": lambda x: torch.add(torch.ones(4, device=DEVICE), 1, out=x),
    "fallback": lambda x: x.median(),
    "out= of a fallback": lambda x: torch.frexp(torch.ones(4, device=DEVICE), out=(x, x.int())),
    "fill": lambda x: x.fill_(1),
    "random": lambda x: x.normal_(),
    "to the host": lambda x: x.cpu(),
    "from the host": lambda x: x.copy_(torch.ones(4)),
    "clone": lambda x: x.clone(),
    "to another core": lambda x: x.to("neuron:1"),
    "tolist": lambda x: x.tolist(),
    "compiled": lambda x: torch.compile(lambda y: y * 2, backend="neuron")(x),
}


@pytest.mark.parametrize("left", [0, 8])
@pytest.mark.parametrize("use", WITHOUT_MEMORY.values(), ids=WITHOUT_MEMORY)
def test_a_storage_without_memory_is_not_touched(use: Callable[[Tensor], Any], left: int) -> None:
    x = torch.ones(4, device=DEVICE)
    x.untyped_storage().resize_(left)
    with pytest.raises(
        RuntimeError, match=f"has no memory: it needs 16 bytes of its storage, which was resized to {left}"
    ):
        use(x)


def test_set_to_another_tensor_shares_its_storage() -> None:
    x, y = torch.zeros(3, device=DEVICE), torch.ones(2, device=DEVICE)
    x.set_(y)
    x.add_(1)
    assert y.tolist() == [2, 2] and x.is_set_to(y)


def test_set_to_nothing() -> None:
    assert torch.ones(3, device=DEVICE).set_().numel() == 0


def test_set_past_the_end_grows_the_storage() -> None:
    def program(device: str) -> int:
        storage = torch.zeros(4, device=device).untyped_storage()
        torch.empty(0, device=device).set_(storage, 0, (8,), (1,))
        return storage.nbytes()

    assert_agrees(program)


def test_set_to_a_storage_of_another_place_is_refused() -> None:
    with pytest.raises(RuntimeError, match="device"):
        torch.empty(0, device=DEVICE).set_(torch.ones(3))


def test_a_storage_too_large_for_the_core_leaves_the_tensor_as_it_was(hbm_limit: Callable[[int], None]) -> None:
    x = torch.ones(4, device=DEVICE)
    hbm_limit(torch.neuron.memory_allocated() + (1 << 16))
    with pytest.raises(torch.OutOfMemoryError):
        x.untyped_storage().resize_(1 << 20)
    assert x.tolist() == [1, 1, 1, 1]


def test_resize_that_does_not_fit_is_refused_with_the_shape_of_before() -> None:
    def program(device: str) -> tuple[int, ...]:
        x = torch.ones(3, device=device)
        with pytest.raises(RuntimeError):
            x.resize_(1 << 50)
        return tuple(x.untyped_storage().size() // 4 >= n for n in x.shape)

    assert_agrees(program)


def test_an_alias_of_the_storage_outlives_the_tensor() -> None:
    x = torch.arange(4.0, device=DEVICE)
    part = x[2:]
    del x
    assert (part + 0).tolist() == [2, 3]


@programs(
    {
        "sizes": lambda d: torch.zeros(2, 3, device=d).copy_(torch.ones(4)),
        "fewer dimensions": lambda d: torch.zeros(3, device=d).copy_(torch.ones(2, 3)),
    }
)
def test_a_copy_of_another_shape_is_refused(program: Program) -> None:
    assert_fails_alike(program)
