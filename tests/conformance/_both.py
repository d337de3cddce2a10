"""Runs a program on the CPU and on the device: it must give the same results, or the same error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.emulated import DEVICE

Program = Callable[[str], Any]
"""Takes the name of the device to make its tensors on."""


def programs(table: Mapping[str, Program]) -> pytest.MarkDecorator:
    """One test for each row."""
    return pytest.mark.parametrize("program", list(table.values()), ids=list(table))


def numbers(device: str, *sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """0, 1, 2, ... in this shape."""
    return torch.arange(torch.Size(sizes).numel(), device=device).to(dtype).reshape(sizes)


def drawn(device: str, *sizes: int) -> Tensor:
    """Random values, the same on every device; a leaf that wants a gradient."""
    return torch.randn(sizes).to(device).requires_grad_()


def assert_same(actual: Any, expected: Any, **tolerance: float) -> None:
    """Equal in dtype, shape, strides and value, the first being on the device; nested in lists, tuples and dicts."""
    if isinstance(expected, Tensor):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        assert actual.device.type == DEVICE or expected.device.type == actual.device.type
        assert actual.stride() == expected.stride()
        torch.testing.assert_close(actual.detach().cpu(), expected.detach(), equal_nan=True, **tolerance)
    elif isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key, value in expected.items():
            assert_same(actual[key], value, **tolerance)
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other, **tolerance)
    else:
        assert actual == expected


def _run(program: Program, device: str) -> Any:
    torch.manual_seed(0)
    return program(device)


def assert_agrees(program: Program, **tolerance: float) -> None:
    """The program gives on the device what it gives on the CPU."""
    expected = _run(program, "cpu")
    assert_same(_run(program, DEVICE), expected, **tolerance)


def assert_fails_alike(program: Program) -> None:
    """The program raises on the device the error it raises on the CPU."""
    errors = []
    for device in ("cpu", DEVICE):
        with pytest.raises(Exception) as caught:  # noqa: PT011  # what is expected is what the CPU raises
            _run(program, device)
        errors.append((caught.type, str(caught.value)))
    assert errors[1] == errors[0]
