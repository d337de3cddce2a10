"""DLPack, pinned and shared memory, storages, files, packed sequences; layouts that the device does not hold."""

from __future__ import annotations

import io
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.dlpack import DLDeviceType, to_dlpack

from tests.emulated import DEVICE, output_of

# DLPack


def test_a_tensor_through_dlpack_shares_its_memory() -> None:
    x = torch.arange(4.0, device=DEVICE)
    y = torch.from_dlpack(x)
    assert y.device == x.device and y.data_ptr() == x.data_ptr()
    y[0] = 9
    assert x.tolist() == [9, 1, 2, 3] and (y * 2).tolist() == [18, 2, 4, 6]


def test_a_capsule_keeps_the_memory() -> None:
    y = torch.from_dlpack(to_dlpack(torch.arange(4.0, device=DEVICE)))
    torch.ones(4, device=DEVICE).exp()
    assert y.tolist() == [0, 1, 2, 3]


def test_a_change_in_foreign_memory_is_seen_by_the_next_op() -> None:
    x = torch.ones(16, device=DEVICE)
    y = torch.from_dlpack(x)
    assert (y + 1).sum().item() == 32
    x.zero_()
    assert (y + 1).sum().item() == 16


def test_in_place_and_views_of_foreign_memory() -> None:
    x = torch.arange(6.0, device=DEVICE)
    y = torch.from_dlpack(x).view(2, 3).t()
    y.mul_(2)
    assert x.tolist() == [0, 2, 4, 6, 8, 10]


def test_foreign_memory_is_not_counted_twice() -> None:
    x = torch.ones(1 << 16, device=DEVICE)
    before = torch.neuron.memory_allocated()
    y = torch.from_dlpack(x)
    assert torch.neuron.memory_allocated() == before
    del y
    assert torch.neuron.memory_allocated() == before and x.sum().item() == 1 << 16


def test_the_dlpack_device() -> None:
    assert torch.ones(1, device="neuron:2").__dlpack_device__() == (DLDeviceType.kDLExtDev, 2)
    assert torch.ones(1).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)


def test_dlpack_to_and_from_the_host() -> None:
    x = torch.arange(3.0, device=DEVICE)
    assert torch.from_dlpack(x, device="cpu").device.type == "cpu"
    there = torch.from_dlpack(np.arange(3.0), device=DEVICE)
    assert there.device.type == DEVICE and there.tolist() == [0, 1, 2]


def test_a_tensor_that_wants_a_gradient_is_not_exported() -> None:
    with pytest.raises(BufferError, match="require gradient"):
        torch.from_dlpack(torch.ones(1, device=DEVICE, requires_grad=True))


@pytest.mark.parametrize(
    "convert", [np.asarray, np.from_dlpack, torch.Tensor.numpy], ids=["asarray", "from_dlpack", "numpy"]
)
def test_numpy_does_not_see_the_device(convert: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, RuntimeError, BufferError)):
        convert(torch.ones(3, device=DEVICE))


# Pinned and shared memory


def test_pinned_memory() -> None:
    x = torch.ones(3).pin_memory()
    assert x.is_pinned() and not torch.ones(3).is_pinned()
    assert x.to(DEVICE, non_blocking=True).tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(3, device=DEVICE).pin_memory()


SHARED: dict[str, Callable[[], Any]] = {
    "tensor": lambda: torch.ones(3, device=DEVICE).share_memory_(),
    "storage": lambda: torch.ones(3, device=DEVICE).untyped_storage().share_memory_(),
    "module": lambda: nn.Linear(2, 2).to(DEVICE).share_memory(),
    "sent tensor": lambda: ForkingPickler.dumps(torch.ones(3, device=DEVICE)),
    "sent parameter": lambda: ForkingPickler.dumps(nn.Parameter(torch.ones(3, device=DEVICE))),
    "sent module": lambda: ForkingPickler.dumps(nn.Linear(2, 2).to(DEVICE)),
}


@pytest.mark.parametrize("share", SHARED.values(), ids=SHARED)
def test_memory_is_not_shared_between_processes(share: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"neuron memory belongs to one process .* Share a CPU tensor, x.cpu\(\)"):
        share()


def test_host_tensors_are_shared_as_ever() -> None:
    assert torch.ones(3).share_memory_().is_shared()
    assert ForkingPickler.dumps(torch.ones(3)) and ForkingPickler.dumps(nn.Linear(2, 2))


# Modules, storages, packed sequences


def test_torch_neuron_is_a_package() -> None:
    program = "import torch.neuron, torch.neuron.memory as m; from torch.neuron import memory; print(m is memory)"
    assert output_of(program) == "True"
    program = "import torch_neuronx.memory as m, torch_neuronx.metrics as c, torch; print(m is torch.neuron.memory, c.is_enabled())"
    assert output_of(program) == "True False"


def test_generated_methods() -> None:
    assert torch.ones(2).neuron(1).device == torch.device("neuron:1")
    assert torch.ones(2).neuron().is_neuron and not torch.ones(2).is_neuron
    assert nn.Linear(2, 2).neuron(1).weight.device.index == 1


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages() -> None:
    host = torch.arange(3.0).untyped_storage()
    there = host.neuron()
    assert there.is_neuron and not host.is_neuron and there.device == torch.device("neuron:0")
    assert torch.tensor([], device=DEVICE).set_(there).tolist() == [0, 1, 2]
    typed = torch.arange(3.0).storage().neuron()
    assert typed.is_neuron and typed.tolist() == [0, 1, 2]


def test_a_packed_sequence_through_an_lstm() -> None:
    torch.manual_seed(0)
    lstm, x = nn.LSTM(2, 3, batch_first=True), torch.randn(3, 4, 2)
    packed = pack_padded_sequence(x, [4, 2, 1], batch_first=True)
    expected = pad_packed_sequence(lstm(packed)[0], batch_first=True)
    there = packed.to(DEVICE)
    assert there.data.device.type == DEVICE and there.batch_sizes.device.type == "cpu"
    lstm.to(DEVICE)
    for sent in (there, packed.neuron(), pack_padded_sequence(x.to(DEVICE), torch.tensor([4, 2, 1]), batch_first=True)):
        padded, lengths = pad_packed_sequence(lstm(sent)[0], batch_first=True)
        torch.testing.assert_close(padded.cpu(), expected[0])
        assert lengths.equal(expected[1])


# Files

MAPS: dict[str, tuple[Any, str]] = {
    "string": ("neuron:1", "neuron:1"),
    "device": (torch.device(DEVICE), "neuron:0"),
    "host": ("cpu", "cpu"),
    "dict": ({"neuron:2": "neuron:3"}, "neuron:3"),
    "function": (lambda storage, location: storage.neuron(1), "neuron:1"),
    "function that leaves it": (lambda storage, location: None, "neuron:2"),
    "nothing": (None, "neuron:2"),
}


@pytest.mark.parametrize(("place", "device"), MAPS.values(), ids=MAPS)
@pytest.mark.parametrize("old", [False, True], ids=["zip", "legacy"])
def test_map_location(place: Any, device: str, old: bool) -> None:
    file = io.BytesIO()
    torch.save({"x": torch.arange(3.0, device="neuron:2")}, file, _use_new_zipfile_serialization=not old)
    file.seek(0)
    x = torch.load(file, map_location=place)["x"]
    assert x.device == torch.device(device) and x.tolist() == [0, 1, 2]


def test_a_mapped_file(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save(torch.arange(3.0, device=DEVICE), path)
    assert torch.load(path, mmap=True, map_location=DEVICE).tolist() == [0, 1, 2]
    assert torch.load(path, weights_only=True).device.type == DEVICE


# Layouts

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "to_sparse": (lambda: torch.eye(3, device=DEVICE).to_sparse(), "aten::_to_sparse"),
    "to_sparse_csr": (lambda: torch.eye(3, device=DEVICE).to_sparse_csr(), "aten::_to_sparse_csr"),
    "sparse to the device": (lambda: torch.eye(3).to_sparse().to(DEVICE), "aten::"),
    "csr to the device": (lambda: torch.eye(3).to_sparse_csr().to(DEVICE).to_dense(), "aten::"),
    "sparse_coo_tensor": (
        lambda: torch.sparse_coo_tensor(torch.tensor([[0], [1]]), torch.ones(1), (2, 2), device=DEVICE),
        "aten::",
    ),
    "empty": (lambda: torch.empty(3, device=DEVICE, layout=torch.sparse_coo), "aten::empty"),
    "sparse host matrix": (lambda: torch.eye(3).to_sparse() @ torch.eye(3, device=DEVICE), "aten::mm"),
    "sparse_mask": (lambda: torch.eye(3, device=DEVICE).sparse_mask(torch.eye(3).to_sparse()), "aten::sparse_mask"),
    "mkldnn": (lambda: torch.eye(3, device=DEVICE).to_mkldnn(), "aten::to_mkldnn"),
    "quantize": (
        lambda: torch.quantize_per_tensor(torch.ones(3, device=DEVICE), 0.1, 0, torch.qint8),
        "aten::quantize_per_tensor",
    ),
    "quantized to the device": (
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8).to(DEVICE),
        "aten::",
    ),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).to(DEVICE), "aten::"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("use", "op"), REFUSED.values(), ids=REFUSED)
def test_a_layout_the_device_does_not_hold(use: Callable[[], Any], op: str) -> None:
    with pytest.raises(NotImplementedError, match="the neuron device holds dense tensors only") as caught:
        use()
    assert str(caught.value).startswith(op) and ".cpu()" in str(caught.value)


@pytest.mark.filterwarnings("ignore")
def test_a_sparse_gradient_is_refused_with_its_remedy() -> None:
    weight = torch.ones(3, 2, device=DEVICE, requires_grad=True)
    y = nn.functional.embedding(torch.zeros(2, dtype=torch.long, device=DEVICE), weight, sparse=True)
    with pytest.raises(NotImplementedError, match="sparse=False"):
        y.sum().backward()


def test_jagged_nested_tensors_work() -> None:
    x = torch.nested.nested_tensor([torch.ones(2, 2), torch.ones(3, 2)], device=DEVICE, layout=torch.jagged)
    assert (x * 2).sin().to_padded_tensor(0.0).shape == (2, 3, 2)


def test_fake_quantisation_works() -> None:
    assert torch.fake_quantize_per_tensor_affine(torch.ones(3, device=DEVICE), 0.1, 0, 0, 255).tolist() == [1, 1, 1]


def test_rare_dtypes_go_back_and_forth() -> None:
    x = torch.ones(3, device=DEVICE)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32):
        assert x.to(dtype).to(torch.complex64).real.tolist() == [1, 1, 1]


def test_channels_last_works_as_on_the_host() -> None:
    x = torch.ones(1, 2, 3, 3, device=DEVICE).contiguous(memory_format=torch.channels_last)
    assert x.stride() == (18, 1, 6, 2) and x.relu().stride() == (18, 1, 6, 2)
