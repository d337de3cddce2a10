"""Views, in-place changes, out= arguments, layouts, dtypes and empty tensors: as on the CPU."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.conformance._both import Program, assert_agrees, assert_fails_alike, numbers, programs
from tests.emulated import DEVICE

NAN, INF = float("nan"), float("inf")


def longs(device: str, *values: int) -> Tensor:
    return torch.tensor(values, device=device)


VIEWS: dict[str, Program] = {
    "select": lambda d: numbers(d, 2, 3, 4)[:, 1] + 1,
    "transpose": lambda d: numbers(d, 2, 3, 4).transpose(0, 2) + 1,
    "step": lambda d: numbers(d, 2, 3, 4)[..., ::2] + 1,
    "permute": lambda d: numbers(d, 2, 3, 4).permute(2, 0, 1) * numbers(d, 2, 3, 4).permute(2, 0, 1),
    "mixed layouts": lambda d: numbers(d, 3, 3) + numbers(d, 3, 3).t(),
    "unfold": lambda d: numbers(d, 2, 3, 4).unfold(2, 2, 1).sum(-1),
    "expand": lambda d: numbers(d, 1, 3).expand(4, 3) + 1,
    "expand and transpose": lambda d: numbers(d, 1, 3).expand(4, 3).t() * 2,
    "diagonal": lambda d: numbers(d, 2, 3, 4).diagonal(0, 0, 1) + 1,
    "narrow": lambda d: numbers(d, 6).narrow(0, 2, 3) + 1,
    "unaligned offset": lambda d: numbers(d, 7)[1:] + numbers(d, 7)[:-1],
    "chunk": lambda d: [part + 1 for part in numbers(d, 5).chunk(2)],
    "split": lambda d: [part * 2 for part in numbers(d, 5, 2).split([2, 3])],
    "unbind": lambda d: [part.sum() for part in numbers(d, 2, 3).unbind(1)],
    "movedim": lambda d: numbers(d, 2, 3, 4).movedim(0, -1) + 1,
    "squeeze and unsqueeze": lambda d: numbers(d, 1, 3).squeeze(0).unsqueeze(-1) + 1,
    "view as another dtype": lambda d: numbers(d, 4).view(torch.int32) + 1,
    "view as a wider dtype": lambda d: numbers(d, 4).view(torch.float64).view(torch.float32) + 1,
    "reshape that copies": lambda d: numbers(d, 2, 3).t().reshape(6) + 1,
    "channels last": lambda d: numbers(d, 2, 3, 4, 4).to(memory_format=torch.channels_last) + 1,
    "channels last through relu": lambda d: numbers(d, 2, 3, 4, 4).to(memory_format=torch.channels_last).relu(),
    "overlapping input": lambda d: numbers(d, 6).as_strided((3, 3), (1, 1)) + 1,
    "overlapping input, reduced": lambda d: numbers(d, 6).as_strided((3, 3), (1, 1)).sum(0),
    "as_strided with an offset": lambda d: numbers(d, 9).as_strided((2, 2), (3, 1), 4) * 2,
    "flip": lambda d: numbers(d, 2, 3).flip(0, 1),
    "flip of a view": lambda d: numbers(d, 2, 6)[:, ::2].flip(1) + 1,
    "rot90": lambda d: numbers(d, 2, 3).rot90(),
    "roll": lambda d: numbers(d, 2, 3).roll((1, -1), (0, 1)),
    "real and imaginary": lambda d: [
        torch.tensor([1 + 2j, 3 - 1j], device=d).real + 1,
        torch.tensor([1 + 2j], device=d).imag + 1,
    ],
    "view_as_real": lambda d: torch.view_as_real(torch.tensor([1 + 2j, 3 - 1j], device=d)) + 1,
    "view_as_complex": lambda d: torch.view_as_complex(numbers(d, 3, 2)) * 1j,
    "conjugate": lambda d: torch.tensor([1 + 2j], device=d).conj() + torch.tensor([1 + 2j], device=d),
    "resolve_conj": lambda d: torch.tensor([1 + 2j], device=d).conj().resolve_conj(),
    "negative bit": lambda d: torch.tensor([1 + 2j], device=d).conj().imag.clone(),
    "conjugate to numbers": lambda d: torch.tensor([1 + 2j], device=d).conj().tolist(),
}


@programs(VIEWS)
def test_a_view_feeds_an_op(program: Program) -> None:
    assert_agrees(program)


def changed(shape: tuple[int, ...], change: Any) -> Program:
    """A program: numbers in this shape, changed in place."""

    def program(device: str) -> Tensor:
        x = numbers(device, *shape)
        change(x)
        return x

    return program


IN_PLACE: dict[str, Program] = {
    "whole": changed((2, 3), lambda x: x.add_(1).mul_(2)),
    "column": changed((2, 3), lambda x: x[:, 1].add_(1)),
    "row set to zero": changed((2, 3), lambda x: x[0].zero_()),
    "assigned": changed((2, 3, 4), lambda x: operator.setitem(x, (Ellipsis, 1), 5)),
    "assigned from another dtype": changed(
        (2, 3), lambda x: operator.setitem(x, 0, numbers(x.device.type, 3, dtype=torch.int64))
    ),
    "assigned broadcast": changed((2, 3), lambda x: operator.setitem(x, slice(None), numbers(x.device.type, 3))),
    "through view": changed((2, 3), lambda x: operator.setitem(x.view(-1), 3, 9)),
    "through transpose": changed((2, 3), lambda x: x.t().add_(numbers(x.device.type, 3, 2))),
    "through diagonal": changed((3, 3), lambda x: x.diagonal().fill_(7)),
    "through steps": changed((6,), lambda x: x[::2].mul_(-1)),
    "through unaligned view": changed((7,), lambda x: x[1:].exp_()),
    "through expanded of one row": changed((1, 3), lambda x: x.expand(1, 3).add_(1)),
    "with itself": changed((3,), lambda x: x.add_(x)),
    "with its disjoint part": changed((6,), lambda x: x[:3].add_(x[3:])),
    "index_put": changed((4,), lambda x: operator.setitem(x, longs(x.device.type, 0, 2), 9)),
    "index_put accumulates": changed(
        (4,), lambda x: x.index_put_((longs(x.device.type, 0, 0),), torch.tensor(1.0), accumulate=True)
    ),
    "mask": changed((4,), lambda x: operator.setitem(x, x > 1, 0)),
    "index from the host": changed((4,), lambda x: operator.setitem(x, torch.tensor([1]), 7)),
    "mask from the host": changed((4,), lambda x: operator.setitem(x, torch.tensor([True, False] * 2), 7)),
    "index_add_": changed((4,), lambda x: x.index_add_(0, longs(x.device.type, 1, 1), numbers(x.device.type, 2))),
    "scatter_": changed((4,), lambda x: x.scatter_(0, longs(x.device.type, 3), 8.0)),
    "masked_fill_": changed((4,), lambda x: x.masked_fill_(x > 2, -1)),
    "clamp_": changed((4,), lambda x: x.clamp_(1, 2)),
    "resize_ grows": changed((3,), lambda x: x.resize_(2, 3)[1].fill_(1)),
    "resize_ shrinks": changed((2, 3), lambda x: x.resize_(2)),
    "t_": changed((2, 3), lambda x: x.t_()),
    "unsqueeze_": changed((2, 3), lambda x: x.unsqueeze_(0).add_(1)),
    "integer by a bool": changed((3,), lambda x: x.mul_(True)),
    "foreach": changed((3,), lambda x: torch._foreach_add_([x[:1], x[1:]], 1)),
    "swapped": changed(
        (2, 2), lambda x: operator.setitem(x, longs(x.device.type, 0, 1), x[longs(x.device.type, 1, 0)])
    ),
}


@programs(IN_PLACE)
def test_an_in_place_change_is_seen_in_the_base(program: Program) -> None:
    assert_agrees(program)


def test_a_result_is_not_an_alias_of_its_input() -> None:
    x = torch.ones(3, device=DEVICE)
    y = x + 0
    y.add_(1)
    assert x.tolist() == [1, 1, 1]


def test_views_of_one_storage_see_each_other() -> None:
    x = torch.zeros(4, device=DEVICE)
    view = torch.empty(0, device=DEVICE).set_(x.untyped_storage(), 0, (2, 2), (2, 1))
    view[1].add_(5)
    assert x.tolist() == [0, 0, 5, 5]


def test_a_value_read_before_an_in_place_change_is_read_anew_after_it() -> None:
    x = torch.zeros(3, device=DEVICE)
    seen = []
    for _ in range(3):
        x += 1
        seen.append((x * 2).tolist())
    assert seen == [[2, 2, 2], [4, 4, 4], [6, 6, 6]]


def test_an_unaligned_view_is_read_anew_after_a_change() -> None:
    x = torch.zeros(3, device=DEVICE)
    view = x[1:]
    before = (view + 1).tolist()
    x.fill_(4)
    assert (before, (view + 1).tolist()) == ([1, 1], [5, 5])


def test_a_call_on_a_large_unaligned_view_returns_when_it_is_computed() -> None:
    """XLA copies unaligned memory above 100 kB in another thread, and the call then went on without its results."""
    rows = torch.randn(4, 50_257)
    expected, on_device = rows[1:].argmin(1), rows.to(DEVICE)
    for _ in range(20):
        assert torch.equal(on_device[1:].argmin(1).cpu(), expected)


def test_version_counters_count() -> None:
    x = torch.ones(3, device=DEVICE)
    x.add_(1)
    x[0].fill_(2)
    assert x._version == 2


OUT: dict[str, Program] = {
    "grows": lambda d: torch.add(numbers(d, 3), 1, out=torch.empty(0, device=d)),
    "transposed": lambda d: torch.mul(numbers(d, 3, 4), 2, out=torch.empty(4, 3, device=d).t()),
    "steps": lambda d: torch.add(numbers(d, 3), 1, out=torch.zeros(6, device=d)[::2]),
    "wider dtype": lambda d: torch.add(numbers(d, 3), 1, out=torch.empty(3, dtype=torch.float64, device=d)),
    "integer into float": lambda d: torch.add(longs(d, 1, 2), 1, out=torch.empty(2, device=d)),
    "its own input": lambda d: (lambda x: torch.add(x, 1, out=x))(numbers(d, 3)),
    "a factor of a matrix product": lambda d: (lambda x: torch.mm(x, x, out=x))(numbers(d, 3, 3)),
    "cat": lambda d: torch.cat([numbers(d, 2), numbers(d, 2)], out=torch.empty(0, device=d)),
    "two results": lambda d: tuple(
        torch.max(numbers(d, 2, 2), 1, out=(torch.empty(0, device=d), torch.empty(0, dtype=torch.long, device=d)))
    ),
    "sort": lambda d: tuple(
        torch.sort(
            numbers(d, 3), descending=True, out=(torch.empty(3, device=d), torch.empty(3, dtype=torch.long, device=d))
        )
    ),
    "matmul": lambda d: torch.matmul(numbers(d, 2, 2), numbers(d, 2), out=torch.empty(0, device=d)),
    "reduction": lambda d: torch.sum(numbers(d, 2, 2), 0, out=torch.empty(0, device=d)),
    "arange": lambda d: torch.arange(4, out=torch.empty(0, device=d)),
    "linspace": lambda d: torch.linspace(0, 1, 3, out=torch.empty(0, device=d)),
    "randn": lambda d: torch.randn(3, out=torch.empty(0, device=d)),
    "nonzero": lambda d: torch.nonzero(numbers(d, 3), out=torch.empty(0, dtype=torch.long, device=d)),
    "index_select": lambda d: torch.index_select(numbers(d, 3), 0, longs(d, 1), out=torch.empty(0, device=d)),
}


@programs(OUT)
def test_out(program: Program) -> None:
    assert_agrees(program)


def test_out_that_is_resized_warns() -> None:
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        result = torch.add(torch.ones(3, device=DEVICE), 1, out=torch.empty(2, device=DEVICE))
    assert result.tolist() == [2, 2, 2]


REFUSED: dict[str, Program] = {
    "add_ to an expanded tensor": lambda d: torch.ones(1, 3, device=d).expand(4, 3).add_(1),
    "relu_ of an expanded tensor": lambda d: torch.ones(1, 3, device=d).expand(4, 3).relu_(),
    "copy_ to an expanded tensor": lambda d: torch.zeros(1, 3, device=d).expand(2, 3).copy_(torch.ones(3)),
    "out= an expanded tensor": lambda d: torch.add(numbers(d, 3), 1, out=torch.empty(1, device=d).expand(3)),
    "out= of integers": lambda d: torch.add(numbers(d, 3), 1, out=torch.empty(3, dtype=torch.int64, device=d)),
    "out= that wants a gradient": lambda d: torch.add(
        numbers(d, 3), 1, out=torch.empty(3, device=d, requires_grad=True)
    ),
    "a float into integers": lambda d: longs(d, 1).add_(1.5),
    "division of integers in place": lambda d: longs(d, 1).div_(2),
    "broadcast that would grow": lambda d: torch.ones(3, device=d).add_(torch.ones(2, 3, device=d)),
    "a leaf": lambda d: torch.ones(3, device=d, requires_grad=True).add_(1),
    "view that does not fit": lambda d: torch.ones(3, device=d).view(2, 2),
    "as_strided out of bounds": lambda d: numbers(d, 6).as_strided((30,), (1,)),
    "shapes that do not match": lambda d: torch.ones(3, device=d) + torch.ones(4, device=d),
    "matrices that do not match": lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
    "cat of shapes that do not match": lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, 2, device=d)]),
    "numpy of a gradient": lambda d: torch.ones(1, device=d, requires_grad=True).cpu().numpy(),
    "item of many": lambda d: torch.ones(2, device=d).item(),
    "item of none": lambda d: torch.ones(0, device=d).item(),
    "truth of many": lambda d: bool(torch.ones(2, device=d)),
    "a negative size": lambda d: torch.ones(-1, device=d),
    "subtraction of bools": lambda d: torch.tensor([True], device=d) - torch.tensor([True], device=d),
    "negation of a bool": lambda d: -torch.tensor([True], device=d),
    "order of complex numbers": lambda d: torch.tensor([3 + 4j], device=d) < 3,
    "integer to a negative power": lambda d: longs(d, 2, 3) ** -1,
    "a fraction as alpha of integers": lambda d: torch.add(longs(d, 1), longs(d, 1), alpha=0.5),
    "mean of integers": lambda d: longs(d, 1, 2).mean(),
    "max of nothing": lambda d: torch.empty(0, 3, device=d).max(),
    "argmax of nothing": lambda d: torch.empty(0, 3, device=d).argmax(),
    "set_ before the storage": lambda d: torch.empty(0, device=d).set_(
        torch.ones(4, device=d).untyped_storage(), -1, (1,), (1,)
    ),
}


@programs(REFUSED)
def test_what_the_cpu_refuses_is_refused_with_its_words(program: Program) -> None:
    assert_fails_alike(program)


OVERLAPS: dict[str, Program] = {
    "copy_": changed((6,), lambda x: x[1:].copy_(x[:-1])),
    "add_": changed((6,), lambda x: x[1:].add_(x[:-1])),
    "add_ of the transposed": changed((3, 3), lambda x: x.add_(x.t())),
    "out=": changed((6,), lambda x: torch.add(x[:-1], 1, out=x[1:])),
}


@programs(OVERLAPS)
def test_an_output_that_overlaps_an_input_is_refused(program: Program) -> None:
    assert_fails_alike(program)


def test_a_copy_into_nothing_compares_shapes() -> None:
    assert_fails_alike(lambda d: torch.zeros(0, 3, device=d).copy_(torch.ones(2, 3)))


CHANGES: dict[str, Any] = {
    "add_": lambda x: x.add_(1),
    "copy_": lambda x: x.copy_(x + 1),
    "a slice": lambda x: x[:1].mul_(2),
    "set": lambda x: operator.setitem(x, 0, 1.0),
    "out=": lambda x: torch.add(x, 1, out=x),
    "foreach": lambda x: torch._foreach_add_([x, x.clone()], 1),
    "foreach of tensors": lambda x: torch._foreach_addcdiv_([x], [x.clone()], [x.clone()]),
    "foreach copy": lambda x: torch._foreach_copy_([x], [x + 1]),
    "data": lambda x: x.data.add_(1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_autograd_sees_what_is_changed(change: Any) -> None:
    versions = []
    for device in ("cpu", DEVICE):
        x = numbers(device, 3) + 1
        before = x._version
        change(x)
        versions.append(x._version - before)
    assert versions[1] == versions[0]


def test_a_saved_tensor_that_a_list_op_changes_is_refused() -> None:
    x = numbers(DEVICE, 3).requires_grad_()
    saved = x * 2
    loss = (saved * saved).sum()
    with torch.no_grad():
        torch._foreach_add_([saved], 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
