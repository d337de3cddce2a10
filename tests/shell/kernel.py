"""A real kernel that executes one cell after the other, as a runner of notebooks does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]

Run = Callable[[str], list[Any]]


@contextmanager
def running(setup: str, timeout_s: int) -> Iterator[Run]:
    """Gives what executes a cell and returns its outputs; `setup` is the first, with this checkout importable, and has none.

    An error in a cell is a CellExecutionError, which is what stops `jupyter execute`, nbmake and papermill.
    """
    notebook: Any = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=timeout_s, store_widget_state=False)

    def execute(source: str) -> list[Any]:
        notebook.cells.append(nbformat.v4.new_code_cell(source))  # type: ignore[no-untyped-call]
        client.execute_cell(notebook.cells[-1], len(notebook.cells) - 1)
        return list(notebook.cells[-1].outputs)

    with client.setup_kernel():
        assert execute(f"import sys\nsys.path[:0] = {[str(ROOT), str(ROOT / 'magics')]!r}\n{setup}") == []
        yield execute
