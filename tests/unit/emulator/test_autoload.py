"""`import torch` gives the device its name, and nothing else until it is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulated import output_of, run_fresh

HEAVY = ("jaxlib", "torch_mlir", "pandas", "matplotlib", "IPython", "numpy.f2py")


def loaded(program: str) -> set[str]:
    """Which heavy packages a program has imported at its end."""
    tell = f"\nimport sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    return set(eval(output_of(program + tell)))


@pytest.mark.parametrize(
    "program",
    [
        "import torch",
        "import torch; torch.ones(2).sum()",
        "import torch; assert torch.neuron.is_available() and torch.neuron.device_count() == 4",
        "import torch, torch_neuronx",
        "import neuron_lab",
        "import torch; torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()",
    ],
)
def test_a_program_that_does_not_compile_imports_no_compiler(program: str) -> None:
    assert loaded(program) == set()


def test_using_the_device_imports_no_tables() -> None:
    assert loaded("import torch; (torch.ones(2, device='neuron') + 1).sum().item()") <= {"jaxlib", "torch_mlir"}


def test_a_program_on_the_host_builds_nothing(tmp_path: Path) -> None:
    program = "import torch; torch.ones(2).sum(); print(torch.neuron.is_available(), torch.neuron.is_initialized())"
    assert output_of(program, CXX="/no/such/compiler", XDG_CACHE_HOME=str(tmp_path)) == "True False"
    assert list(tmp_path.iterdir()) == []


def test_the_device_is_there_without_an_import() -> None:
    assert output_of("import torch; print((torch.ones(2, device='neuron') + 1).tolist())") == "[2.0, 2.0]"


def test_autoload_switched_off() -> None:
    program = "import torch; print(hasattr(torch, 'neuron'))"
    assert output_of(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "False"


def test_torch_neuronx_attaches_the_device_without_autoload() -> None:
    program = "import torch, torch_neuronx; print(torch.ones(2, device='neuron').tolist())"
    assert output_of(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "[1.0, 1.0]"


def test_torch_neuronx_may_be_imported_first() -> None:
    assert output_of("import torch_neuronx, torch; print(torch.ones(2, device='neuron').tolist())") == "[1.0, 1.0]"


def test_the_emulator_may_be_asked_before_torch() -> None:
    program = (
        "from neuron_lab import emulator; emulator.set_hbm_limit(1 << 20); import torch; print(emulator.hbm_limit())"
    )
    assert output_of(program) == str(1 << 20)


@pytest.fixture
def installed(tmp_path: Path) -> str:
    """A path with a torch_neuronx of somebody else."""
    package = tmp_path / "torch_neuronx"
    package.mkdir()
    (package / "__init__.py").write_text("REAL = True\n")
    return str(tmp_path)


def test_the_emulator_stands_aside_for_an_installed_torch_neuronx(installed: str) -> None:
    program = """
import torch, torch_neuronx
from neuron_lab import emulator
print(torch_neuronx.REAL, hasattr(torch, "neuron"), emulator.is_attached())
print(emulator.stands_aside())
"""
    first, second = output_of(program, PYTHONPATH=installed).splitlines()
    assert first == "True False False" and second == f"torch_neuronx is installed at {installed}/torch_neuronx"


def test_the_emulator_stands_aside_for_another_private_device() -> None:
    program = """
import torch
torch.utils.rename_privateuse1_backend("other")
from neuron_lab import emulator
print(emulator.attach(), emulator.stands_aside())
"""
    told = output_of(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert told == "False PyTorch's private device is already taken by the backend 'other'"


@pytest.mark.parametrize(("variable", "count"), [("NEURON_RT_NUM_CORES", "2"), ("NEURON_RT_VISIBLE_CORES", "0-1")])
def test_the_environment_limits_the_cores(variable: str, count: str) -> None:
    program = (
        "import torch; torch.neuron.init(); print(torch.neuron.device_count(), torch.ones(1, device='neuron:1').device)"
    )
    assert output_of(program, **{variable: count}) == "2 neuron:1"


def test_a_bad_list_of_cores_is_one_clear_error() -> None:
    done = run_fresh("import torch; torch.ones(1, device='neuron')", NEURON_RT_VISIBLE_CORES="0-9")
    assert done.returncode == 1 and "NEURON_RT_VISIBLE_CORES='0-9'" in done.stderr.splitlines()[-1]


def test_importing_torch_does_not_start_the_device() -> None:
    assert output_of("import torch; print(torch.neuron.is_initialized())") == "False"


SNIPPET = """
import torch, torch.nn as nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to("neuron")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 4).to("neuron"), torch.zeros(16, 1, device="neuron")
losses = []
for _ in range(5):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(losses == sorted(losses, reverse=True))
"""


def test_a_plain_script_trains(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SNIPPET)
    assert (
        output_of(f"import runpy; runpy.run_path({str(tmp_path / 'train.py')!r})", PYTHONWARNINGS="error::UserWarning")
        == "True"
    )


def test_a_program_that_ends_with_live_tensors_ends_cleanly() -> None:
    program = (
        "import torch; x = torch.ones(3, device='neuron'); y = [x + 1, torch.randn(2, device='neuron')]; y.append(y)"
    )
    done = run_fresh(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_that_ends_with_a_live_thread_ends_cleanly() -> None:
    program = """
import threading, torch
x = torch.ones(3, device="neuron") + 1
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
    done = run_fresh(program)
    assert (done.returncode, done.stderr) == (0, "")
