"""The same in a real kernel: what a front end, and a runner of notebooks, gets to see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).parents[2]

SETUP = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "magics")!r}]
import pytest
from tests.fakes.device import FakeDevice, serve
dev = FakeDevice()
serve(dev, pytest.MonkeyPatch())
%load_ext neuron_lab
"""

Run = Callable[[str], list[Any]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Execute one cell after the other in one kernel; CellExecutionError is what stops `jupyter execute`, nbmake and papermill."""
    notebook: Any = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=60, store_widget_state=False)

    def execute(source: str) -> list[Any]:
        notebook.cells.append(nbformat.v4.new_code_cell(source))  # type: ignore[no-untyped-call]
        client.execute_cell(notebook.cells[-1], len(notebook.cells) - 1)
        return list(notebook.cells[-1].outputs)

    with client.setup_kernel():
        assert execute(SETUP) == []
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
