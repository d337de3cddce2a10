"""The variables of TorchNeuron that mean something here."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuron_lab.emulator import _fallback, _logging
from neuron_lab.emulator._describe import VARIABLES_READ
from neuron_lab.emulator.compiler import CompileError
from neuron_lab.emulator.driver import chip, visible_cores
from neuron_lab.emulator.lowering import Unlowerable
from neuron_lab.errors import UsageProblem
from tests.emulated import output_of, run_fresh

ONLY = "TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS"

# XLA refuses every module; `torch.unique` has no lowering at all.
BROKEN = """
import torch
from neuron_lab.emulator import compiler
def refuse(*args, **kwargs): raise compiler.CompileError("no registers left")
compiler.compile = refuse
x = torch.ones(3, 17).to("neuron")
print(torch.unique(x).tolist())
try:
    print(x.sinh().sum().isfinite().item())
except RuntimeError as error:
    print(error)
"""


def test_a_failed_compile_falls_back_by_default() -> None:
    assert output_of(BROKEN).splitlines() == ["[1.0]", "True"]


def test_a_failed_compile_raises_when_only_unimplemented_ops_may_fall_back() -> None:
    first, text = output_of(BROKEN, **{ONLY: "1"}).splitlines()
    assert first == "[1.0]"
    assert text.startswith(
        f"CPU fallback disabled because {ONLY}=1. Operation aten::sinh failed to execute on Neuron (last implementation: "
    )
    assert "Details: no registers left Args: [aten::sinh(float32[3, 17])" in text


def test_a_failed_compile_raises_when_fallback_is_off() -> None:
    lines = output_of(BROKEN, NEURON_FALLBACK_ENABLED="0").splitlines()
    assert lines[1:] == [
        "stream_id=0; Compilation error occurred on Neuron for operation=aten::sinh;",
        'error message="COMPILATION FAILED: no registers left"',
        "python stack trace=",
    ]


def test_the_stack_trace_names_the_line() -> None:
    told = output_of(BROKEN, NEURON_FALLBACK_ENABLED="0", TORCH_NEURONX_ENABLE_STACK_TRACE="1")
    assert 'File "<string>", line 9' in told


def failure(cause: Exception) -> Unlowerable:
    error = Unlowerable("what came of it")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("error", [Unlowerable("no lowering"), failure(Unlowerable("no lowering"))])
def test_an_op_without_lowering_may_always_fall_back(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ONLY, "1")
    monkeypatch.setenv("NEURON_FALLBACK_ENABLED", "0")
    _fallback.allow("aten::op", "", error)


@pytest.mark.parametrize("error", [CompileError("XLA"), failure(ValueError("torch-mlir"))])
def test_what_failed_may_not(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    _fallback.allow("aten::op", "", error)
    monkeypatch.setenv(ONLY, "1")
    with pytest.raises(RuntimeError, match="CPU fallback disabled"):
        _fallback.allow("aten::op", "", error)


def test_the_log_goes_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "neuron.log"
    program = "import torch; torch.unique(torch.ones(3, device='neuron').sinh())"
    output_of(BROKEN, TORCH_NEURONX_LOG_FILE=str(path), TORCH_NEURONX_LOG_LEVEL="2")
    assert "INFO neuron_lab.emulator.dispatch: aten::sinh(float32[3, 17])" in path.read_text()
    path.unlink()
    output_of(program, TORCH_NEURONX_LOG_FILE=str(path))
    assert path.read_text() == ""  # warnings and errors only


def test_the_log_goes_to_stderr() -> None:
    assert "runs on the CPU: no registers left" in run_fresh(BROKEN, TORCH_NEURONX_LOG_LEVEL="3").stderr
    assert "runs on the CPU" not in run_fresh(BROKEN).stderr


def test_a_log_level_that_is_none() -> None:
    done = run_fresh("import torch; torch.neuron.init()", TORCH_NEURONX_LOG_LEVEL="loud")
    assert done.returncode == 0 and "TORCH_NEURONX_LOG_LEVEL='loud' is not one of 0" in done.stderr


def test_without_the_variables_pythons_settings_hold() -> None:
    import logging

    _logging.configure({})
    assert logging.getLogger("neuron_lab.emulator").propagate


@pytest.mark.parametrize(("text", "count"), [("1", 1), ("4", 4)])
def test_a_launchers_processes_are_the_cores(text: str, count: int) -> None:
    assert visible_cores(chip(), {"LOCAL_WORLD_SIZE": text, "NEURON_RT_VISIBLE_CORES": "0"}) == count


@pytest.mark.parametrize("text", ["0", "5", "two"])
def test_more_processes_than_cores(text: str) -> None:
    with pytest.raises(UsageProblem, match="LOCAL_WORLD_SIZE"):
        visible_cores(chip(), {"LOCAL_WORLD_SIZE": text})


def test_cores_of_a_process() -> None:
    program = "import torch; print(torch.neuron.device_count()); torch.ones(1, device='neuron:2')"
    done = run_fresh(program, NEURON_RT_NUM_CORES="2")
    assert done.stdout.strip() == "2"
    assert "Device index 2 is out of range. Valid range is 0 to 1 for this process" in done.stderr
    assert output_of(program, LOCAL_WORLD_SIZE="3", NEURON_RT_NUM_CORES="2") == "3"


def test_torch_neuronx_is_imported_before_torch() -> None:
    assert output_of("import torch_neuronx; print(torch_neuronx.device_count())") == "4"


def test_what_is_read_is_told() -> None:
    assert list(VARIABLES_READ) == sorted(VARIABLES_READ)
    sources = "".join(
        path.read_text() for path in Path(_fallback.__file__).parent.rglob("*.py") if path.name != "_describe.py"
    )
    assert [name for name in VARIABLES_READ if f'"{name}"' not in sources] == []
