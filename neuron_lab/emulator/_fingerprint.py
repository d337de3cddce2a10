"""Everything besides an op's signature on which its compiled artefact depends."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path

from neuron_lab.emulator import compiler

_PACKAGES = ("torch", "torch-mlir", "jaxlib")
_SOURCES = ("lowering/**/*.py", "compiler.py", "_library.py", "csrc/library.cpp")
# XLA_FLAGS reaches the compiler; TorchNeuron makes the other two part of its key, so changing them compiles again.
_VARIABLES = ("XLA_FLAGS", "NEURON_CC_FLAGS", "NEURON_COMPILER_OPT_LEVEL")


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the packages that turn an op into an executable."""
    return {name: importlib.metadata.version(name) for name in _PACKAGES}


def fingerprint() -> str:
    """32 hex digits over package versions, the sources that decide what is compiled, compiler flags and the host CPU's features.

    Two processes with the same fingerprint may share executables.
    """
    text = "\0".join((_constant_part(), *(os.environ.get(name, "") for name in _VARIABLES)))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@functools.cache
def _constant_part() -> str:
    digest = hashlib.blake2b()
    for text in (*(f"{name} {version}" for name, version in versions().items()), compiler.FLAGS, _cpu_features()):
        digest.update(text.encode() + b"\0")
    folder = Path(__file__).parent
    for source in sorted(path for pattern in _SOURCES for path in folder.glob(pattern)):
        digest.update(str(source.relative_to(folder)).encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


def _cpu_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The instruction sets of this CPU: machine code made with them may be illegal on another."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:  # not Linux: the processor's name is the closest portable answer
        return f"{platform.machine()} {platform.processor()}"
    # "flags" on x86, "Features" on Arm; the first core stands for all.
    features = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    model = next((line for line in lines if line.startswith("model name")), "")
    return f"{platform.machine()} {model} {' '.join(sorted(features.partition(':')[2].split()))}"
