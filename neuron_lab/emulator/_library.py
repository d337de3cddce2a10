"""Large matrix products of a module, left to the host's kernel library.

XLA's own loops for them take up to 1.4 times what PyTorch's library takes on the same CPU, the more so with a transposed operand
(a linear layer's weight). So the text that goes to XLA calls the library for them; the StableHLO that is kept and shown is as it was.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

__all__ = ["Substituted", "with_library_calls"]

# Below it a call costs more than it saves: measured with 128×1024×10, which is slower, and 128×784×1024, which is even.
_SMALLEST = 1 << 24
"""Multiplications of one product."""

_TENSOR = r"tensor<([\dx]+)x(f32|f64)>"
_DOT = re.compile(
    r"(?P<result>%\w+) = stablehlo\.dot_general (?P<left>%\w+), (?P<right>%\w+),"
    r"(?: batching_dims = \[(?P<batch_left>[\d, ]*)\] x \[(?P<batch_right>[\d, ]*)\],)?"
    r" contracting_dims = \[(?P<along_left>\d+)\] x \[(?P<along_right>\d+)\]"
    rf" : \({_TENSOR}, {_TENSOR}\) -> {_TENSOR}"
)
_DEFINED = re.compile(r"\s*(%\w+)")
_TRANSPOSE = re.compile(rf"(%\w+) = stablehlo\.transpose (%\w+), dims = \[([\d, ]+)\] : \({_TENSOR}\)")


@dataclass(frozen=True, slots=True)
class Substituted:
    """A module's text with library calls: how many, and their floating-point operations and bytes read and written in all."""

    text: str
    calls: int = 0
    flops: float = 0.0
    bytes_accessed: float = 0.0


@dataclass(frozen=True, slots=True)
class _Operand:
    name: str
    sizes: tuple[int, ...]
    transposed: bool


def with_library_calls(stablehlo: str) -> Substituted:
    """`stablehlo` with every large float32 or float64 `dot_general` as a call of `neuron_dot`.

    It takes matrices or equal stacks of matrices, with one dimension to sum over: others stay as they are.
    """
    if "stablehlo.dot_general" not in stablehlo:
        return Substituted(stablehlo)
    transposes: dict[str, tuple[str, tuple[int, ...]]] = {}
    products: list[tuple[float, float]] = []

    def call(match: re.Match[str]) -> str:
        found = _product(match, transposes)
        if found is None:
            return match[0]
        left, right, sizes = found
        dtype = match[match.lastindex or 0]
        elements = sum(math.prod(item) for item in (left.sizes, right.sizes, sizes))
        products.append((2.0 * math.prod(sizes) * _summed(left), elements * (8.0 if dtype == "f64" else 4.0)))
        return _call(match["result"], left, right, sizes, dtype)

    lines = []
    for line in stablehlo.split("\n"):
        lines.append(_DOT.sub(call, line))
        _note(line, transposes)
    text = "\n".join(lines)
    return Substituted(text, len(products), sum(flops for flops, _ in products), sum(size for _, size in products))


def _note(line: str, transposes: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    """Keep `transposes`, those whose names are in force below `line`: each function counts its names anew, each region after it too."""
    if "func.func" in line:
        transposes.clear()
    defined = _DEFINED.match(line)
    if defined is None:
        return
    transposes.pop(defined[1], None)
    match = _TRANSPOSE.match(line, defined.start(1))
    if match is not None and _swaps_last_two(match[3]):
        transposes[match[1]] = match[2], _sizes(match[4])


def _product(
    match: re.Match[str], transposes: dict[str, tuple[str, tuple[int, ...]]]
) -> tuple[_Operand, _Operand, tuple[int, ...]] | None:
    """Both operands as the library takes them and the sizes of the result; None for what it does not take."""
    *_, left_sizes, left_type, right_sizes, right_type, result_sizes, result_type = match.groups()
    left, right = _sizes(left_sizes), _sizes(right_sizes)
    rank, batch = len(left), ", ".join(map(str, range(len(left) - 2)))
    along_left, along_right = int(match["along_left"]), int(match["along_right"])
    fits = (
        rank in (2, 3)
        and len(right) == rank
        and (match["batch_left"] or "") == (match["batch_right"] or "") == batch
        and min(along_left, along_right) >= rank - 2
        and left_type == right_type == result_type
    )
    if not fits or math.prod(left) * right[2 * rank - 3 - along_right] < _SMALLEST:
        return None
    return (
        _behind(match["left"], left, along_left == rank - 2, transposes),
        _behind(match["right"], right, along_right == rank - 1, transposes),
        _sizes(result_sizes),
    )


def _behind(
    name: str, sizes: tuple[int, ...], transposed: bool, transposes: dict[str, tuple[str, tuple[int, ...]]]
) -> _Operand:
    """The operand, or what it is the transpose of: the library reads either order."""
    if name in transposes:
        name, sizes = transposes[name]
        transposed = not transposed
    return _Operand(name, sizes, transposed)


def _summed(left: _Operand) -> int:
    return left.sizes[-2] if left.transposed else left.sizes[-1]


def _call(result: str, left: _Operand, right: _Operand, sizes: tuple[int, ...], dtype: str) -> str:
    # Row-major memory is asked for: XLA may else choose another order for what a call takes.
    order = ", ".join(map(str, reversed(range(len(sizes)))))
    layout = f"dense<[{order}]> : tensor<{len(sizes)}xindex>"
    return (
        f"{result} = stablehlo.custom_call @neuron_dot({left.name}, {right.name}) {{api_version = 4 : i32, "
        f"backend_config = {{transpose_left = {_bool(left.transposed)}, transpose_right = {_bool(right.transposed)}}}, "
        f"operand_layouts = [{layout}, {layout}], result_layouts = [{layout}]}} : "
        f"({_type(left.sizes, dtype)}, {_type(right.sizes, dtype)}) -> {_type(sizes, dtype)}"
    )


def _bool(value: bool) -> str:
    return str(value).lower()


def _type(sizes: tuple[int, ...], dtype: str) -> str:
    return f"tensor<{'x'.join(map(str, sizes))}x{dtype}>"


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


def _swaps_last_two(dims: str) -> bool:
    order = [int(dim) for dim in dims.split(",")]
    return order == [*range(len(order) - 2), len(order) - 1, len(order) - 2]
