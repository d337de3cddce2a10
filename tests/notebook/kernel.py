"""A kernel whose device has a stepped clock, and that somebody interrupts."""

from __future__ import annotations

import asyncio
from typing import Any

from nbclient import NotebookClient

# Readings of the clock are 10 µs apart, an executable takes 150 ms to make, and who sleeps lets time pass.
_SOURCE = """
import threading, time
import torch
from neuron_lab.emulator import clock, compiler
from neuron_magics import _progress

def _compile(*arguments, _really=compiler.compile):
    clock.pass_time(150_000_000)
    return _really(*arguments)

def _sleep(seconds, _really=time.sleep, threads=threading):  # at the end the namespace is empty
    if threads.current_thread() is threads.main_thread():
        clock.pass_time(int(seconds * 1e9))
    _really(seconds)

compiler.compile, time.sleep = _compile, _sleep
_progress._THRESHOLD_S = float("inf")  # its line goes by the time of the world
clock.step(10_000)
"""
# The first cell. A file whose name begins with `<` is not the user's: no line of it is told in a report.
STEPPED = f"exec(compile({_SOURCE!r}, '<clock>', 'exec'))"


class Interrupter(NotebookClient):
    """Interrupts the kernel when a cell prints `waiting`."""

    async def _interrupt(self) -> None:
        await self.km.interrupt_kernel()

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["content"].get("text", "").startswith("waiting"):
            asyncio.get_running_loop().create_task(self._interrupt())
        return super().process_message(msg, cell, cell_index)
