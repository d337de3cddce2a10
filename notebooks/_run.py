"""Execute a text notebook without a browser and print its headings and what its cells print.

    python notebooks/_run.py notebooks/00_quickstart.py

Exits with 1 and the cell's traceback when a cell fails.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jupytext
import nbclient
import nbformat

CELL_TIMEOUT_S = 600


def execute(path: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs; raises nbclient's CellExecutionError at the first failing cell."""
    notebook = jupytext.read(path)
    client = nbclient.NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_start=_print_headings,
        on_cell_executed=_print_outputs,
        extra_arguments=["--log-level=ERROR"],  # else the kernel warns of plain text on the loopback interface
    )
    client.execute()
    return notebook


def _print_headings(cell: Any, cell_index: int) -> None:
    if cell.cell_type == "markdown":
        for line in cell.source.splitlines():
            if line.startswith("#"):
                print(line, end="\n\n", flush=True)


def _print_outputs(cell: Any, cell_index: int, execute_reply: Any) -> None:
    texts = [text for output in cell.get("outputs", []) if (text := _text(output))]
    if texts:
        print(*(f"    {line}".rstrip() for line in cell.source.splitlines()), "", sep="\n")
        print(*texts, sep="\n", end="\n\n", flush=True)


def _text(output: Any) -> str:
    if output.output_type == "stream":
        text = output.text
    else:
        text = output.get("data", {}).get("text/plain", "")
    return str(text).rstrip("\n")


if __name__ == "__main__":
    try:
        for name in sys.argv[1:]:
            execute(Path(name))
    except nbclient.exceptions.CellExecutionError as error:
        sys.exit(str(error))
