"""Islands: hand-written StableHLO inside a traced graph, for what ATen ops and torch-mlir cannot say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from ._records import Unlowerable

_ELEMENTS = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "ui8",
    torch.bool: "i1",
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
}
Shaped = tuple[Sequence[int], torch.dtype]


def element_type(dtype: torch.dtype) -> str:
    """The MLIR name of ``dtype``. Raises Unlowerable for a type that StableHLO lacks."""
    if dtype not in _ELEMENTS:
        raise Unlowerable(f"dtype {dtype} has no lowering")
    return _ELEMENTS[dtype]


def tensor_type(sizes: Sequence[int], dtype: torch.dtype) -> str:
    """The MLIR tensor type, such as ``tensor<2x3xf32>``."""
    return f"tensor<{''.join(f'{size}x' for size in sizes)}{element_type(dtype)}>"


def type_of(tensor: Tensor) -> str:
    """The MLIR tensor type of ``tensor``."""
    return tensor_type(tensor.shape, tensor.dtype)


def empty_constant(tensor: Tensor) -> str:
    """StableHLO for a tensor without elements: torch-mlir is wrong about many of them."""
    zero = "false" if tensor.dtype == torch.bool else "0.0" if tensor.is_floating_point() else "0"
    return f"stablehlo.constant dense<{zero}> : {type_of(tensor)}"


def island(body: str, inputs: Sequence[Tensor], *outputs: Shaped) -> Any:
    """Tensors of the given shapes and dtypes, computed by ``body`` from ``inputs``.

    The body is StableHLO text that reads ``%a0``, ``%a1``, ... and defines ``%r0``, ``%r1``, ... One output is returned
    as a tensor, several as a list. Only to be called while a decomposition runs.
    """
    results = _recorder().island(body, list(inputs), outputs)
    return results[0] if len(outputs) == 1 else results


def _recorder() -> Any:
    for mode in reversed(_get_current_dispatch_mode_stack()):
        if hasattr(mode, "island"):
            return mode
    raise AssertionError("no trace is being recorded")


_FEW = 8
"""Groups up to which ``each`` records them one by one."""


def template() -> None:
    """Marks a node that calls a graph of its own, shared by the nodes with the same graph."""


def each(
    function: Callable[..., list[Tensor]],
    groups: Sequence[Sequence[Tensor | None]],
    shared: Sequence[Tensor | None] = (),
) -> list[list[Tensor]]:
    """``function(*group, *shared)`` for every group; groups of the same shapes are traced and lowered once.

    Everything that the function computes from must be among its arguments.
    """
    if len(groups) <= _FEW:
        return [function(*group, *shared) for group in groups]
    recorder = _recorder()
    results: list[list[Tensor]] = [recorder.call_template(function, [*group, *shared]) for group in groups]
    return results


def unary(op: str, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """An element-wise StableHLO or CHLO op of one operand."""
    target = dtype or x.dtype
    signature = f"({type_of(x)}) -> {tensor_type(x.shape, target)}"
    result: Tensor = island(f'%r0 = "{op}"(%a0) : {signature}', [x], (x.shape, target))
    return result


def binary(op: str, x: Tensor, y: Tensor, dtype: torch.dtype | None = None, attributes: str = "") -> Tensor:
    """An element-wise StableHLO or CHLO op of two operands, which are broadcast first."""
    left, right = torch.broadcast_tensors(x, y)  # type: ignore[no-untyped-call]
    target = dtype or left.dtype
    signature = f"({type_of(left)}, {type_of(right)}) -> {tensor_type(left.shape, target)}"
    result: Tensor = island(f'%r0 = "{op}"(%a0, %a1){attributes} : {signature}', [left, right], (left.shape, target))
    return result


def loop() -> None:
    """Marks a node that calls a graph of its own again and again, on what the call before gave."""


def repeat(function: Callable[..., list[Tensor]], count: int | Tensor, state: Sequence[Tensor]) -> list[Tensor]:
    """``state = function(k, *state)`` for k = 0, 1, ... below ``count``; ``k`` and ``count`` are 0-d int64 tensors.

    The function must keep the shapes and dtypes of the state, and compute from nothing else.
    """
    limit = torch.full([], count, dtype=torch.int64) if isinstance(count, int) else count
    results: list[Tensor] = _recorder().call_loop(function, limit, list(state))
    return results


def is_island(target: Any) -> bool:
    """Whether torch-mlir never sees a node with this target: an island, a loop or the call of a template."""
    return target in (island, template, loop)
