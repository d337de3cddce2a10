"""The same in a real kernel: what a front end, and a runner of notebooks, gets to see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nbconvert
import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from tests.shell.kernel import Run, running

SETUP = """
import pytest
from tests.fakes.device import FakeDevice, serve
dev = FakeDevice()
serve(dev, pytest.MonkeyPatch())
%load_ext neuron_lab
"""


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with running(SETUP, timeout_s=60) as execute:
        yield execute


def test_value_and_report_are_outputs_of_the_cell(run: Run) -> None:
    value, report = run("%%neuron profile\ndev.run('aten::mm', device_ms=2)\n'value'")
    assert value.output_type == "execute_result"
    assert value.data["text/plain"] == "'value'"
    assert report.output_type == "display_data"
    assert set(report.data) == {"text/plain", "text/html"}
    assert report.data["text/plain"].startswith(f"In[{value.execution_count}]  ")


def test_await_runs_on_the_kernels_own_loop(run: Run) -> None:
    value, _ = run("%%neuron profile\nimport asyncio\nawait asyncio.sleep(0, 'woke')")
    assert value.data["text/plain"] == "'woke'"


def test_exception_stops_the_notebook_with_traceback_and_report(run: Run) -> None:
    with pytest.raises(CellExecutionError) as caught:
        run("%%neuron profile\ndev.run('aten::mm')\n1/0")
    assert caught.value.ename == "ZeroDivisionError"
    assert "neuron_magics" not in caught.value.traceback


def test_budget_stops_the_notebook(run: Run) -> None:
    with pytest.raises(CellExecutionError) as caught:
        run("%%neuron profile --fail-over ms=1\ndev.run('aten::mm', device_ms=2)")
    assert caught.value.ename == "BudgetExceeded"
    assert caught.value.evalue == "2.0 ms, budget 1 ms"


def test_mistake_stops_the_notebook(run: Run) -> None:
    with pytest.raises(CellExecutionError) as caught:
        run("%%neuron profile --nope\ntouched = True")
    assert caught.value.ename == "UsageError"
    assert run("'touched' in globals()")[0].data["text/plain"] == "False"


def test_interrupt_is_a_keyboard_interrupt_with_a_report(run: Run) -> None:
    with pytest.raises(CellExecutionError) as caught:
        run(
            "%%neuron profile\nimport os, signal\ndev.run('aten::mm')\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(5)"
        )
    assert caught.value.ename == "KeyboardInterrupt"
    (again,) = run("%neuron last")
    assert "PARTIAL: stopped by KeyboardInterrupt" in again.data["text/plain"]


def test_statement_keeps_its_result_in_a_variable(run: Run) -> None:
    (shown,) = run("%neuron profile -q -o kept dev.run('aten::mm')\nkept.summary.op_calls")
    assert shown.data["text/plain"] == "1"


@pytest.mark.parametrize(
    ("body", "value"),
    {
        "shell line": ("out = !echo hi\nlist(out)", "['hi']"),
        "future import": ("from __future__ import annotations\nx: undefined = 1\nx", "1"),
        "multi-line string": ("'''one\n%two\n'''", r"'one\n%two\n'"),
        "line magic": ("%cd -q .\n7", "7"),
    }.values(),
)
def test_program_is_untouched(run: Run, body: str, value: str) -> None:
    shown, report = run(f"%%neuron profile\n{body}")
    assert shown.data["text/plain"] == value
    assert "text/html" in report.data


def test_other_magics_above_and_below(run: Run) -> None:
    for cell in ("%%time\n%%neuron profile\ndev.run('aten::mm')", "%%neuron profile\n%%time\ndev.run('aten::mm')"):
        kinds = [output.output_type for output in run(cell)]
        assert sorted(kinds) == ["display_data", "stream"]


def test_exit_of_the_program_ends_the_cell_and_not_the_kernel(run: Run) -> None:
    with pytest.raises(CellExecutionError) as caught:
        run("%%neuron profile\nimport sys\ndev.run('aten::mm')\nsys.exit(3)")
    assert caught.value.ename == "SystemExit"
    assert "PARTIAL: stopped by SystemExit at In[" in run("%neuron last")[0].data["text/plain"]


def test_error_that_hides_its_traceback_still_stops_the_notebook(run: Run) -> None:
    run("class Stop(Exception):\n    def _render_traceback_(self):\n        return []")
    with pytest.raises(CellExecutionError):
        run("%%neuron profile\ndev.run('aten::mm')\nraise Stop")
    assert "PARTIAL: stopped by Stop" in run("%neuron last")[0].data["text/plain"]


def test_syntax_error_is_shown_once_and_nothing_else(run: Run) -> None:
    with pytest.raises(CellExecutionError) as caught:
        run("%%neuron profile\nx = = 1")
    assert caught.value.ename == "SyntaxError"
    assert "line 2" in caught.value.traceback


def test_task_that_goes_on_after_its_cell_is_the_next_cells(run: Run) -> None:
    run(
        "%%neuron profile\nimport asyncio\nasync def later():\n    await go.wait()\n    dev.run('aten::mm')\n"
        "go = asyncio.Event()\ntask = asyncio.create_task(later())"
    )
    (report,) = run("%%neuron profile\ngo.set()\nawait task")
    assert "1 op call" in report.data["text/plain"]


def test_thread_counts_and_prints_in_its_cell(run: Run) -> None:
    printed, report = run(
        "%%neuron profile\nimport threading\ndef work():\n    dev.run('aten::mm')\n    print('from a thread')\n"
        "worker = threading.Thread(target=work)\nworker.start()\nworker.join()"
    )
    assert printed.text == "from a thread\n"
    assert "1 op call" in report.data["text/plain"]


def test_reloading_prints_nothing_and_nothing_doubles(run: Run) -> None:
    assert run("%reload_ext neuron_lab") == []
    assert len(run("%%neuron profile\ndev.run('aten::mm')")) == 1


def test_surroundings_stay_the_users(run: Run) -> None:
    state = (
        "import os, sys\n(os.getcwd(), os.listdir(), sys.argv, sys.gettrace(), sys.getprofile(), sorted(os.environ))"
    )
    before = run(state)[0].data["text/plain"]
    run("%%neuron profile\ndev.run('aten::mm')")
    assert run(state)[0].data["text/plain"] == before


def test_report_survives_export(run: Run) -> None:
    cell: Any = nbformat.v4.new_code_cell("x")  # type: ignore[no-untyped-call]
    cell.outputs = run("%%neuron profile\ndev.run('aten::mm')")
    notebook: Any = nbformat.v4.new_notebook(cells=[cell])  # type: ignore[no-untyped-call]
    for exporter in (nbconvert.HTMLExporter(), nbconvert.MarkdownExporter()):
        text, _ = exporter.from_notebook_node(notebook)
        assert 'class="nrn"' in text
        assert "aten::mm" in text
    html = cell.outputs[0].data["text/html"]
    assert not [word for word in ("<html", "<script", "<iframe", "<link", "http") if word in html]


def test_interrupt_of_an_await_is_partial_too(run: Run) -> None:
    with pytest.raises(CellExecutionError) as caught:
        run(
            "%%neuron profile\nimport asyncio, os, signal, threading\ndev.run('aten::mm')\n"
            "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\nawait asyncio.sleep(20)"
        )
    assert caught.value.ename in ("CancelledError", "KeyboardInterrupt")
    (again,) = run("%neuron last")
    assert f"PARTIAL: stopped by {caught.value.ename} at In[" in again.data["text/plain"]
    assert run("1 + 1")[0].data["text/plain"] == "2"
