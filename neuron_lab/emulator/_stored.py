"""A compiled op as a record, and as the members of an emulated NEFF file."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from dataclasses import dataclass
from typing import Any

from neuron_lab import neff
from neuron_lab.emulator._fingerprint import versions
from neuron_lab.emulator.compiler import numpy_dtype

BUILD_VERSION = "neuron_lab-emulator"
"""The header's build_version of every file written here begins so."""
_LIMITS = neff.Limits(payload=2 << 30, expanded=2 << 30, members=16, kept=2 << 30)


@dataclass(frozen=True, slots=True)
class Port:
    """One tensor that a NEFF takes or gives: dtype by torch name, sizes in elements."""

    dtype: str
    sizes: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the dense tensor."""
        return math.prod(self.sizes) * numpy_dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class StoredNeff:
    """What one emulated NEFF holds; times in seconds, as measured when it was made."""

    op: str
    signature: str
    stablehlo: str
    plan_json: str
    executable: bytes
    fx: str
    trace_s: float
    lower_s: float
    compile_s: float
    tier: str = "eager"
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    flops: float = 0.0
    bytes_accessed: float = 0.0
    temporary_bytes: int = 0
    """Of the buffers that XLA needs beside inputs and outputs."""
    created: float = dataclasses.field(default_factory=time.time)
    """Seconds since the epoch."""
    function: str = ""
    """Of a graph: the user's function it was first made of, and where that is."""
    place: str = ""


def to_bytes(key: str, stored: StoredNeff) -> bytes:
    """The NEFF file for this record."""
    description = {
        "emulated": True,
        "key": key,
        "op": stored.op,
        "function": stored.function,
        "place": stored.place,
        "signature": stored.signature,
        "tier": stored.tier,
        "versions": versions(),
        "created": stored.created,
        "trace_s": stored.trace_s,
        "lower_s": stored.lower_s,
        "compile_s": stored.compile_s,
    }
    statistics = {
        "source": "XLA cost analysis on the host",
        "flops": stored.flops,
        "bytes_accessed": stored.bytes_accessed,
        "temporary_bytes": stored.temporary_bytes,
    }
    members = {
        "neff.json": _json(description),
        "info.json": _json({"inputs": _table(stored.inputs), "outputs": _table(stored.outputs)}),
        "hlo_stats.json": _json(statistics),
        "emulator/module.stablehlo.mlir": stored.stablehlo.encode(),
        "emulator/plan.json": stored.plan_json.encode(),
        "emulator/executable.bin": stored.executable,
        "emulator/graph.fx.txt": stored.fx.encode(),
    }
    return neff.pack(stored.op, members, build_version=f"{BUILD_VERSION} jaxlib-{versions()['jaxlib']}")


def from_file(file: Any, key: str) -> StoredNeff:
    """Read what `to_bytes` wrote under this key, from an open binary file.

    Raises NeffFormatError when the file is damaged, of another key, or not written here.
    """
    content = neff.parse(file, limits=_LIMITS)
    if not content.verified:
        msg = "the header has no valid hash"
        raise neff.NeffFormatError(msg)
    try:
        description, info = content.json("neff.json"), content.json("info.json")
        statistics = content.json("hlo_stats.json")
        if description["emulated"] is not True or description["key"] != key:
            msg = f"it is not the emulated NEFF {key}"
            raise neff.NeffFormatError(msg)
        return StoredNeff(
            op=description["op"],
            signature=description["signature"],
            stablehlo=content.text("emulator/module.stablehlo.mlir"),
            plan_json=content.text("emulator/plan.json"),
            executable=content.data("emulator/executable.bin"),
            fx=content.text("emulator/graph.fx.txt"),
            trace_s=description["trace_s"],
            lower_s=description["lower_s"],
            compile_s=description["compile_s"],
            tier=description["tier"],
            inputs=_ports(info["inputs"]),
            outputs=_ports(info["outputs"]),
            flops=statistics["flops"],
            bytes_accessed=statistics["bytes_accessed"],
            temporary_bytes=statistics["temporary_bytes"],
            created=description["created"],
            function=description.get("function", ""),
            place=description.get("place", ""),
        )
    except (KeyError, TypeError) as error:
        msg = f"a field is missing or of another type: {error!r}"
        raise neff.NeffFormatError(msg) from error


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def _table(ports: tuple[Port, ...]) -> list[dict[str, Any]]:
    return [{"dtype": port.dtype, "shape": port.sizes, "bytes": port.nbytes} for port in ports]


def _ports(table: list[dict[str, Any]]) -> tuple[Port, ...]:
    return tuple(Port(row["dtype"], tuple(row["shape"])) for row in table)
