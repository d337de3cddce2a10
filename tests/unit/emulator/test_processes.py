"""Forked and spawned processes, the shared NEFF cache, interrupts and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulated import environment, output_of, run_fresh

# Prints (compiled now, read from disk) after some work.
WORK = """
import torch
x = torch.ones(3, 3, device="neuron")
y = (x @ x + 1).relu().sum().item()
import torch_neuronx
stats = torch_neuronx._C._get_compilation_cache_stats()
print(y, stats["total_compilations"], stats["persistent_hits"])
"""


def worked(root: Path, **changes: str) -> tuple[float, int, int]:
    value, compiled, read = output_of(WORK, TORCH_NEURONX_NEFF_CACHE_DIR=str(root), **changes).split()
    return float(value), int(compiled), int(read)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache directory that holds what WORK needs; never written to by a test."""
    root = tmp_path_factory.mktemp("filled")
    value, compiled, _ = worked(root)
    assert value == 36 and compiled > 2
    return root


@pytest.fixture
def root(filled: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    import shutil

    return Path(shutil.copytree(filled, tmp_path / "neff"))


def neffs(root: Path) -> list[Path]:
    return sorted(root.rglob("*.neff"))


def test_a_session_left_open_at_exit_does_no_harm() -> None:
    """It holds the only references to code objects and modules, which must not be given back after Python has ended."""
    program = """
import torch
from neuron_lab.emulator import events
x = torch.ones(2, device="neuron")
events.hook().start()
for i in range(300):
    exec(compile(f"class Own{i}(torch.nn.Module):\\n    def forward(self, x): return x + x\\nOwn{i}()(x)", f"cell{i}", "exec"))
print("done")
"""
    assert output_of(program) == "done"


def test_a_second_process_compiles_nothing(root: Path) -> None:
    value, compiled, read = worked(root)
    assert (value, compiled, read) == (36, 0, len(neffs(root)))


@pytest.mark.parametrize("damage", [b"", b"\0" * 5000, b"half"], ids=["empty", "zeros", "truncated"])
def test_a_damaged_neff_is_compiled_again_and_healed(root: Path, damage: bytes) -> None:
    victim = neffs(root)[0]
    whole = victim.read_bytes()
    victim.write_bytes(whole[: len(whole) // 2] if damage == b"half" else damage)
    assert worked(root)[:2] == (36, 1)
    assert worked(root)[:2] == (36, 0)


def test_a_changed_byte_is_noticed(root: Path) -> None:
    victim = neffs(root)[0]
    content = bytearray(victim.read_bytes())
    content[-2000] ^= 0xFF
    victim.write_bytes(content)
    assert worked(root)[:2] == (36, 1)


def test_a_neff_that_others_may_write_is_not_believed(root: Path) -> None:
    victim = neffs(root)[0]
    victim.chmod(0o666)
    assert worked(root)[:2] == (36, 1)


def test_a_cache_that_cannot_be_written_works(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_text("in the way of a directory")  # also refuses root, whom permissions do not stop
    done = run_fresh(WORK, TORCH_NEURONX_NEFF_CACHE_DIR=str(root / "neff"))
    assert done.stdout.startswith("36.0 ")
    assert done.stderr.count("cannot be stored") == 1 and "TORCH_NEURONX_NEFF_CACHE_DIR" in done.stderr


@pytest.mark.parametrize("variable", ["TORCH_NEURONX_NEFF_DISABLE_CACHE", "TORCH_NEURONX_DISABLE_NEFF_CACHE"])
def test_a_cache_switched_off_stores_nothing(variable: str, tmp_path: Path) -> None:
    assert worked(tmp_path, **{variable: "1"})[0] == 36 and neffs(tmp_path) == []


FORKED = """
import os, sys, torch
x = torch.ones(2, device="neuron") + 1
sys.stdout.flush()
child = os.fork()
if child == 0:
    try:
        {call}
    except RuntimeError as error:
        print(type(error).__name__, error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print((x + 1).tolist(), torch.neuron._is_in_bad_fork())
"""
REFUSED = (
    "RuntimeError Cannot re-initialize Neuron runtime in forked subprocess. "
    "To use Neuron with multiprocessing, use the 'spawn' start method"
)


@pytest.mark.parametrize(
    "call",
    [
        "x + 1",
        "torch.ones(2, device='neuron')",
        "torch.neuron.init()",
        "torch.neuron.current_stream()",
        "torch.empty(2, device='neuron')",
        "torch.tensor([1.0], device='neuron')",
        "torch.ones(2).to('neuron')",
    ],
)
def test_a_forked_child_is_refused(call: str) -> None:
    first, second = output_of(FORKED.format(call=call)).splitlines()
    assert first.startswith(REFUSED) and second == "[3.0, 3.0] False"


def test_a_fork_before_the_device_is_used_may_use_it() -> None:
    program = """
import os, torch
child = os.fork()
if child == 0:
    print((torch.ones(2, device="neuron") + 1).tolist(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    assert output_of(program) == "[2.0, 2.0]"


def test_a_forked_child_computes_on_the_host() -> None:
    assert output_of(
        FORKED.format(call="print((torch.ones(2) + 1).tolist(), torch.neuron._is_in_bad_fork(), flush=True)")
    ) == ("[2.0, 2.0] True\n[3.0, 3.0] False")


def test_spawned_processes_use_the_device(tmp_path: Path) -> None:
    (tmp_path / "spawned.py").write_text("""
import torch

def work(index, queue):
    queue.put((index, (torch.ones(2, device=f"neuron:{index}") + index).tolist()))

if __name__ == "__main__":
    x = torch.ones(2, device="neuron") + 1
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    children = [context.Process(target=work, args=(index, queue)) for index in range(2)]
    for child in children: child.start()
    print(sorted(queue.get() for _ in children))
    for child in children: child.join()
    print([child.exitcode for child in children])
""")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "spawned.py")], capture_output=True, text=True, check=False, env=environment({})
    )
    assert done.stdout.splitlines() == ["[(0, [1.0, 1.0]), (1, [2.0, 2.0])]", "[0, 0]"], done.stderr


INTERRUPTED = """
import signal, threading, torch
from neuron_lab.emulator import lowering
x = torch.ones(3, device="neuron")
lower, gate, main = lowering.lower, threading.Event(), threading.get_ident()
def slow(call):
    signal.pthread_kill(main, signal.SIGINT)
    gate.wait()
    return lower(call)
lowering.lower = slow
try:
    x.tan()
except KeyboardInterrupt:
    print("interrupted")
lowering.lower = lower
gate.set()
print([round(value, 3) for value in x.tan().tolist()], (x + 1).tolist())
import torch_neuronx
print([key for key in torch_neuronx._C._get_all_cache_keys() if "tan" in key])
"""


def test_an_interrupt_while_compiling_reaches_the_user_and_breaks_nothing(tmp_path: Path) -> None:
    assert output_of(INTERRUPTED, TORCH_NEURONX_NEFF_CACHE_DIR=str(tmp_path)).splitlines() == [
        "interrupted",
        "[1.557, 1.557, 1.557] [2.0, 2.0, 2.0]",
        "['aten::tan(float32[3]) default=float32']",
    ]


KILLED = """
import sys, threading, torch
from neuron_lab.emulator import {module}
def stop(*args, **kwargs):
    print("compiling", flush=True)
    threading.Event().wait()
{module}.{name} = stop
torch.ones(3, 3, device="neuron").relu()
"""


@pytest.mark.parametrize(
    ("module", "name"), [("lowering", "lower"), ("compiler", "compile"), ("cache", "_write_whole")]
)
def test_a_process_killed_while_compiling_leaves_a_cache_that_works(module: str, name: str, tmp_path: Path) -> None:
    variables = environment({"TORCH_NEURONX_NEFF_CACHE_DIR": str(tmp_path)})
    program = KILLED.format(module=module, name=name)
    with subprocess.Popen([sys.executable, "-c", program], env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "compiling\n"
        os.kill(process.pid, signal.SIGKILL)
    assert worked(tmp_path)[0] == 36 and worked(tmp_path)[1] == 0
