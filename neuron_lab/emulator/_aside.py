"""What this process has compiled, set aside for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from neuron_lab.emulator import _attach, dispatch, events


@contextmanager
def compiled_set_aside() -> Iterator[None]:
    """Every op call is a first call, and what is compiled meanwhile is forgotten afterwards; compiled graphs keep their executables."""
    shim = _attach.shim()
    shim.set_plans_aside()
    try:
        with events.history_set_aside():
            try:
                yield
            finally:
                dispatch.settle()  # else what an interrupt has left to the compile thread comes among the user's
    finally:
        shim.put_plans_back()
