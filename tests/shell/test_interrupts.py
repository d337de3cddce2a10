"""An interrupt at the worst time: the recording is whole or not there, no frame of ours is shown, and the cell fails."""

from __future__ import annotations

import importlib.util
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import neuron_lab
from neuron_lab.device import dynamo
from tests.fakes.device import FakeSession
from tests.shell.conftest import Shell

RUN = "dev.run()"


@pytest.fixture(autouse=True)
def as_in_a_kernel() -> Iterator[None]:
    """A kernel executes its cells with Python's own handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted_after(monkeypatch: pytest.MonkeyPatch, owner: Any, method: str) -> list[None]:
    """Interrupt once, when `method` has done its work and before its caller has the result."""
    really, done = getattr(owner, method), []

    def work(*args: Any, **options: Any) -> Any:
        result = really(*args, **options)
        if not done:
            done.append(None)
            signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(owner, method, work)
    return done


@pytest.mark.parametrize("head", ["%%neuron profile\n", "%neuron profile "])
@pytest.mark.parametrize("when", ["start", "stop"])
def test_while_a_profile_begins_or_ends(shell: Shell, monkeypatch: pytest.MonkeyPatch, when: str, head: str) -> None:
    done = interrupted_after(monkeypatch, FakeSession, when)
    assert isinstance(shell.run(f"{head}{RUN}").error_in_exec, KeyboardInterrupt)
    (text,) = shell.errors
    assert done and "KeyboardInterrupt" in text and "neuron_lab/" not in text and "neuron_magics" not in text
    assert shell.device.sessions == []
    monkeypatch.undo()
    assert shell.run(f"%%neuron profile\n{RUN}").success


def test_what_was_recorded_is_not_lost(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_after(monkeypatch, FakeSession, "stop")
    shell.run(f"%%neuron profile\n{RUN}")
    assert shell.profile.summary.partial and [op.calls for op in shell.profile.recording.op_totals] == [1]
    interrupted_after(monkeypatch, FakeSession, "stop")
    shell.run(f"import neuron_lab\nwith neuron_lab.profile(label='block') as p:\n    {RUN}")
    assert shell.ip.user_ns["p"].summary.label == "block"


def test_while_the_report_is_drawn(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = interrupted_after(monkeypatch, neuron_lab.Profile, "to_text")
    assert isinstance(shell.run(f"%%neuron profile\n{RUN}").error_in_exec, KeyboardInterrupt)
    (text,) = shell.errors
    assert done and text.endswith(
        "KeyboardInterrupt: the cell was done, its report was not shown; `%neuron last` shows it"
    )
    assert shell.reports == [] and capsys.readouterr().out == ""
    shell.run("%neuron last")
    assert shell.profile.summary.op_calls == 1 and not shell.profile.summary.partial


def test_a_failed_cell_stays_failed_for_its_own_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_after(monkeypatch, neuron_lab.Profile, "to_text")
    assert isinstance(shell.run("%%neuron profile\n1 / 0").error_in_exec, ZeroDivisionError)


def test_while_the_first_op_imports_dynamo(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does so in a thread, which goes on: most of the module's names are missing yet."""
    spec: Any = importlib.util.find_spec("torch._dynamo")
    part = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(spec, "_initializing", True, raising=False)  # the spec may be that of the real module
    monkeypatch.setitem(sys.modules, "torch._dynamo", part)
    assert dynamo() is None
    shell.run("%%neuron profile\nraise KeyboardInterrupt")
    (text,) = shell.errors
    assert "----> 2 raise KeyboardInterrupt" in text and len(shell.reports) == 1


def test_the_frames_are_the_programs_own(shell: Shell) -> None:
    shell.run("import neuron_lab\n@neuron_lab.profile\ndef waits():\n    raise KeyboardInterrupt")
    shell.run("waits()")
    (text,) = shell.errors
    assert "raise KeyboardInterrupt" in text and "_profile.py" not in text
    assert "frames that are not the program's are left out (1); TORCHDYNAMO_VERBOSE=1 shows them" in text
