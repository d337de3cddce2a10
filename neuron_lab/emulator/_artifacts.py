"""What was made of a compiled graph, as files: TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS=1, in TorchNeuron's directories.

    TORCH_NEURONX_DEBUG_DIR/
        fx_graphs/proc_{rank}/{graph}_{ms}.fx.txt
        raw/proc_{rank}/{graph}_{ms}.torch_raw.mlir
        stablehlo/proc_{rank}/{graph}_{ms}.stablehlo.mlir
        neff/proc_{rank}/{graph}_{ms}.neff

`ms` is the time in milliseconds since 1970. A graph that needs StableHLO written by hand has no form before it, so no raw file.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import tempfile
import time
import uuid
from pathlib import Path

from neuron_lab.emulator._stored import StoredNeff, to_bytes

__all__ = ["are_wanted", "preserve"]

_log = logging.getLogger(__name__)
_WANTED = "TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS"
_LONGEST_NAME = 200  # bytes: file systems take 255, the time and the suffix have some thirty


def are_wanted() -> bool:
    """Whether the environment asks for them now."""
    return os.environ.get(_WANTED) == "1"


def preserve(graph: str, fx_text: str, stored: StoredNeff, key: str, raw: str | None) -> None:
    """Write the files of one graph. Files that cannot be written fail no program."""
    graph = re.sub(r"[^\w-]+", "_", graph)  # a `model_name` is any text: none leads out of the folder
    graph = graph.encode()[-_LONGEST_NAME:].decode(errors="ignore")  # the end has the graph's number and kind
    rank, moment = os.environ.get("RANK", "0"), time.time_ns() // 1_000_000
    contents: dict[tuple[str, str], bytes] = {
        ("fx_graphs", "fx.txt"): fx_text.encode(),
        ("stablehlo", "stablehlo.mlir"): stored.stablehlo.encode(),
        ("neff", "neff"): to_bytes(key, stored),
    }
    if raw is not None:
        contents["raw", "torch_raw.mlir"] = raw.encode()
    root = _root()
    try:
        for (kind, suffix), content in contents.items():
            folder = root / kind / f"proc_{rank}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{graph}_{moment}.{suffix}").write_bytes(content)
    except OSError as error:
        _log.warning("%s asks for files that cannot be written to %s: %s", _WANTED, root, error)


def _root() -> Path:
    return Path(os.environ.get("TORCH_NEURONX_DEBUG_DIR") or _own_root())


@functools.cache
def _own_root() -> Path:
    return Path(tempfile.gettempdir()) / f"neuron_backend_{uuid.uuid4()}"
