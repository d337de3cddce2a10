"""Mixed devices, indices out of range and cores that do not exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.conformance._both import Program, assert_agrees, assert_fails_alike, numbers, programs
from tests.emulated import DEVICE


def ones(*sizes: int) -> Tensor:
    return torch.ones(sizes, device=DEVICE)


HOST_TENSORS: dict[str, Callable[[], Any]] = {
    "add": lambda: ones(3) + torch.ones(3),
    "add, reversed": lambda: torch.ones(3) + ones(3),
    "sub": lambda: ones(3) - torch.ones(3),
    "mul": lambda: ones(3) * torch.ones(3),
    "add_": lambda: ones(3).add_(torch.ones(3)),
    "cat": lambda: torch.cat([ones(3), torch.ones(3)]),
    "stack": lambda: torch.stack([torch.ones(3), ones(3)]),
    "where": lambda: torch.where(torch.ones(3, dtype=torch.bool), ones(3), ones(3)),
    "matmul": lambda: ones(2, 2) @ torch.ones(2, 2),
    "module": lambda: nn.Linear(3, 3).to(DEVICE)(torch.ones(2, 3)),
    "host module": lambda: nn.Linear(3, 3)(ones(2, 3)),
    "embedding": lambda: F.embedding(torch.zeros(2, dtype=torch.long), ones(3, 3)),
    "index_select": lambda: ones(3).index_select(0, torch.tensor([0])),
    "index_copy": lambda: ones(3).index_copy(0, torch.tensor([0]), ones(1)),
    "gather": lambda: ones(3).gather(0, torch.tensor([0])),
    "cross_entropy": lambda: F.cross_entropy(ones(2, 3), torch.tensor([0, 1])),
    "layer_norm": lambda: F.layer_norm(ones(2, 3), (3,), torch.ones(3)),
    "conv2d": lambda: F.conv2d(ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2)),
    "lerp": lambda: torch.lerp(ones(3), torch.ones(3), 0.5),
    "foreach": lambda: torch._foreach_add([ones(3)], [torch.ones(3)]),
    "fallback": lambda: torch.linalg.solve(ones(2, 2), torch.ones(2, 2)),
    "random": lambda: torch.normal(ones(2), torch.ones(2)),
}


@pytest.mark.parametrize("compute", HOST_TENSORS.values(), ids=HOST_TENSORS)
def test_a_host_tensor_among_device_tensors_is_refused(compute: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"is on cpu device, expected neuron|all tensors to be on the same device"):
        compute()


def test_the_refusal_names_argument_op_and_remedy() -> None:
    with pytest.raises(RuntimeError) as caught:
        ones(3) + torch.ones(3)
    assert str(caught.value).startswith(
        "Expected all tensors to be on the same device, but found at least two devices, neuron:0 and cpu! "
        "Non-scalar tensor arg1 is on cpu device, expected neuron (when calling aten::add.Tensor, shape [3]). "
        'Move it with .to("neuron").'
    )


def test_a_device_tensor_in_a_host_op_is_refused() -> None:
    with pytest.raises(RuntimeError, match="device"):
        torch.ones(3).add_(ones(3))


MIXED_CORES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "add": lambda x, y: x + y,
    "cat": lambda x, y: torch.cat([x, y]),
    "add_": lambda x, y: x.add_(y),
    "out=": lambda x, y: torch.add(x, 1, out=y),
    "fallback": lambda x, y: torch.linalg.solve(x.diag(), y.diag()),
    "index": lambda x, y: x[y.long()],
}


@pytest.mark.parametrize("compute", MIXED_CORES.values(), ids=MIXED_CORES)
def test_tensors_of_two_cores_are_refused(compute: Callable[[Tensor, Tensor], Any]) -> None:
    with pytest.raises(RuntimeError, match="neuron:0 and neuron:1"):
        compute(torch.ones(3, device="neuron:0"), torch.ones(3, device="neuron:1"))


def places(device: str, *values: int) -> Tensor:
    return torch.tensor(values, device=device)


OUT_OF_RANGE: dict[str, Program] = {
    "index": lambda d: torch.ones(3, device=d)[places(d, 7)],
    "index, negative": lambda d: torch.ones(3, device=d)[places(d, -4)],
    "index of 32 bits": lambda d: torch.ones(3, device=d)[places(d, 7).int()],
    "index from the host": lambda d: torch.ones(3, device=d)[torch.tensor([5])],
    "index of the second dimension": lambda d: torch.ones(3, 3, device=d)[places(d, 0, 1), places(d, 3)],
    "index behind a new dimension": lambda d: torch.ones(3, 3, device=d)[:, None, places(d, 3)],
    "index into nothing": lambda d: torch.ones(0, 3, device=d)[places(d, 0)],
    "index in steps": lambda d: torch.ones(3, device=d)[places(d, 0, 9, 1, 9)[1::2]],
    "mask of another shape": lambda d: torch.ones(3, device=d)[torch.tensor([True, False], device=d)],
    "number": lambda d: torch.ones(3, device=d)[5],
    "select": lambda d: torch.ones(3, device=d).select(0, 3),
    "narrow": lambda d: torch.ones(3, device=d).narrow(0, 1, 3),
    "index_put": lambda d: torch.zeros(3, device=d).index_put_((places(d, 4),), torch.tensor(1.0, device=d)),
    "index_put accumulates": lambda d: torch.zeros(3, device=d).index_put(
        (places(d, 4),), torch.tensor(1.0, device=d), accumulate=True
    ),
    "gather": lambda d: torch.ones(2, 2, device=d).gather(0, torch.tensor([[9]], device=d)),
    "gather, negative": lambda d: torch.ones(3, device=d).gather(0, places(d, -1)),
    "index_select": lambda d: torch.ones(3, device=d).index_select(0, places(d, -1)),
    "index_add": lambda d: torch.zeros(3, device=d).index_add_(0, places(d, -1), torch.ones(1, device=d)),
    "index_copy": lambda d: torch.zeros(3, device=d).index_copy_(0, places(d, 3), torch.ones(1, device=d)),
    "index_fill": lambda d: torch.zeros(3, device=d).index_fill_(0, places(d, 3), 2.0),
    "index_reduce": lambda d: torch.zeros(3, device=d).index_reduce_(0, places(d, 5), torch.ones(1, device=d), "amax"),
    "scatter": lambda d: torch.zeros(3, device=d).scatter_(0, places(d, 3), 1.0),
    "scatter of a tensor": lambda d: torch.zeros(3, device=d).scatter(0, places(d, 4), torch.ones(1, device=d)),
    "scatter_add": lambda d: torch.zeros(3, device=d).scatter_add(0, places(d, 4), torch.ones(1, device=d)),
    "scatter_reduce": lambda d: torch.zeros(3, device=d).scatter_reduce(
        0, places(d, 4), torch.ones(1, device=d), "sum"
    ),
    "take": lambda d: torch.ones(2, 2, device=d).take(places(d, 4)),
    "put": lambda d: torch.ones(2, 2, device=d).put_(places(d, 4), torch.ones(1, device=d)),
    "embedding": lambda d: F.embedding(places(d, 5), torch.ones(3, 2, device=d)),
    "embedding, negative": lambda d: F.embedding(places(d, -1), torch.ones(3, 2, device=d)),
    "max_unpool1d": lambda d: F.max_unpool1d(torch.ones(1, 1, 1, device=d), places(d, 9)[None, None], 2),
    "max_unpool2d": lambda d: F.max_unpool2d(torch.ones(1, 1, 1, 1, device=d), places(d, 4)[None, None, None], 2),
    "max_unpool3d, negative": lambda d: F.max_unpool3d(
        torch.ones(1, 1, 1, 1, 1, device=d), places(d, -1)[(None,) * 4], 2
    ),
    "embedding_bag": lambda d: F.embedding_bag(places(d, 5), torch.ones(3, 2, device=d), places(d, 0)),
    "cross_entropy": lambda d: F.cross_entropy(torch.ones(2, 3, device=d), places(d, 0, 7)),
    "cross_entropy, negative": lambda d: F.cross_entropy(torch.ones(2, 3, device=d), places(d, 0, -1)),
    "cross_entropy of images": lambda d: F.cross_entropy(
        torch.ones(1, 3, 2, 2, device=d), torch.full((1, 2, 2), 3, device=d)
    ),
    "cross_entropy of one": lambda d: F.cross_entropy(torch.ones(3, device=d), torch.tensor(3, device=d)),
    "cross_entropy, smoothed": lambda d: F.cross_entropy(
        torch.ones(2, 3, device=d), places(d, 0, 5), label_smoothing=0.1
    ),
    "cross_entropy, weighted": lambda d: F.cross_entropy(
        torch.ones(2, 3, device=d), places(d, 0, 5), weight=torch.ones(3, device=d)
    ),
    "topk": lambda d: numbers(d, 3).topk(5),
    "kthvalue": lambda d: numbers(d, 3).kthvalue(5),
    "repeat_interleave": lambda d: torch.repeat_interleave(numbers(d, 2), places(d, 1, -2)),
    "bincount": lambda d: torch.bincount(places(d, -1)),
    "a dimension": lambda d: numbers(d, 3).sum(1),
}


@programs(OUT_OF_RANGE)
def test_out_of_range_raises_what_the_cpu_raises(program: Program) -> None:
    assert_fails_alike(program)


REFUSED: dict[str, Program] = {
    "multi_margin_loss": lambda d: F.multi_margin_loss(torch.ones(2, 3, device=d), places(d, 0, 5)),
    "multilabel_margin_loss": lambda d: F.multilabel_margin_loss(
        torch.ones(1, 3, device=d), torch.tensor([[0, 5, -1]], device=d)
    ),
    "integer division": lambda d: places(d, 1, 2) // places(d, 0, 1),
    "integer remainder": lambda d: places(d, 1, 2) % places(d, 0, 1),
}


def truth(device: str) -> Tensor:
    return torch.tensor([True, False], device=device)


def _add_into_itself(device: str) -> Tensor:
    x = torch.ones(3, device=device)
    return torch.add(x, torch.ones(2, 3, device=device), out=x)


MALFORMED: dict[str, Program] = {
    "subtraction of a boolean": lambda d: numbers(d, 2) - truth(d),
    "subtraction in place of a 0-d boolean": lambda d: numbers(d, 2).sub_(truth(d)[0], alpha=2),
    "division of booleans by zero": lambda d: truth(d) // places(d, 0, 1),
    "alpha that is no integer": lambda d: torch.add(places(d, 1), places(d, 1), alpha=0.5),
    "alpha that is a boolean": lambda d: torch.add(places(d, 1), places(d, 1), alpha=True),
    "out= of a lesser dtype": lambda d: torch.mul(numbers(d, 2), 2, out=places(d, 0, 0)),
    "empty out= of a lesser dtype": lambda d: torch.mul(numbers(d, 2), 2, out=places(d).long()),
    "heaviside of two dtypes": lambda d: torch.heaviside(numbers(d, 2), places(d, 1, 1)),
    "three indices of a scalar": lambda d: torch.tensor(1.0, device=d).index_select(0, places(d, 0, 0, 0)),
    "cat with an empty part of another shape": lambda d: torch.cat([numbers(d, 2, 0), numbers(d, 2, 3)]),
    "out= that is read and too small": _add_into_itself,
}


@programs(MALFORMED)
def test_a_malformed_call_raises_what_the_cpu_raises(program: Program) -> None:
    assert_fails_alike(program)


@programs(REFUSED)
def test_a_bad_class_or_a_zero_divisor_is_refused(program: Program) -> None:
    assert_fails_alike(program)


IN_RANGE: dict[str, Program] = {
    "negative": lambda d: numbers(d, 3)[places(d, -1, 2)],
    "negative in the second dimension": lambda d: numbers(d, 2, 3)[:, places(d, -1, 2)],
    "take, negative": lambda d: numbers(d, 2, 2).take(places(d, -1)),
    "index_fill, negative": lambda d: torch.zeros(3, device=d).index_fill_(0, places(d, -1), 2.0),
    "ignored class": lambda d: F.cross_entropy(torch.ones(2, 3, device=d), places(d, 0, -100)),
    "chosen ignored class": lambda d: F.cross_entropy(torch.ones(2, 3, device=d), places(d, 0, 7), ignore_index=7),
    "gather from a 0-d tensor": lambda d: torch.tensor(3.0, device=d).gather(0, torch.tensor(0, device=d)),
    "broadcast": lambda d: numbers(d, 3, 3)[places(d, 0, 1)[:, None], places(d, 2)],
    "max_unpool2d keeps a batch's memory format": lambda d: F.max_unpool2d(
        numbers(d, 2, 2, 1, 1).contiguous(memory_format=torch.channels_last),
        places(d, 3)[None, :, None, None].expand(2, 2, 1, 1),
        2,
    ),
    "uint8 mask": lambda d: numbers(d, 3)[torch.tensor([True, False, True], device=d)],
}


@programs(IN_RANGE)
def test_in_range(program: Program) -> None:
    assert_agrees(program)


def test_an_op_works_after_a_failed_one() -> None:
    with pytest.raises(IndexError):
        torch.ones(3, device="neuron:2")[torch.tensor([7], device="neuron:2")]
    assert torch.neuron.current_device() == 0
    assert (ones(3) + 1).tolist() == [2, 2, 2]


@pytest.mark.parametrize("core", [4, 9, 127])
def test_a_core_that_does_not_exist(core: int) -> None:
    with pytest.raises(
        RuntimeError, match=f"Device index {core} is out of range. Valid range is 0 to 3 for this process"
    ):
        torch.ones(3, device=f"neuron:{core}")


@pytest.mark.parametrize("core", [4, -1, 300])
@pytest.mark.parametrize(
    "use",
    [
        torch.neuron.synchronize,
        torch.neuron.get_device_name,
        torch.neuron.get_device_properties,
        torch.neuron.memory_allocated,
        torch.neuron.memory_stats,
        torch.neuron.reset_peak_memory_stats,
        torch.neuron.Stream,
        torch.neuron.default_stream,
        torch.neuron.current_stream,
    ],
    ids=lambda use: use.__name__,
)
def test_every_function_refuses_a_core_that_does_not_exist(use: Callable[[int], Any], core: int) -> None:
    with pytest.raises(ValueError, match=f"Invalid device id: {core}. Valid range is 0 to 3"):
        use(core)


def test_set_device_refuses_a_core_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match=r"Invalid device id: 8\. Valid range is 0 to 3"):
        torch.neuron.set_device(8)


def test_a_device_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match="Expected a neuron device, but got: cpu"):
        torch.neuron.set_device("cpu")
