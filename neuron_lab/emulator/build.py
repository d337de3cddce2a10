"""Build the C++ shim once per torch, Python ABI, compiler and source; load it from then on."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from types import ModuleType

from neuron_lab.errors import DeviceProblem

__all__ = ["BuildProblem", "build", "ensure_built", "is_built", "load"]

MODULE = "_neuron"
_SOURCE = Path(__file__).parent / "csrc"
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-w", f"-DNEURON_LAB_MODULE={MODULE}")
_ERROR_LINES = 12


class BuildProblem(DeviceProblem):
    """Raised when the emulated device's C++ shim cannot be built or loaded."""


def load() -> ModuleType:
    """The shim, built first if it must be. Raises BuildProblem."""
    path = ensure_built()
    loader = importlib.machinery.ExtensionFileLoader(MODULE, str(path))
    spec = importlib.util.spec_from_loader(MODULE, loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        message = (
            f"the built shim {path} does not load: {error}. Delete that file and start again; it is then built anew."
        )
        raise BuildProblem(message) from error
    return module


def is_built() -> bool:
    """Whether `load` would not have to compile."""
    return _find() is not None


def ensure_built() -> Path:
    """Path of the shim, compiled first if it must be. Raises BuildProblem."""
    return _find() or build()


def build() -> Path:
    """Compile the shim if it is missing, telling its progress on stderr; returns its path. Raises BuildProblem.

    One process builds, others that start meanwhile wait for it. A build that is killed leaves a temporary folder and no
    lock: the operating system drops the lock with the process.
    """
    from filelock import FileLock

    folder = _folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(folder / "build.lock")
        if not _acquired_at_once(lock):
            _tell("another process is building the emulated device; waiting for it\n")
            lock.acquire()
    except OSError as error:
        raise BuildProblem(
            f"the emulated device cannot be built in {folder}: {error}. Free the disk, or set XDG_CACHE_HOME to a writable directory."
        ) from error
    try:
        found = _find()
        if found is not None:
            return found
        _remove_leftovers(folder)
        with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as work:
            made = _compile(Path(work))
            target = folder / f"{_source_key()}-{_compiler_key(_compiler())}.so"
            os.replace(made, target)
        return target
    finally:
        lock.release()


def _acquired_at_once(lock: object) -> bool:
    from filelock import FileLock, Timeout

    assert isinstance(lock, FileLock)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    return True


def _folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("neuron_lab", appauthor=False)) / "shim"


def _find() -> Path | None:
    """The build made by this machine's compiler; without a compiler, any build of the same source."""
    compiler = _compiler_or_none()
    if compiler is not None:
        path = _folder() / f"{_source_key()}-{_compiler_key(compiler)}.so"
        return path if path.is_file() else None
    return next(iter(sorted(_folder().glob(f"{_source_key()}-*.so"))), None)


@functools.cache
def _source_key() -> str:
    import torch

    digest = hashlib.blake2b(digest_size=8)
    abi = str(sysconfig.get_config_var("SOABI"))
    jaxlib = importlib.metadata.version("jaxlib")
    for text in (torch.__version__, str(torch.version.git_version), abi, jaxlib, *_FLAGS):
        digest.update(text.encode() + b"\0")
    for source in sorted(_SOURCE.glob("*.[ch]*")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


def _compiler_key(compiler: str) -> str:
    # The binary's identity stands for its version: asking it would cost every start a process.
    path = Path(compiler).resolve()
    found = path.stat()
    text = f"{path} {found.st_size} {found.st_mtime_ns}"
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def _compiler_or_none() -> str | None:
    wanted = os.environ.get("CXX")
    return next(filter(None, map(shutil.which, [wanted] if wanted else ["c++", "g++", "clang++"])), None)


def _compiler() -> str:
    compiler = _compiler_or_none()
    if compiler is None:
        looked = os.environ.get("CXX", "c++, g++, clang++")
        raise BuildProblem(
            "the emulated `neuron` device needs a C++ compiler once, to build its shim, and none was found (looked for "
            f"{looked}). Install one: `apt-get install g++` on Debian and Ubuntu, `dnf install gcc-c++` on Fedora, "
            "`xcode-select --install` on macOS; or set CXX to its path."
        )
    return compiler


def _compile(work: Path) -> Path:
    import torch

    compiler, started = _compiler(), time.monotonic()
    command = [compiler, *_FLAGS, *_torch_flags()]
    _tell(f"building the emulated device for torch {torch.__version__} (once, about a minute on two cores)\n")
    bundles = _bundles(work)
    with ThreadPoolExecutor(len(bundles)) as pool:
        jobs = {pool.submit(_call, [*command, "-c", str(one), "-o", f"{one}.o"]): one for one in bundles}
        try:
            for done, job in enumerate(as_completed(jobs), 1):
                job.result()
                _tell(f"  {done}/{len(bundles)} compiled, {time.monotonic() - started:.0f} s\n")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    made = work / f"{MODULE}.so"
    _link(compiler, [f"{one}.o" for one in bundles], made)
    _tell(f"built in {time.monotonic() - started:.0f} s\n")
    return made


def _bundles(work: Path) -> list[Path]:
    """Two files that include all sources, those with pybind11 in one: reading PyTorch's headers is most of the work, so each
    core should do it once (46 s of CPU in all; 130 s with a unit for every file)."""
    sources = sorted(_SOURCE.glob("*.cpp"))
    bound = [source for source in sources if "pybind11" in source.read_text()]
    bundles = []
    for name, members in (("bound", bound), ("device", [source for source in sources if source not in bound])):
        if members:
            bundle = work / f"{name}.cpp"
            bundle.write_text("".join(f'#include "{member}"\n' for member in members))
            bundles.append(bundle)
    return bundles


def _jaxlib() -> Path:
    """Where its package lies; importing it would cost the start of XLA."""
    spec = importlib.util.find_spec("jaxlib")
    if spec is None or spec.origin is None:
        raise BuildProblem(
            "the emulated device's shim needs jaxlib's headers, and jaxlib is not installed: `pip install jaxlib`"
        )
    return Path(spec.origin).parent


def _torch_flags() -> list[str]:
    import torch
    from torch.utils.cpp_extension import include_paths

    folders = include_paths()
    kineto = str(Path(folders[0]) / "kineto")  # its headers include each other without the folder's name
    xla = str(_jaxlib() / "include")
    includes = (str(_SOURCE), *folders, kineto, xla, sysconfig.get_paths()["include"])
    return [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}", *(f"-I{path}" for path in includes)]


def _link(compiler: str, objects: Sequence[str], made: Path) -> None:
    import torch

    library = Path(torch.__file__).parent / "lib"
    undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    libraries = ["-ltorch_python", "-ltorch", "-ltorch_cpu", "-lc10"]
    _call(
        [
            compiler,
            "-shared",
            *undefined,
            *objects,
            "-o",
            str(made),
            f"-L{library}",
            *libraries,
            f"-Wl,-rpath,{library}",
        ]
    )


def _call(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shown = "\n".join(done.stderr.strip().splitlines()[:_ERROR_LINES])
        raise BuildProblem(
            f"`{command[0]}` failed with status {done.returncode} on the emulated device's shim:\n{shown}"
        )


def _remove_leftovers(folder: Path) -> None:
    # Of builds that were killed; the lock is ours, so nobody is at work in them.
    for path in folder.glob("build-*"):
        shutil.rmtree(path, ignore_errors=True)


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):  # a closed stderr must not stop a build
        sys.stderr.write(f"neuron_lab: {text}")
        sys.stderr.flush()
