"""The line that is shown while a cell compiles: without threads on a clock of the test's, and in a real kernel."""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from nbclient.exceptions import CellExecutionError

from neuron_lab.emulator import events
from neuron_magics._progress import Drawer, NotebookLine, Progress, Step, TerminalLine, line_of
from tests.shell.conftest import Shell
from tests.shell.kernel import Run, running


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class KeptLine:
    steps: list[Step] = field(default_factory=list)

    def show(self, step: Step) -> None:
        self.steps.append(step)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(clock: Clock) -> Progress:
    made = Progress(clock)
    made.cell_starts()
    return made


def text(step: Step | None) -> str:
    assert step is not None
    return step.text


def compiled(progress: Progress, clock: Clock, name: str, seconds: float, *, made: bool = True) -> None:
    progress.begins(name)
    clock.now += seconds
    progress.ends(name, made)


def test_nothing_below_a_second_together(progress: Progress, clock: Clock) -> None:
    compiled(progress, clock, "aten::mm", 0.6)
    clock.now += 60  # the program's own time does not count
    progress.begins("aten::add")
    clock.now += 0.3
    assert progress.step() is None
    progress.ends("aten::add", True)
    assert progress.cell_ended() is None


def test_the_line_tells_what_how_many_how_long_and_how_long_it_took_before(progress: Progress, clock: Clock) -> None:
    for seconds in (0.2, 0.7, 0.6):
        compiled(progress, clock, "aten::mm", seconds)
    progress.begins("aten::mm")
    clock.now += 0.3
    assert text(progress.step()) == "compiling NEFF 4: aten::mm · 0.3 s of about 0.6 s · 1.8 s in all"
    progress.ends("aten::mm", True)
    assert progress.step() is None
    compiled(progress, clock, "aten::svd", 0.1, made=False)
    assert text(progress.cell_ended()) == "compiled 4 NEFFs in 1.9 s"


def test_short_compiles_are_named_without_their_time(progress: Progress, clock: Clock) -> None:
    for _ in range(20):
        compiled(progress, clock, "aten::add", 0.1)
    progress.begins("aten::add")
    assert text(progress.step()) == "compiling NEFF 21: aten::add · 2.0 s in all"


def test_graphs_are_of_one_kind_and_a_new_cell_begins_anew(progress: Progress, clock: Clock) -> None:
    compiled(progress, clock, "graph::graph_0_forward", 2.0)
    assert progress.cell_ended() is None  # nothing was drawn
    progress.cell_starts()
    progress.begins("graph::graph_1_backward")
    clock.now += 1.5
    assert text(progress.step()) == "compiling NEFF 1: graph_1_backward · 1.5 s of about 2.0 s · 1.5 s in all"
    assert text(progress.cell_ended()) == "compiled 0 NEFFs in 1.5 s · graph_1_backward goes on"  # it was interrupted
    progress.cell_starts()
    progress.ends("graph::graph_1_backward", True)
    assert progress.cell_ended() is None


def test_nested_cells_are_one_and_outside_of_cells_there_is_none(progress: Progress, clock: Clock) -> None:
    progress.begins("a")
    clock.now += 2
    assert progress.step() is not None
    progress.cell_starts()
    assert progress.cell_ended() is None
    assert progress.cell_ended() is not None
    assert progress.step() is None


def test_a_name_has_bounds(progress: Progress, clock: Clock) -> None:
    progress.begins("graph::" + "x" * 500)
    clock.now += 2
    assert len(text(progress.step())) < 100


def test_one_line_a_cell(progress: Progress, clock: Clock) -> None:
    lines: list[KeptLine] = []

    def new_line() -> KeptLine:
        lines.append(KeptLine())
        return lines[-1]

    drawer = Drawer(progress, new_line)
    progress.begins("a")
    drawer.draw()
    assert lines == []
    clock.now += 2
    drawer.draw()
    drawer.draw()
    progress.ends("a", True)
    drawer.draw()
    drawer.cell_ended()
    (line,) = lines
    assert [step.last for step in line.steps] == [False, False, True]
    drawer.cell_starts()
    drawer.cell_ended()
    assert len(lines) == 1 and len(line.steps) == 3


def test_a_captured_cell_draws_nothing(progress: Progress, clock: Clock) -> None:
    drawer = Drawer(progress, lambda: None)
    progress.begins("a")
    clock.now += 2
    drawer.draw()
    progress.ends("a", True)
    drawer.cell_ended()


def test_the_thread_ends_and_is_not_there_before_the_first_compile() -> None:
    drawer = Drawer(Progress(), KeptLine)
    assert drawer._thread is None
    drawer.begins("a")
    drawer.ends("a", True)
    drawer.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "neuron_lab-progress"]


def test_a_notebook_line_is_one_output_that_is_replaced() -> None:
    publisher: Any = CapturingDisplayPublisher()  # type: ignore[no-untyped-call]
    line = NotebookLine(publisher)
    line.show(Step("one <b>", 1.0))
    line.show(Step("two", 2.0, last=True))
    first, second = publisher.outputs
    assert first["data"]["text/plain"] == "one <b>" and "&lt;b&gt;" in first["data"]["text/html"]
    assert [first["update"], second["update"]] == [False, True]
    assert first["transient"] == second["transient"]


def test_a_notebook_line_has_a_bar_until_the_cell_has_ended() -> None:
    publisher: Any = CapturingDisplayPublisher()  # type: ignore[no-untyped-call]
    line = NotebookLine(publisher)
    steps = [Step("a", 1.0, 0.42), Step("a", 1.5), Step("a", 2.25), Step("done", 2.5, last=True)]
    for step in steps:
        line.show(step)
    known, here, there, last = (output["data"]["text/html"] for output in publisher.outputs)
    assert 'aria-valuenow="42"' in known and "width:42.0%" in known
    assert 'role="progressbar"' in here and "aria-valuenow" not in here, "no estimate"
    assert here != there, "it moves"
    assert "progressbar" not in last
    assert not re.search("<script|<style|src=|href=|url", known + here + last)


def test_the_bar_never_leaves_its_place() -> None:
    publisher: Any = CapturingDisplayPublisher()  # type: ignore[no-untyped-call]
    line = NotebookLine(publisher)
    for tenth in range(100):
        line.show(Step("a", tenth / 10))
    lefts = [
        float(re.search(r"margin-left:(\d+\.\d)%", output["data"]["text/html"])[1])  # type: ignore[index]
        for output in publisher.outputs
    ]
    assert min(lefts) < 5 and 70 < max(lefts) <= 75


def test_an_estimate_that_was_too_low_is_none(progress: Progress, clock: Clock) -> None:
    compiled(progress, clock, "aten::mm", 2.0)
    progress.begins("aten::mm")
    shares = []
    for _ in range(3):
        clock.now += 1
        step = progress.step()
        assert step is not None
        shares.append(step.share)
    assert shares == [0.5, None, None]


def test_a_terminal_line_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((31, 24)))
    stream = io.StringIO()
    line = TerminalLine(stream)
    line.show(Step("x" * 50, 1.0))
    line.show(Step("done", 2.0, last=True))
    assert stream.getvalue() == f"\r\x1b[K{'x' * 30}\r\x1b[Kdone\n"


def test_no_front_end_no_line_and_no_watcher(shell: Shell) -> None:
    assert line_of(shell.ip) is None
    assert events.watchers == []


def test_watchers_are_told_of_the_end_also_when_it_fails() -> None:
    told: list[Any] = []
    watcher = told.append, lambda name, made: told.append((name, made))
    events.watchers.append(watcher)
    try:
        with events.compiling("a"):
            pass
        with pytest.raises(ValueError, match="no"), events.compiling("b"):
            raise ValueError("no")
    finally:
        events.watchers.remove(watcher)
    assert told == ["a", ("a", True), "b", ("b", False)]


SETUP = """
import os, tempfile
os.environ["TORCH_NEURONX_NEFF_CACHE_DIR"] = tempfile.mkdtemp()
%load_ext neuron_lab
import threading, time, torch
x = torch.ones(2, device="neuron")
from neuron_lab.emulator import events
def compile_for(*seconds):
    for index, length in enumerate(seconds):
        with events.compiling("aten::mm"):
            time.sleep(length)
"""


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with running(SETUP, timeout_s=120) as execute:
        yield execute


def test_in_a_kernel_long_compiles_leave_one_line(run: Run) -> None:
    (line,) = run("compile_for(0.5, 0.9)")
    assert line.output_type == "display_data"
    assert re.fullmatch(r"compiled 2 NEFFs in \d+\.\d s", line.data["text/plain"])
    before, value = run("compile_for(1.3)\nprint('out')\n'value'")[::2]
    assert re.fullmatch(r"compiled 1 NEFF in \d+\.\d s", before.data["text/plain"])
    assert value.data["text/plain"] == "'value'"


def test_in_a_kernel_short_ones_and_captured_ones_leave_nothing(run: Run) -> None:
    assert run("compile_for(0.2)") == []
    assert run("x * 3;") == []
    assert run("%%capture kept\ncompile_for(1.4)") == []
    assert run("len(kept.outputs), kept.stdout, kept.stderr")[0].data["text/plain"] == "(0, '', '')"


def test_in_a_kernel_a_profile_has_its_report_below_the_line(run: Run) -> None:
    line, report = run("%%neuron profile\ncompile_for(1.2)\nx + 1;")
    assert line.data["text/plain"].startswith("compiled 2 NEFFs in ")
    assert "op calls" in report.data["text/plain"] or "op call" in report.data["text/plain"]


def test_in_a_kernel_an_interrupt_is_one_and_the_line_stays(run: Run) -> None:
    with pytest.raises(CellExecutionError) as caught:
        run(
            "threading.Timer(1.6, lambda: os.kill(os.getpid(), 2)).start()\n"
            "with events.compiling('aten::slow'):\n    time.sleep(30)"
        )
    assert caught.value.ename == "KeyboardInterrupt"
    assert run("'and on'")[0].data["text/plain"] == "'and on'"


def test_in_a_kernel_unloading_leaves_nothing(run: Run) -> None:
    assert run("%unload_ext neuron_lab\nassert not events.watchers\ncompile_for(1.2)") == []
    run("assert not [t for t in threading.enumerate() if t.name == 'neuron_lab-progress']")
