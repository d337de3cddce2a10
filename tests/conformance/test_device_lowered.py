"""Ops whose samples in PyTorch's database leave out what is hard about them: they run on the device and equal the CPU."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch_neuronx
from torch import Tensor
from torch.nn import functional as F

from ._both import Program, assert_agrees, programs


def _with_gradient(function: Any, *sizes: int, dtype: torch.dtype = torch.float64) -> Program:
    def run(device: str) -> list[Tensor]:
        x = torch.randn(*sizes, dtype=dtype).to(device).requires_grad_()
        y = function(x)
        cotangent = torch.randn(y.shape, dtype=dtype).to(device)
        return [y, *torch.autograd.grad(y, [x], cotangent)]

    return run


_LABELS = [[3, 0, -1, 1], [-1, 2, 1, 0], [0, 1, 2, 3], [1, 1, -1, -1]]


def _labels(reduction: str) -> Any:
    return lambda x: F.multilabel_margin_loss(x, torch.tensor(_LABELS, device=x.device), reduction=reduction)


def _class(p: int, reduction: str) -> Any:
    weight = [0.5, 2.0, 1.0, 3.0]

    def loss(x: Tensor) -> Tensor:
        target = torch.tensor([0, 3, 2, 1], device=x.device)
        scale = torch.tensor(weight, dtype=x.dtype, device=x.device)
        return F.multi_margin_loss(x, target, p=p, margin=0.7, weight=scale, reduction=reduction)

    return loss


def _antialiased(mode: str, align: bool, size: tuple[int, int]) -> Any:
    return lambda x: F.interpolate(x, size=size, mode=mode, align_corners=align, antialias=True)


def _quantiles(device: str) -> Tensor:
    edges = [0.0, 1.0, -0.1, 1.1, 1e-300, 0.1353, 0.8647, math.nan, 1 - 1e-12]
    return torch.special.ndtri(torch.cat([torch.tensor(edges, dtype=torch.float64), torch.rand(9).double()]).to(device))


def _places(size: int) -> Program:
    return lambda device: torch.nonzero_static((torch.arange(12) % 3).reshape(3, 4).to(device), size=size, fill_value=7)


PROGRAMS: dict[str, Program] = {
    **{f"labels {r}": _with_gradient(_labels(r), 4, 4) for r in ("none", "mean", "sum")},
    **{f"class {p} {r}": _with_gradient(_class(p, r), 4, 4) for p in (1, 2) for r in ("none", "mean", "sum")},
    "class of one row": lambda d: F.multi_margin_loss(
        torch.arange(4.0, device=d), torch.tensor(1, device=d), reduction="none"
    ),
    **{
        f"pdist {p}": _with_gradient(lambda x, p=p: F.pdist(x, p), 6, 3)
        for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf)
    },
    **{
        f"{mode} {size} {align}": _with_gradient(_antialiased(mode, align, size), 2, 3, 7, 9)
        for mode in ("bilinear", "bicubic")
        for size in ((3, 4), (11, 5))
        for align in (False, True)
    },
    "matrix_exp": _with_gradient(lambda x: torch.linalg.matrix_exp(3 * x), 2, 4, 4),
    "ndtri": _quantiles,
    **{f"nonzero_static {size}": _places(size) for size in (3, 8, 30)},
}


@programs(PROGRAMS)
def test_it_runs_on_the_device_as_on_the_cpu(program: Program) -> None:
    torch_neuronx.clear_op_tracking()
    assert_agrees(program, rtol=1e-9, atol=1e-9)
    assert torch_neuronx.get_fallback_ops() == []


@pytest.mark.parametrize("function", [torch.special.bessel_j0, torch.lgamma, torch.special.bessel_y1])
def test_constants_of_a_formula_are_double(function: Any) -> None:
    assert_agrees(lambda d: function(torch.linspace(6, 40, 9, dtype=torch.float64).to(d)), rtol=1e-13, atol=1e-13)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_complex32_is_not_complex64() -> None:
    assert_agrees(lambda d: torch.ones(3, dtype=torch.complex64, device=d).chalf().dtype)
