"""`neuron_lab.profile` as a context manager and a decorator, and its result."""

from __future__ import annotations

import asyncio
import io
import threading

import pytest

import neuron_lab
from neuron_lab import DeviceProblem, Profile, UsageProblem, device
from tests.fakes.device import FakeDevice


def test_block(fake: FakeDevice) -> None:
    with neuron_lab.profile(label="training") as p:
        fake.run("aten::mm", device_ms=2)
    assert p.summary.label == "training"
    assert p.ops.op.tolist() == ["aten::mm"]
    assert neuron_lab.last() is p
    assert (
        repr(p)
        == "<neuron profile: training · 2.00 ms · emulated trn2.3xlarge · neuron:0 · 1 op call · 1 NEFF, all warm>"
    )
    for frame in (p.neffs, p.compiles, p.fallbacks, p.copies):
        assert len(frame) <= 1


def test_running_profile_cannot_be_read_yet(fake: FakeDevice) -> None:
    with neuron_lab.profile() as p:
        assert repr(p) == "<neuron profile: running>"
        assert p._repr_mimebundle_() == {"text/plain": repr(p)}
        with pytest.raises(UsageProblem, match="still running"):
            _ = p.ops


def test_exception_passes_and_the_partial_result_is_kept(fake: FakeDevice) -> None:
    def fail() -> None:
        fake.run("aten::mm")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), neuron_lab.profile() as p:
        fail()
    assert p.summary.error == "ZeroDivisionError"
    assert p.summary.op_calls == 1
    assert neuron_lab.last() is p


def test_nested_blocks_see_their_own(fake: FakeDevice) -> None:
    block = neuron_lab.profile()
    with block as outer:
        fake.run("aten::a")
        with block as inner:
            fake.run("aten::b")
        fake.run("aten::c")
    assert inner.summary.op_calls == 1
    assert outer.summary.op_calls == 3
    assert neuron_lab.last() is outer


def test_blocks_that_overlap_in_threads(fake: FakeDevice) -> None:
    inside, leave = threading.Event(), threading.Event()
    results: list[Profile] = []

    def work() -> None:
        with neuron_lab.profile() as p:
            inside.set()
            leave.wait(10)
        results.append(p)

    thread = threading.Thread(target=work)
    with neuron_lab.profile() as first:
        thread.start()
        inside.wait(10)
        fake.run("aten::both")
    fake.run("aten::second")
    leave.set()
    thread.join()
    assert first.summary.op_calls == 1
    assert results[0].summary.op_calls == 2


@pytest.mark.parametrize("decorate", [neuron_lab.profile, neuron_lab.profile()], ids=["bare", "called"])
def test_decorator_profiles_every_call(fake: FakeDevice, decorate: object) -> None:
    def step(count: int) -> int:
        """A step."""
        for _ in range(count):
            fake.run("aten::mm")
        return count

    profiled = decorate(step)  # type: ignore[operator]
    assert profiled(2) == 2
    first = neuron_lab.last()
    assert profiled(3) == 3
    assert (first.summary.op_calls, neuron_lab.last().summary.op_calls) == (2, 3)
    assert profiled.__doc__ == "A step."
    assert first.summary.label.endswith("step")


def test_decorator_of_a_recursive_function(fake: FakeDevice) -> None:
    @neuron_lab.profile
    def down(n: int) -> None:
        fake.run("aten::mm")
        if n:
            down(n - 1)

    down(2)
    assert neuron_lab.last().summary.op_calls == 3


def test_decorator_of_a_coroutine_function(fake: FakeDevice) -> None:
    @neuron_lab.profile(label="async")
    async def step() -> str:
        await asyncio.sleep(0)
        fake.run("aten::mm")
        return "done"

    assert asyncio.run(step()) == "done"
    assert neuron_lab.last().summary.op_calls == 1


def test_shown_only_when_asked(fake: FakeDevice, capsys: pytest.CaptureFixture[str]) -> None:
    with neuron_lab.profile() as p:
        fake.run("aten::mm", device_ms=2)
        fake.run("aten::add.Tensor")
    assert capsys.readouterr().out == ""
    p.show()
    assert capsys.readouterr().out == p.to_text() + "\n"
    p.show(top=1)
    assert "… 1 more" in capsys.readouterr().out
    with neuron_lab.profile(quiet=False):
        pass
    assert "no op ran on the device" in capsys.readouterr().out


def test_shown_where_the_terminal_knows_no_such_letters(fake: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", out)
    with neuron_lab.profile(quiet=False):
        fake.run("aten::add.Tensor", device_ms=2)
    out.seek(0)
    assert "aten::add.Tensor" in out.read()


def test_bundle_has_text_and_html(fake: FakeDevice) -> None:
    with neuron_lab.profile() as p:
        fake.run("aten::mm")
    bundle = p._repr_mimebundle_()
    assert bundle == {"text/plain": p.to_text(), "text/html": p.to_html()}


def test_options_are_checked_before_anything_runs() -> None:
    with pytest.raises(UsageProblem, match="label is 5; "):
        neuron_lab.profile(label=5)  # type: ignore[call-overload]
    with pytest.raises(UsageProblem, match="cannot sort by 'colour'"):
        neuron_lab.profile(sort="colour")


def test_nothing_profiled_yet(fake: FakeDevice) -> None:
    with pytest.raises(UsageProblem, match="nothing was profiled yet"):
        neuron_lab.last()


def test_no_device_is_told_on_entry(fake: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise DeviceProblem("no device serves `neuron` here")

    monkeypatch.setattr(device, "hook", none)
    with pytest.raises(DeviceProblem), neuron_lab.profile():
        pass


def test_public_names() -> None:
    assert neuron_lab.__all__ == sorted(set(neuron_lab.__all__))
    for name in neuron_lab.__all__:
        assert getattr(neuron_lab, name) is not None
        assert name in dir(neuron_lab)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = neuron_lab.nothing
