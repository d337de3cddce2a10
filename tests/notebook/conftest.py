"""Executes notebooks as a user would: a fresh kernel, another directory, a NEFF cache of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbclient
import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CELL_TIMEOUT_S = 240

Execute = Callable[[Any, Path], Any]


def sources() -> list[Path]:
    """The committed notebooks, as text."""
    return sorted(NOTEBOOKS.glob("[0-9]*.py"))


def read(path: Path) -> Any:
    """The notebook without outputs."""
    return jupytext.read(path)  # type: ignore[no-untyped-call]


def only(cells: Sequence[Any]) -> Any:
    """A notebook of these cells."""
    notebook: Any = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    notebook.cells = list(cells)
    return notebook


@pytest.fixture(scope="session")
def execute(tmp_path_factory: pytest.TempPathFactory) -> Execute:
    """Execute a notebook in place with this cache directory; CellExecutionError is what fails the test."""

    def run(notebook: Any, cache: Path) -> Any:
        folder = tmp_path_factory.mktemp("work")
        client = nbclient.NotebookClient(
            notebook,
            timeout=CELL_TIMEOUT_S,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
            extra_arguments=["--log-level=ERROR"],  # else the kernel warns of plain text on the loopback interface
        )
        client.execute(env={**os.environ, "TORCH_NEURONX_NEFF_CACHE_DIR": str(cache)})
        assert list(folder.iterdir()) == [], "the notebook left files beside it"
        return notebook

    return run
