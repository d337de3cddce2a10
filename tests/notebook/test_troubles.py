"""What goes wrong in a notebook, report by report: the exact text, in a real kernel, on a stepped clock."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.notebook.execution import execute, read
from tests.notebook.kernel import STEPPED, Interrupter

FOLDER = Path(__file__).parent / "troubles"
# Written anew with this variable set: look at every difference.
ANEW = os.environ.get("WRITE_EXPECTED") == "1"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The executed cells by their tag."""
    notebook = read(FOLDER / "program.py")
    notebook.cells.insert(0, nbformat.v4.new_code_cell(STEPPED))  # type: ignore[no-untyped-call]
    execute(notebook, tmp_path_factory.mktemp("neffs"), client=Interrupter, allow_errors=True)
    return {tag: cell for cell in notebook.cells for tag in cell.metadata.get("tags", [])}


def text_of(cell: Any) -> str:
    """The one report of a cell, without versions and colours."""
    (text,) = [output.data["text/plain"] for output in cell.outputs if "text/plain" in output.get("data", {})]
    return re.sub(r"torch \S+ · neuron_lab \S+", "torch · neuron_lab", text) + "\n"


@pytest.mark.parametrize("tag", ["storm", "fallback", "traceback", "held", "freed", "oom", "interrupt"])
def test_report_is_as_expected(cells: dict[str, Any], tag: str) -> None:
    expected, text = FOLDER / f"{tag}.txt", text_of(cells[tag])
    if ANEW:
        expected.write_text(text)
    assert text == expected.read_text()
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("tag", "name", "line"),
    [
        ("traceback", "RuntimeError", "activations.view(100, -1).mean()"),
        ("oom", "OutOfMemoryError", "loss = step(x, y)"),
        ("interrupt", "KeyboardInterrupt", "time.sleep(60)"),
    ],
)
def test_the_cell_fails_with_the_users_own_traceback(cells: dict[str, Any], tag: str, name: str, line: str) -> None:
    (error,) = [output for output in cells[tag].outputs if output.output_type == "error"]
    shown = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error.traceback))
    assert error.ename == name
    assert line in shown
    assert "neuron_magics" not in shown
    assert "neuron_lab/" not in shown


@pytest.mark.parametrize("tag", ["storm", "fallback"])
def test_the_cell_does_not_fail_for_a_finding(cells: dict[str, Any], tag: str) -> None:
    assert [output.output_type for output in cells[tag].outputs] == ["display_data"]
