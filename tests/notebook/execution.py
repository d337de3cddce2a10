"""Execute a notebook as its user would: in a fresh kernel, in an empty directory, with a NEFF cache of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jupytext  # type: ignore[import-untyped]
import nbclient
import nbformat

from neuron_lab.emulator.build import ensure_built

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CELL_TIMEOUT_S = 240


def sources() -> list[Path]:
    """The committed notebooks, as text."""
    return sorted(NOTEBOOKS.glob("[0-9]*.py"))


def read(path: Path) -> Any:
    """The notebook without outputs."""
    return jupytext.read(path)


def only(cells: Sequence[Any]) -> Any:
    """A notebook of these cells."""
    notebook: Any = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    notebook.cells = list(cells)
    return notebook


def execute(
    notebook: Any,
    cache: Path,
    *,
    client: type[nbclient.NotebookClient] = nbclient.NotebookClient,
    allow_errors: bool = False,
) -> Any:
    """The notebook with its outputs; raises CellExecutionError where a cell fails and `allow_errors` is not set."""
    ensure_built()  # else the first cell tells how it builds the device
    with tempfile.TemporaryDirectory() as folder:
        running = client(
            notebook,
            allow_errors=allow_errors,
            timeout=CELL_TIMEOUT_S,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            extra_arguments=["--log-level=ERROR"],  # else the kernel warns of plain text on the loopback interface
        )
        running.execute(env={**os.environ, "TORCH_NEURONX_NEFF_CACHE_DIR": str(cache)})
        left = os.listdir(folder)
    assert left == [], "the notebook left files beside it"
    return notebook
