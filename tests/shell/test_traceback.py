"""What of torch.compile an error shows: compiled on the host, by a backend that the cell defines."""

from __future__ import annotations

import re
import sys

import pytest

from tests.shell.conftest import Shell

_SETUP = """import torch
def stops(graph, inputs):
    raise KeyboardInterrupt
def eager(graph, inputs):
    return graph
def doubled(x):
    return x * 2
def crooked(x):
    return x @ torch.ones(3, 3)
def failing(x):
    torch._dynamo.graph_break()
    return {}[len(x)]
x = torch.ones(2, 2)
"""
_CELLS = {
    "torch.compile(doubled, backend=stops)(x)": ("KeyboardInterrupt", ["stops(graph, inputs)"]),
    "torch.compile(crooked, backend=eager)(x)": ("TorchRuntimeError", []),
    "%neuron profile torch.compile(doubled, backend=stops)(x)": ("KeyboardInterrupt", ["stops(graph, inputs)"]),
}


@pytest.fixture
def compiling(shell: Shell) -> Shell:
    shell.run(_SETUP)
    shell.run("torch._dynamo.reset()")
    return shell


@pytest.mark.parametrize(("cell", "error", "frames"), [(cell, *rest) for cell, rest in _CELLS.items()], ids=_CELLS)
def test_the_inside_of_a_compile_is_left_out(compiling: Shell, cell: str, error: str, frames: list[str]) -> None:
    assert not compiling.run(cell).success
    (text,) = compiling.errors
    assert error in text and "torch/_dynamo/convert_frame.py" not in text
    assert [line.split(" in ")[1] for line in text.splitlines() if line.startswith("Cell") and " in " in line] == frames
    assert re.search(r"frames that are not the program's are left out \(\d+\); TORCHDYNAMO_VERBOSE=1 shows them", text)


def test_they_are_shown_on_demand(compiling: Shell) -> None:
    compiling.run("torch._dynamo.config.verbose = True")
    compiling.run("torch.compile(doubled, backend=stops)(x)")
    compiling.run("torch._dynamo.config.verbose = False")
    (text,) = compiling.errors
    assert "torch/_dynamo/convert_frame.py" in text and "left out" not in text


def test_an_error_of_the_program_that_was_compiled_keeps_its_frames(compiling: Shell) -> None:
    assert not compiling.run("torch.compile(failing, backend=eager)(x)").success
    (text,) = compiling.errors
    assert "KeyError" in text and "return {}[len(x)]" in text and "left out" not in text


_CHAINED = {
    "cause": "    raise ValueError('outer') from error",
    "context": "    {}['outer']",
}


@pytest.mark.parametrize("raised", _CHAINED.values(), ids=_CHAINED)
def test_the_inside_is_left_out_of_what_an_error_came_of(compiling: Shell, raised: str) -> None:
    compiling.run(f"try:\n    torch.compile(crooked, backend=eager)(x)\nexcept Exception as error:\n{raised}")
    (text,) = compiling.errors
    assert "outer" in text and "TorchRuntimeError" in text and "torch/_dynamo/convert_frame.py" not in text
    assert "frames that are not the program's are left out" in text


def test_a_debugger_begins_outside_of_the_compile(compiling: Shell) -> None:
    compiling.run("torch.compile(crooked, backend=eager)(x)")
    trace = sys.last_value.__traceback__
    names = []
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    assert names[-1].endswith("eval_frame.py") and names[-2].startswith("<ipython-input")


@pytest.mark.parametrize("line", ["profile", "profile --no-widget -q"])
def test_a_debugger_meets_no_frame_of_ours(compiling: Shell, line: str) -> None:
    compiling.run("def fails(x):\n    return {}[len(x)]")
    compiling.run(f"%neuron {line} fails(x)")
    trace, met = sys.last_value.__traceback__, []
    while trace is not None:
        met.append((str(trace.tb_frame.f_globals["__name__"]).partition(".")[0], trace.tb_frame.f_code.co_name))
        trace = trace.tb_next
    assert met[0] == ("IPython", "run_code") and met[-2:] == [("__main__", "<module>"), ("__main__", "fails")]
    assert not {"neuron_lab", "neuron_magics"} & {module for module, _ in met}
    compiling.run("%tb")
    assert compiling.errors[0] == compiling.errors[1] and "run_line_magic" not in compiling.errors[0]
