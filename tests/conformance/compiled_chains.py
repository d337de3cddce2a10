"""Random programs compiled as a whole: a chain is one graph for the device, and one for the CPU's own kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tests.conformance.chains import (
    IN_PLACE,
    KEPT,
    LARGEST,
    STEPS,
    Chain,
    Mismatch,
    Numbers,
    backward,
    start,
    tensors_of,
)

TOLERANCE = {torch.bfloat16: 4e-2, torch.float16: 4e-3}
PLACED = ("there and back", "item", "share")
"""Steps that name a device, or that one graph cannot hold."""


def run(starts: Sequence[Numbers], chain: Chain, device: str, *, gradients: bool = False) -> None:
    """Compile a chain for `device` and for the CPU: results, what became of the inputs, and gradients. Raises Mismatch.

    The CPU's graph runs op by op (`aot_eager`): a program that PyTorch itself cannot trace is none to compare.
    """
    runs = _that_run(starts, chain, gradients)
    try:
        expected = _whole(starts, runs, "cpu", "aot_eager", gradients)
    except Exception:  # whatever PyTorch raises
        return
    actual = _whole(starts, runs, device, "neuron", gradients)
    for place, (one, other) in enumerate(zip(actual, expected, strict=True)):
        _compare(f"{place} of {runs}", one, other)


def _leaves(starts: Sequence[Numbers], device: str, gradients: bool) -> list[Tensor]:
    leaves = [start(numbers) for numbers in starts]
    if gradients:
        leaves = [leaf.float() for leaf in leaves]
    return [leaf.to(device).requires_grad_(gradients) for leaf in leaves]


def _program(leaves: Sequence[Tensor], chain: Chain) -> list[Tensor]:
    pool = [leaf * 1 if leaf.requires_grad else leaf for leaf in leaves]
    for name, numbers in chain:
        first, second = numbers[3] % len(pool), (numbers[2] + numbers[3]) % len(pool)
        results = tensors_of(STEPS[name](pool[first], pool[second], numbers))
        if name not in IN_PLACE:  # what it gives is there already; whether Dynamo says so of `is` depends on the device
            pool = [*pool, *(result for result in results if result.numel() <= LARGEST)][-KEPT:]
    return pool


def _that_run(starts: Sequence[Numbers], chain: Chain, gradients: bool) -> list[tuple[str, Numbers]]:
    """The chain without the steps that raise on the CPU after those before them."""
    kept: list[tuple[str, Numbers]] = []
    for step in chain:
        try:
            pool = _program(_leaves(starts, "cpu", gradients), [*kept, step])
            if gradients:
                backward(pool)
        except Exception:  # whatever it raises, it is left out
            continue
        if step[0] not in PLACED:
            kept.append(step)
    return kept


def _whole(starts: Sequence[Numbers], chain: Chain, device: str, backend: str, gradients: bool) -> list[Any]:
    leaves = _leaves(starts, device, gradients)
    torch._dynamo.reset()
    results = torch.compile(lambda *tensors: tuple(_program(tensors, chain)), backend=backend)(*leaves)
    if gradients:
        backward(results)
    return [*results, *(leaf.grad if gradients else leaf for leaf in leaves)]


def _compare(what: str, actual: Tensor | None, expected: Tensor | None) -> None:
    if actual is None or expected is None:
        if actual is not expected:
            raise Mismatch(f"{what}: one is None")
        return
    seen = [(t.dtype, t.shape, t.requires_grad) for t in (actual, expected)]
    if seen[0] != seen[1]:
        raise Mismatch(f"{what}: {seen[0]} instead of {seen[1]}")
    tolerance = TOLERANCE.get(expected.dtype, 1e-4)
    try:
        torch.testing.assert_close(
            actual.detach().cpu(), expected.detach(), rtol=tolerance, atol=tolerance, equal_nan=True
        )
    except AssertionError as error:
        raise Mismatch(f"{what}: {error}\n{actual.detach().cpu()}\ninstead of\n{expected}") from None
