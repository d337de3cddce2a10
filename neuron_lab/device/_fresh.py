"""A device that has compiled nothing yet, for as long as a cold figure is taken."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from neuron_lab.device._cache import DIRECTORY
from neuron_lab.device._resolve import resolve


@contextmanager
def fresh_caches() -> Iterator[None]:
    """An empty NEFF cache on disk and, on the emulator, in memory; afterwards both are the user's again.

    Trainium has no means to set aside what a process holds in memory: there a first call is cold only for what it had not run.
    """
    with ExitStack() as stack:
        stack.enter_context(_empty_directory())
        if resolve().kind == "emulator":
            from neuron_lab.emulator import compiled_set_aside

            stack.enter_context(compiled_set_aside())
        yield


@contextmanager
def _empty_directory() -> Iterator[None]:
    before = os.environ.get(DIRECTORY)
    # An interrupt while the last compile is waited for: its file may come while the folder goes.
    with tempfile.TemporaryDirectory(prefix="neuron_lab-fresh-", ignore_cleanup_errors=True) as folder:
        os.environ[DIRECTORY] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[DIRECTORY]
            else:
                os.environ[DIRECTORY] = before
