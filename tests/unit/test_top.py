"""What the cores do: one look, and the view that follows them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import neuron_lab
from neuron_lab import _top
from neuron_lab.device import CoreMemory
from neuron_lab.recording import Holding, Meter, measured
from neuron_lab.render import top_html
from neuron_lab.widgets import _top as live
from tests.fakes.device import FakeDevice

MIB = 1 << 20


@pytest.fixture
def cores(fake: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """Four cores; the first holds weights and something that PyTorch keeps."""
    fake.memory = [CoreMemory(6 * MIB, 24 << 30, 8 * MIB), *[CoreMemory(0, 24 << 30, 0)] * 3]
    fake.busy = [0] * 4
    held = Holding(("net.weight",), "parameters", 0, 4 * MIB, (1024, 1024), "float32")
    monkeypatch.setattr(_top, "holdings", lambda roots: (held,))
    return fake


def test_busy_is_a_part_of_the_time_since_the_look_before(cores: FakeDevice) -> None:
    assert neuron_lab.top().to_text().splitlines() == [
        "emulated trn2.3xlarge · emulated, not Trainium · busy is counted from now on: look again",
        "neuron:0   busy      –   HBM 6 MiB of 24 GiB, peak 8 MiB",
        "             parameters 4 MiB · kept by PyTorch for backward 2 MiB",
        "neuron:1-3 unused, HBM 24 GiB each",
    ]
    cores.busy = [150_000_000, 0, 400_000_000, 0]
    cores.clock.advance(600)
    found = neuron_lab.top()
    assert [core.busy for core in found.cores] == [0.25, 0.0, pytest.approx(2 / 3), 0.0]
    assert found.to_text().splitlines() == [
        "emulated trn2.3xlarge · emulated, not Trainium · busy in the last 600 ms",
        "neuron:0   busy 25.0 %   HBM 6 MiB of 24 GiB, peak 8 MiB",
        "             parameters 4 MiB · kept by PyTorch for backward 2 MiB",
        "neuron:2   busy 66.7 %   HBM 0 B of 24 GiB, peak 0 B",
        "neuron:1,3 unused, HBM 24 GiB each",
    ]
    assert found.frame.loc[0, "kept by PyTorch for backward"] == 2 * MIB


def test_text_keeps_to_its_width(cores: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ("parameters", "gradients", "optimizer state", "activations", "other")
    held = tuple(Holding((), kind, 0, MIB - 1 - size, (1,), "float32") for size, kind in enumerate(kinds))
    monkeypatch.setattr(_top, "holdings", lambda roots: held)
    lines = neuron_lab.top().to_text().splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[3] == "             optimizer state 1 MiB · activations 1 MiB · other 1 MiB"


def test_a_device_that_does_not_tell_is_said_so(cores: FakeDevice) -> None:
    cores.busy = None
    found = neuron_lab.top()
    text = top_html(SimpleNamespace(name="Trainium trn2", kind="trainium"), None, found.cores)  # type: ignore[arg-type]
    assert "does not tell how busy it is" in text
    assert found.frame.busy.isna().all()


class View(live.TopView):
    """One that keeps what it sends."""

    def __init__(self, look: Callable[[Meter], Any], meter: Meter, clock: Callable[[], float]) -> None:
        self.told: list[dict[str, Any]] = []
        super().__init__(look, meter, clock)

    def send(self, content: Any, buffers: Any = None) -> None:
        self.told.append(content)


class Events:
    """Of a shell."""

    def __init__(self) -> None:
        self.calls: dict[str, Callable[[], None]] = {}

    def register(self, name: str, call: Callable[[], None]) -> None:
        self.calls[name] = call

    def unregister(self, name: str, call: Callable[[], None]) -> None:
        assert self.calls.pop(name) == call


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Events:
    found = Events()
    monkeypatch.setattr(live, "_shell", lambda: SimpleNamespace(events=found))
    return found


def view(cores: FakeDevice, clock: Callable[[], float]) -> tuple[View, list[int]]:
    """A view, and a list that grows with each full look."""
    looks: list[int] = []

    def look(meter: Meter) -> Any:
        looks.append(1)
        return _top._look(meter)

    return View(look, Meter(lambda: None if cores.busy is None else tuple(cores.busy), cores.clock), clock), looks


def test_categories_are_looked_for_again_only_after_a_cell(cores: FakeDevice, events: Events) -> None:
    found, looks = view(cores, lambda: 0.0)
    found._answer(None, {"ask": "x"}, None)
    for _ in range(3):
        found._answer(None, {"act": "look"}, None)
    assert len(looks) == 1
    events.calls["post_run_cell"]()
    found._answer(None, {"act": "look"}, None)
    assert len(looks) == 2
    news = found.told[-1]["news"]
    assert news["answer"] is True
    assert news["cores"][0]["kinds"] == (("parameters", 4 * MIB), ("kept by PyTorch for backward", 2 * MIB))


def test_nothing_is_told_while_something_is_measured(cores: FakeDevice, events: Events) -> None:
    found, looks = view(cores, lambda: 0.0)
    with measured():
        found.tell()
    assert found.told == []
    with neuron_lab.profile():
        found.tell()
    assert found.told == []
    found.tell()
    assert [core["kinds"] for core in found.told[0]["news"]["cores"]] == [(("in use", 6 * MIB),)]
    assert looks == [], "the thread walks over no objects"


def test_thread_lives_while_a_cell_runs_and_somebody_looks(cores: FakeDevice, events: Events) -> None:
    now = [0.0]
    found, _ = view(cores, lambda: now[0])
    found._answer(None, {"ask": "x"}, None)
    events.calls["pre_run_cell"]()
    thread = found._thread
    assert thread is not None and thread.is_alive()
    now[0] = 100.0  # a long cell; messages of the browser wait
    events.calls["post_run_cell"]()
    assert not thread.is_alive() and found._thread is None
    events.calls["pre_run_cell"]()
    assert found._thread is not None, "the next cell of `run all`"
    events.calls["post_run_cell"]()
    now[0] = 200.0
    events.calls["pre_run_cell"]()
    assert found._thread is None and events.calls == {}, "the page was closed"
    found._answer(None, {"act": "look"}, None)
    assert set(events.calls) == {"pre_run_cell", "post_run_cell"}, "and opened again"
    found.release()
    assert events.calls == {}


def test_a_look_that_fails_is_told_in_the_view(cores: FakeDevice, events: Events) -> None:
    def look(meter: Meter) -> Any:
        raise ZeroDivisionError("no core")

    found = View(look, Meter(lambda: None, cores.clock), lambda: 0.0)
    with pytest.raises(ZeroDivisionError):
        found._answer(None, {"act": "look"}, None)
    assert found.told == [{"error": "ZeroDivisionError: no core"}]
