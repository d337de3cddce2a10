"""Streams and events. Emulated execution is synchronous: streams are always idle, and elapsed times are real host times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from neuron_lab.emulator import _attach, clock

__all__ = ["Event", "Stream", "current_stream", "default_stream", "set_stream", "stream"]


class Stream(torch.Stream):
    """A queue of work on a core."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        from neuron_lab.emulator.api import neuron

        core = neuron._index(device)
        neuron._check(core)
        neuron._lazy_init()
        return super().__new__(cls, device=torch.device(_attach.DEVICE, core), priority=priority)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Record an event, a new one by default, in this stream."""
        event = Event() if event is None else event
        event.record(self)
        return event


class Event(torch.Event):
    """A point in time on a core."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        from neuron_lab.emulator.api import neuron

        neuron._lazy_init()
        made: Event = super().__new__(
            cls, device=_attach.DEVICE, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )
        made._timed, made._at_ns, made._core = enable_timing, None, None
        return made

    _timed: bool
    _at_ns: int | None
    _core: int | None

    def record(self, stream: torch.Stream | None = None) -> None:
        """Mark this point in a stream, the current one by default."""
        chosen = current_stream() if stream is None else stream
        super().record(chosen)
        self._at_ns, self._core = clock.now_ns(), chosen.device_index

    # PyTorch's own accepts no subclass of its event as the other end.
    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds of host time between two records. Raises RuntimeError with TorchNeuron's texts."""
        if not isinstance(end_event, Event):
            raise TypeError(f"elapsed_time takes a torch.neuron.Event, not {type(end_event).__name__}")
        if not (self._timed and end_event._timed):
            raise RuntimeError("Event was not created with timing enabled")
        if self._at_ns is None or end_event._at_ns is None:
            raise RuntimeError("Event has not been recorded")
        if self._core != end_event._core:
            raise RuntimeError("Events must be on the same device")
        return (end_event._at_ns - self._at_ns) / 1e6


def _with_ids(raw: torch.Stream) -> Stream:
    return Stream(stream_id=raw.stream_id, device_index=raw.device_index, device_type=raw.device_type)


def current_stream(device: Any = None) -> Stream:
    """The stream that work of this thread goes to."""
    from neuron_lab.emulator.api import neuron

    core = neuron._index(device)
    neuron._check(core)
    neuron._lazy_init()
    return _with_ids(torch._C._accelerator_getStream(core))


def default_stream(device: Any = None) -> Stream:
    """Stream 0 of a core."""
    from neuron_lab.emulator.api import neuron

    core = neuron._index(device)
    neuron._check(core)
    kind = torch._C._autograd.DeviceType.PrivateUse1
    return Stream(stream_id=0, device_index=core, device_type=int(kind.value))


def set_stream(stream: torch.Stream | None) -> None:
    """Make a stream the current one, and its core too; None changes nothing."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


@contextmanager
def stream(stream: torch.Stream | None) -> Iterator[None]:
    """Another current stream inside, and its core the current one; None changes nothing."""
    if stream is None:
        yield
        return
    from neuron_lab.emulator.api import neuron

    core, previous = neuron.current_device(), current_stream(stream.device)
    set_stream(stream)
    try:
        yield
    finally:
        set_stream(previous)
        neuron.set_device(core)
