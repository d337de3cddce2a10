"""Fake CPU tensors: the metadata that CPU eager would give, without data."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack, _pop_mode

_LOGGER = logging.getLogger("torch._subclasses.fake_tensor")


@functools.cache
def _mode() -> FakeTensorMode:
    return FakeTensorMode()


def _stack_length() -> int:
    return len(_get_current_dispatch_mode_stack())


@contextlib.contextmanager
def fake_tensors(default_dtype: torch.dtype) -> Iterator[None]:
    """Below autograd, every new tensor is fake, and the default dtype is that of the caller."""
    previous = torch.get_default_dtype()
    if previous != default_dtype:
        torch.set_default_dtype(default_dtype)
    depth = _stack_length()
    _LOGGER.disabled = True  # it reports every refused call, which the caller turns into a reason
    try:
        with _mode(), torch._C._AutoDispatchBelowAutograd():
            yield
    finally:
        _LOGGER.disabled = False
        while _stack_length() > depth:  # an error inside a nested mode can leave it behind
            _pop_mode()
        if previous != default_dtype:
            torch.set_default_dtype(previous)
