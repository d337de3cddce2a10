"""What TorchNeuron has kernels for, as its public snapshot of April 2026 tells; later releases have more."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import Literal, TypeAlias, cast

Status: TypeAlias = Literal["native", "native_cpp", "view", "composite", "cpu_fallback", "unsupported", "inactive"]

SNAPSHOT = "April 2026"
_TABLE = "torchneuron_2026_04.tsv"


@functools.cache
def support() -> Mapping[str, Status]:
    """Every op of the table, "aten::add.Tensor", and what becomes of it on the device; the file says what each status means."""
    found: dict[str, Status] = {}
    for line in files(__package__).joinpath(_TABLE).read_text("ascii").splitlines():
        if not line.startswith("#"):
            status, _, ops = line.partition("\t")
            found.update(dict.fromkeys((f"aten::{op}" for op in ops.split(" ")), cast("Status", status)))
    return found
