"""FX graph -> torch-mlir -> StableHLO text."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import fx

from ._constants import hidden, restored
from ._records import Unlowerable
from ._stitch import has_islands, stitched

_TORCH_PIPELINE = (
    "builtin.module(func.func(torch-match-quantized-custom-ops),"
    "torchdynamo-export-to-torch-backend-pipeline{ extra-library=})"
)
_STABLEHLO_PIPELINE = "builtin.module(torch-backend-to-stablehlo-backend-pipeline{allow-non-finites=True})"
"""Both as in torch_mlir.fx of torch-mlir 20261001."""


class _Toolchain:
    """One MLIR context and its parsed pipelines: making them costs more than lowering an op."""

    def __init__(self) -> None:
        from torch_mlir import ir, passmanager
        from torch_mlir.dialects import torch as torch_dialect

        self.context = ir.Context()
        self.context.enable_multithreading(False)
        self.context.emit_error_diagnostics = True
        torch_dialect.register_dialect(self.context)
        self.errors: list[str] = []
        self._handler = self.context.attach_diagnostic_handler(self._on_diagnostic)
        with self.context:
            self.pipelines = [passmanager.PassManager.parse(p) for p in (_TORCH_PIPELINE, _STABLEHLO_PIPELINE)]

    def _on_diagnostic(self, diagnostic: Any) -> bool:
        self.errors.append(str(diagnostic.message))
        return True


@functools.cache
def toolchain() -> _Toolchain:
    """The shared toolchain, made on first use."""
    return _Toolchain()


def to_stablehlo(graph: fx.Graph) -> str:
    """StableHLO text of ``graph``. Raises Unlowerable with the compiler's message."""
    if has_islands(graph):
        return _checked(stitched(graph, _part))
    shown, constants = hidden(graph)
    return _checked(restored(str(_module(shown, "main")), constants, _inputs(graph)))


def to_torch_dialect(graph: fx.Graph) -> str | None:
    """``graph`` as torch-mlir imports it; None for one with islands, which has no such form."""
    return None if has_islands(graph) else str(_imported(graph, "main").module)


def _imported(graph: fx.Graph, name: str) -> Any:
    from torch_mlir.extras.fx_importer import FxImporter

    # The check would tell Python's root logger of each dialect, for each graph; the toolchain has them.
    importer = FxImporter(context=toolchain().context, config_check=False)
    importer.import_stateless_graph(graph, func_name=name)
    return importer


def _module(graph: fx.Graph, name: str) -> Any:
    """The lowered MLIR module of a graph without islands."""
    _check_dtypes(graph)
    tools = toolchain()
    tools.errors.clear()
    try:
        importer = _imported(graph, name)
        with tools.context:
            for pipeline in tools.pipelines:
                pipeline.run(importer.module.operation)
    except Exception as error:
        raise Unlowerable(_reason(tools.errors, error)) from error
    if tools.errors:
        raise Unlowerable(_reason(tools.errors, None))
    return importer.module


def _part(graph: fx.Graph, name: str) -> tuple[str, list[str], list[str]]:
    """One function of a stitched module: its text, argument types and result types."""
    shown, constants = hidden(graph)
    module = _module(shown, name)  # owns the function
    (function,) = module.body.operations
    kind = function.type
    inputs = _inputs(graph)
    text = restored(str(function), constants, inputs).replace(f"func.func @{name}", f"func.func private @{name}", 1)
    return text, [str(t) for t in kind.inputs][:inputs], [str(t) for t in kind.results]


def _inputs(graph: fx.Graph) -> int:
    return sum(node.op == "placeholder" for node in graph.nodes)


def _checked(text: str) -> str:
    text = text.replace("is_stable = false", "is_stable = true")  # every sort of PyTorch's CPU is stable
    for token, why in _REJECTED.items():
        if token in text:
            raise Unlowerable(f"torch-mlir leaves {why}")
    return text


# torch-mlir aborts the process on complex constants, and was not tried with the rest.
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_DTYPES = frozenset((*_FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool))


def _check_dtypes(graph: fx.Graph) -> None:
    for node in graph.nodes:
        value = node.meta.get("val")
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, torch.Tensor) and item.dtype not in _DTYPES:
                raise Unlowerable(f"dtype {item.dtype} has no lowering")


_REJECTED = {
    "dense_resource<": "a constant as a resource, which XLA rejects",
    "tensor.empty": "tensor.empty, which XLA rejects",
    "torch.": "torch dialect ops",
    "linalg.": "linalg ops, which XLA rejects",
}


def _reason(errors: list[str], error: Exception | None) -> str:
    lines = errors or [str(error) or type(error).__name__]
    first = lines[0].strip().splitlines() or ["unknown error"]
    return f"torch-mlir: {first[0][:200]}"
