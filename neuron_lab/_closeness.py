"""How far two runs of a program are apart, tensor by tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuron_lab.errors import UsageProblem
from neuron_lab.report import OutputDifference

if TYPE_CHECKING:
    from torch import Tensor


def differences(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> tuple[OutputDifference, ...]:
    """One row a tensor. Raises UsageProblem when the two do not hold the same tensors, by name, shape and dtype."""
    if actual.keys() != expected.keys():
        names = ", ".join(sorted(actual.keys() ^ expected.keys()))
        raise UsageProblem(f"not comparable: only one of eager and compiled gives {names}")
    rows = []
    for name, want in expected.items():
        got = actual[name]
        if got.shape != want.shape or got.dtype != want.dtype:
            raise UsageProblem(
                f"not comparable: {name} is {want.dtype} {list(want.shape)} eager, {got.dtype} {list(got.shape)} compiled"
            )
        rows.append(_difference(name, got, want))
    return tuple(rows)


def same_values(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape, dtype and values; NaN is the same as NaN, 0.0 as -0.0."""
    return one.shape == other.shape and one.dtype == other.dtype and _difference("", one, other).max_abs == 0


def _difference(name: str, got: Tensor, want: Tensor) -> OutputDifference:
    import torch

    dtype = str(want.dtype).removeprefix("torch.")
    if torch.equal(got, want) or not want.numel():
        return OutputDifference(name, tuple(want.shape), dtype, 0.0, 0.0)
    wide = torch.complex128 if want.dtype.is_complex else torch.float64
    a, b = got.to(wide), want.to(wide)
    whole = not (want.dtype.is_floating_point or want.dtype.is_complex)
    same = got == want if whole else (a == b) | (a.isnan() & b.isnan())
    # Where only one is not a number, or infinite, nothing finite tells how far apart they are.
    apart = (a - b).abs().nan_to_num(nan=float("inf"), posinf=float("inf"))
    if whole:  # beyond 2⁵³ neighbours are one double
        apart = apart.clamp(min=1.0)
    apart = apart.masked_fill(same, 0.0)
    relative = (apart / b.abs()).nan_to_num(nan=0.0, posinf=float("inf")).masked_fill(apart.isinf(), float("inf"))
    return OutputDifference(name, tuple(want.shape), dtype, float(apart.max()), float(relative.max()))
