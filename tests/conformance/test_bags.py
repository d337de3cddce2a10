"""Bags of embeddings: all four results of the op, and both gradients, as on the CPU."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from neuron_lab.emulator.events import hook
from tests.conformance._both import Program, assert_agrees, assert_fails_alike, programs
from tests.emulated import DEVICE

aten = torch.ops.aten

MODES = ("sum", "mean", "max")
INDICES = torch.tensor([1, 1, 3, 0, 4, 2, 2])
OFFSETS = torch.tensor([0, 3, 3, 5])
CLOSE = {torch.float32: 1e-5, torch.float64: 1e-9, torch.bfloat16: 2e-2, torch.float16: 5e-3}
CASES = [(mode, last, padding) for mode, last, padding in itertools.product(range(3), (False, True), (-1, 2))]


def weight(dtype: torch.dtype) -> Tensor:
    """A NaN that is the last of its bag, one that is the first of its, and an infinity."""
    rows = torch.randn(5, 4)
    rows[3, 1] = rows[0, 3] = torch.nan
    rows[4, 2] = -torch.inf
    return rows.to(dtype)


def offsets(last: int | None) -> Tensor:
    return OFFSETS if last is None else torch.cat([OFFSETS, torch.tensor([last])])


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize(("mode", "last", "padding"), CASES)
def test_all_results(dtype: torch.dtype, mode: int, last: bool, padding: int) -> None:
    def program(device: str) -> list[Any]:
        rows, weights = weight(dtype).to(device), (torch.arange(7) / 3 + 1).to(dtype).to(device)
        found = []
        for op in (aten._embedding_bag, aten._embedding_bag_forward_only):
            for scales in (None, weights) if mode == 0 else (None,):
                bags = offsets(6 if last else None).to(device)
                found.append(op(rows, INDICES.to(device), bags, False, mode, False, scales, last, padding))
        return found

    assert_agrees(program, rtol=CLOSE[dtype], atol=CLOSE[dtype])


def test_they_are_compiled() -> None:
    """Also the gradients of a sum, whose forward has no bag of each index to hand over."""
    rows = torch.ones(5, 4, device=DEVICE, requires_grad=True)
    scales = torch.ones(7, device=DEVICE, requires_grad=True)
    indices, begins = INDICES.to(DEVICE), OFFSETS.to(DEVICE)
    session = hook()
    session.start()
    F.embedding_bag(indices, rows, begins, mode="sum", per_sample_weights=scales).sum().backward()
    kinds = {row[0]: row[1] for row in session.stop().totals if "embedding_bag" in row[0]}
    assert kinds == {
        "aten::_embedding_bag": "compiled",
        "aten::_embedding_bag_backward": "compiled",
        "aten::_embedding_bag_per_sample_weights_backward": "compiled",
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("mode", "last", "padding"), CASES)
def test_gradients(dtype: torch.dtype, mode: int, last: bool, padding: int) -> None:
    def program(device: str) -> list[Tensor]:
        rows = torch.randn(5, 4, dtype=dtype).to(device).requires_grad_()
        scales = [torch.rand(7, dtype=dtype).to(device).requires_grad_()] if mode == 0 else []
        bags = F.embedding_bag(
            INDICES.to(device),
            rows,
            offsets(7 if last else None).to(device),
            mode=MODES[mode],
            per_sample_weights=scales[0] if scales else None,
            include_last_offset=last,
            padding_idx=None if padding < 0 else padding,
        )
        return [bags, *torch.autograd.grad(bags.square().sum(), [rows, *scales])]

    assert_agrees(program, rtol=CLOSE[dtype], atol=CLOSE[dtype])


def bag(device: str, indices: list[int], begins: list[int], **options: Any) -> Tensor:
    rows = torch.arange(20.0).reshape(5, 4).to(device).requires_grad_()
    return F.embedding_bag(
        torch.tensor(indices, dtype=torch.int64, device=device), rows, torch.tensor(begins, device=device), **options
    )


def gradients(device: str, sizes: tuple[int, int], indices: list[int], begins: list[int], last: bool) -> list[Tensor]:
    rows = torch.ones(sizes).to(device).requires_grad_()
    scales = torch.ones(len(indices)).to(device).requires_grad_()
    places = [torch.tensor(values, dtype=torch.int64).to(device) for values in (indices, begins)]
    y = F.embedding_bag(places[0], rows, places[1], mode="sum", per_sample_weights=scales, include_last_offset=last)
    return [y, *torch.autograd.grad(y, [rows, scales], torch.ones_like(y))]


SOUND: dict[str, Program] = {
    "gradients without indices": lambda d: gradients(d, (5, 2), [], [0, 0], False),
    "gradients without bags": lambda d: gradients(d, (5, 2), [], [0], True),
    "no indices": lambda d: bag(d, [], [0, 0]),
    "32-bit indices": lambda d: F.embedding_bag(
        INDICES.int().to(d), torch.ones(5, 4, device=d), OFFSETS.int().to(d), mode="max"
    ),
    "bags of one length": lambda d: F.embedding_bag(INDICES[:6].reshape(2, 3).to(d), torch.ones(5, 4, device=d)),
    "bags at the end are empty": lambda d: bag(d, [1, 2], [0, 2, 2], mode="mean"),
    "scaled by frequency": lambda d: torch.autograd.grad(
        F.embedding_bag(
            INDICES.to(d),
            (rows := torch.ones(5, 4, device=d, requires_grad=True)),
            OFFSETS.to(d),
            scale_grad_by_freq=True,
        ).sum(),
        rows,
    ),
}


@programs(SOUND)
def test_sound(program: Program) -> None:
    assert_agrees(program)


BROKEN: dict[str, Program] = {
    "rows without features": lambda d: gradients(d, (5, 0), [1, 2], [0, 1], False),
    "an index beyond": lambda d: bag(d, [1, 5], [0]),
    "a negative index": lambda d: bag(d, [1, -1], [0]),
    "the first bag begins late": lambda d: bag(d, [1, 2], [1]),
    "the last bag begins behind the end": lambda d: bag(d, [1, 2], [0, 3]),
    "the last offset is behind the end": lambda d: bag(d, [1, 2], [0, 3], include_last_offset=True),
}


@programs(BROKEN)
def test_broken_ones_raise_what_the_cpu_raises(program: Program) -> None:
    assert_fails_alike(program)


@pytest.mark.parametrize("mode", MODES)
def test_compiled_ones_have_the_gradients(mode: str) -> None:
    def program(device: str) -> list[Tensor]:
        def forward(rows: Tensor, indices: Tensor, begins: Tensor) -> Tensor:
            return F.embedding_bag(indices, rows, begins, mode=mode)

        call = torch.compile(forward, backend="neuron") if device == DEVICE else forward
        rows = torch.randn(5, 4).to(device).requires_grad_()
        bags = call(rows, INDICES.to(device), OFFSETS.to(device))
        return [bags, *torch.autograd.grad(bags.square().sum(), [rows])]

    assert_agrees(program)
