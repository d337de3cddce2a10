"""Building the shim: with a compiler that pretends, so that it takes no time."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulated import environment, run_fresh

BUILD = "from neuron_lab.emulator import build; print(build.build())"
# Notes every call, and makes what it is told to; waits at the gate when there is one.
COMPILER = """#!/bin/sh
echo "$$" >> "{folder}/calls"
if [ -p "{folder}/gate" ]; then echo started > "{folder}/ready"; cat "{folder}/gate"; fi
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then echo made > "$2"; fi
  shift
done
"""


class Place:
    """A home for one build: a compiler, and a cache directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.compiler("c++", COMPILER.format(folder=folder))

    def compiler(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        # Without autoload: what is built here does not load.
        self.variables = {"CXX": str(path), "XDG_CACHE_HOME": str(self.cache), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}

    @property
    def calls(self) -> int:
        """How often the compiler was run."""
        noted = self.folder / "calls"
        return len(noted.read_text().splitlines()) if noted.exists() else 0

    @property
    def left(self) -> list[str]:
        """What is in the folder of the builds, but for the lock."""
        return sorted(path.name for path in (self.cache / "neuron_lab" / "shim").iterdir() if path.name != "build.lock")

    def start(self) -> subprocess.Popen[str]:
        """A build in the background, in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", BUILD],
            env=environment(self.variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_build_leaves_one_library(place: Place) -> None:
    done = run_fresh(BUILD, **place.variables)
    assert place.left == [Path(done.stdout.strip()).name] and place.left[0].endswith(".so")
    assert "building the emulated device for torch" in done.stderr and "built in" in done.stderr


def test_a_built_shim_is_not_built_again(place: Place) -> None:
    run_fresh(BUILD, **place.variables)
    before = place.calls
    assert before > 1 and run_fresh(BUILD, **place.variables).returncode == 0
    assert place.calls == before


def test_another_compiler_builds_its_own(place: Place) -> None:
    run_fresh(BUILD, **place.variables)
    place.compiler("other", COMPILER.format(folder=place.folder) + "# another\n")
    run_fresh(BUILD, **place.variables)
    assert len(place.left) == 2


def test_without_a_compiler_a_problem_names_what_to_install(tmp_path: Path) -> None:
    done = run_fresh(
        "import torch; torch.ones(2, device='neuron')", CXX="/no/such/compiler", XDG_CACHE_HOME=str(tmp_path)
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and "BuildProblem" in last
    assert "needs a C++ compiler" in last and "/no/such/compiler" in last and "apt-get install g++" in last


def test_without_a_compiler_a_build_of_the_same_source_serves(place: Place) -> None:
    made = run_fresh(BUILD, **place.variables).stdout
    find = "from neuron_lab.emulator import build; print(build.is_built(), build._find())"
    found = run_fresh(find, **{**place.variables, "CXX": "/no/such/compiler"}).stdout
    assert found == f"True {made}"


def test_a_compiler_that_fails_is_quoted(place: Place) -> None:
    place.compiler("broken", "#!/bin/sh\necho 'no such header: torch.h' >&2\nexit 7\n")
    done = run_fresh(BUILD, **place.variables)
    assert done.returncode == 1 and "failed with status 7" in done.stderr and "no such header: torch.h" in done.stderr
    assert place.left == []


def test_a_library_that_does_not_load_is_a_problem(place: Place) -> None:
    done = run_fresh("from neuron_lab.emulator import build; build.load()", **place.variables)
    assert "BuildProblem" in done.stderr and "does not load" in done.stderr and "Delete that file" in done.stderr


def test_a_library_that_does_not_load_leaves_programs_on_the_host_alone(place: Place) -> None:
    run_fresh(BUILD, **place.variables)
    program = "import torch; print(torch.ones(2).sum().item())"
    assert run_fresh(program, **{**place.variables, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}).stdout == "2.0\n"


def test_a_cache_that_cannot_be_written_is_a_problem(place: Place) -> None:
    place.cache.write_text("a file in the way")
    done = run_fresh(BUILD, **place.variables)
    assert "BuildProblem" in done.stderr and "set XDG_CACHE_HOME to a writable directory" in done.stderr


def opened(path: Path) -> str:
    """One line from a FIFO: waits for its writer."""
    with path.open() as file:
        return file.readline().strip()


@pytest.fixture
def gated(place: Place) -> Place:
    """A compiler that says it has started and waits for ever."""
    os.mkfifo(place.folder / "gate")
    os.mkfifo(place.folder / "ready")
    return place


def test_a_killed_build_leaves_nothing_that_blocks(gated: Place) -> None:
    building = gated.start()
    assert opened(gated.folder / "ready") == "started"
    os.killpg(building.pid, signal.SIGKILL)
    building.communicate()
    assert any(name.startswith("build-") for name in gated.left)
    (gated.folder / "gate").unlink()
    assert run_fresh(BUILD, **gated.variables).returncode == 0
    assert len(gated.left) == 1 and gated.left[0].endswith(".so")


def test_two_processes_build_once(gated: Place) -> None:
    first = gated.start()
    assert opened(gated.folder / "ready") == "started"
    second = gated.start()
    assert second.stderr is not None
    assert "another process is building the emulated device" in second.stderr.readline()
    os.killpg(first.pid, signal.SIGKILL)  # the second takes over from a builder that dies
    first.communicate()
    (gated.folder / "gate").unlink()
    out, _ = second.communicate()
    assert second.returncode == 0 and gated.left == [Path(out.strip()).name]
