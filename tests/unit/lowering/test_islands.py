"""Lowerings with hand-written StableHLO: islands, loops, templates."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from neuron_lab.emulator.lowering import lifts_numbers

from ._runner import Wrapped, check

aten = torch.ops.aten
NAN, INF = math.nan, math.inf
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
VALUES = torch.tensor([0.0, -0.0, 0.5, -0.5, 1.0, 2.3, -2.3, 7.0, 20.0, -30.0, INF, -INF, NAN])


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


@pytest.mark.parametrize(
    "name",
    "erfc digamma frexp.Tensor i0 special_i0e special_i1 special_i1e special_erfcx special_log_ndtr special_bessel_j0 "
    "special_bessel_j1 special_modified_bessel_i0 special_spherical_bessel_j0".split(),
)
def test_special_functions_of_any_value(name: str) -> None:
    check(_overload(name), VALUES, **CLOSE)


@pytest.mark.parametrize(
    "name",
    "special_bessel_y0 special_bessel_y1 special_modified_bessel_k0 special_modified_bessel_k1 "
    "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1".split(),
)
def test_bessel_functions_of_the_second_kind(name: str) -> None:
    check(_overload(name), torch.tensor([0.0, 1e-6, 0.1, 1.9, 2.1, 4.9, 5.1, 8.1, 50.0, -1.0]), **CLOSE)


def test_gamma_family() -> None:
    a = torch.tensor([0.1, 0.5, 2, 20, 100, 3, 0, 0, 2, -1, NAN])
    x = torch.tensor([0.2, 0.1, 2, 15, 120, 0.01, 0, 1, 0, 1, 1])
    check(aten.igamma.default, a, x, **CLOSE)
    check(aten.igammac.default, a, x, **CLOSE)
    check(aten.polygamma.default, 1, x + 0.1, **CLOSE)
    check(aten.polygamma.default, 3, x + 0.1, **CLOSE)
    check(aten.special_zeta.default, x + 1.5, x + 0.5, **CLOSE)


def test_nextafter_is_exact() -> None:
    check(aten.nextafter.default, VALUES[2:], VALUES[2:].flip(0), rtol=0, atol=0)


def test_gcd_and_lcm_run_until_the_last_pair_is_done() -> None:
    left, right = torch.tensor([0, 12, -18, 7, 100, 0]), torch.tensor([5, 18, 24, 0, 75, 0])
    check(aten.gcd.default, left, right)
    check(aten.lcm.default, left, right)
    check(aten.gcd.default, left.int().reshape(2, 3), torch.tensor(6, dtype=torch.int32))


def test_float64_remainders_are_exact() -> None:
    left = torch.tensor([5.3, -5.3, 1e300, -1e-300, 7.0, INF, 3.0, NAN, 3.0, 0.0, 1.7e308], dtype=torch.float64)
    right = torch.tensor([3.0, 0.7, 3.0, 1.0, 0.0, 2.0, INF, 1.0, -INF, 2.0, 3e-300], dtype=torch.float64)
    for op in (aten.fmod.Tensor, aten.remainder.Tensor, aten.floor_divide.default):
        check(op, left, right, rtol=0, atol=0)


@pytest.mark.parametrize(
    "name",
    [f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"]
    + ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"],
)
def test_orthogonal_polynomials(name: str) -> None:
    x = torch.tensor([-1.0, 1.0, 0.0, 0.3, -0.7, 1.5]).repeat_interleave(6)
    degree = torch.tensor([0.0, 1.0, 2.0, 5.0, 12.0, -1.0]).repeat(6)
    check(_overload(f"special_{name}"), x, degree, **CLOSE)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(reduce: str, include_self: bool) -> None:
    torch.manual_seed(0)
    x, index, source = torch.randn(4, 5), torch.randint(0, 4, (3, 4)), torch.randn(3, 5)
    check(aten.scatter_reduce.two, x, 0, index, source, reduce, include_self=include_self)
    check(aten.scatter_reduce.two, (x * 9).long(), 0, index, (source * 9).long(), reduce, include_self=include_self)
    check(aten.scatter_reduce.two, torch.tensor(2.0), 0, torch.tensor(0), torch.tensor(NAN), reduce)


@pytest.mark.filterwarnings("ignore:index_reduce")
def test_index_reduce() -> None:
    check(aten.index_reduce.default, torch.randn(4, 5), 1, torch.tensor([0, 2, 2]), torch.randn(4, 3), "prod")


def test_histc_counts_integers_too() -> None:
    """As on accelerators: a mixture of experts counts its tokens with it."""
    x = torch.randn(4, 5)
    check(aten.histc.default, x, 7, 0, 0)
    check(aten.histc.default, x, 5, -1, 1)
    whole = torch.randint(0, 8, (20,), dtype=torch.int32)
    check(aten.histc.default, whole, 8, 0, 7, reference=lambda a, *rest: torch.histc(a.float(), *rest).int())


def test_order_statistics() -> None:
    x = torch.randn(4, 5)
    holes = x.clone()
    holes[1, 2] = holes[1, 3] = NAN
    check(aten.kthvalue.default, x, 2, 1, True)
    check(aten.mode.default, (x * 2).round(), 1)
    for tensor in (x, holes, torch.randint(0, 99, (3, 6))):
        check(aten.median.dim, tensor, 1)
        check(aten.nanmedian.dim, tensor, 1)
        check(aten.nanmedian.default, tensor)
    check(aten.kthvalue.default, torch.tensor(3.0), 1)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("mode", [0, 1])
def test_grid_sampling(mode: int, padding: int, align: bool) -> None:
    torch.manual_seed(0)
    image, grid, grad = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 2) * 1.1, torch.randn(2, 3, 3, 6)
    check(aten.grid_sampler_2d_backward.default, grad, image, grid, mode, padding, align, [True, True], **CLOSE)
    volume, points = torch.randn(1, 2, 5, 4, 3), torch.randn(1, 3, 2, 2, 3) * 1.1
    check(aten.grid_sampler_3d.default, volume, points, mode, padding, align, **CLOSE)


def test_adaptive_and_inverse_max_pooling() -> None:
    check(aten.adaptive_max_pool2d.default, torch.randn(2, 3, 7, 5), [3, 2])
    check(aten.adaptive_max_pool3d.default, torch.randn(2, 7, 5, 4), [3, 2, 2])
    values, indices = torch.nn.functional.max_pool2d(torch.randn(2, 3, 6, 6), 2, return_indices=True)
    check(aten.max_unpool2d.default, values, indices, [6, 6])


def test_factorisations() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2, 4, 4), torch.randn(2, 4, 3)
    positive = a @ a.mT + torch.eye(4)
    check(aten.linalg_cholesky_ex.default, positive, **CLOSE)
    check(aten.linalg_cholesky_ex.default, positive[0], upper=True, **CLOSE)
    check(aten.cholesky_solve.default, b, torch.linalg.cholesky(positive), **CLOSE)
    check(aten.linalg_solve_triangular.default, a.triu(), b, upper=True, **CLOSE)
    check(aten._linalg_solve_ex.default, a, b, **CLOSE)
    check(aten._linalg_solve_ex.default, a, b.mT.contiguous(), left=False, **CLOSE)
    for op in (aten._linalg_det, aten._linalg_slogdet, aten.linalg_inv_ex, aten.linalg_lu, aten.linalg_lu_factor_ex):
        check(op.default, a, **CLOSE)
    lu, pivots = torch.linalg.lu_factor(a)
    check(aten.linalg_lu_solve.default, lu, pivots, b, **CLOSE)
    check(aten.linalg_lu_solve.default, lu, pivots, b, adjoint=True, **CLOSE)


@pytest.mark.parametrize("sizes", [(4, 4), (2, 5, 3), (2, 3, 5)])
def test_qr_has_the_signs_of_lapack(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    a = torch.randn(sizes)
    check(aten.geqrf.default, a, **CLOSE)
    check(aten.linalg_qr.default, a, **CLOSE)
    check(aten.linalg_qr.default, a, "complete", **CLOSE)
    check(aten.linalg_lu.default, a, **CLOSE)


def test_outputs_of_another_size_and_factories_with_an_output() -> None:
    check(aten.arange.start_out, 1, 9, 2, out=torch.zeros(4, dtype=torch.int64))
    check(aten.linspace.out, 0.0, 1.0, 5, out=torch.zeros(5))
    check(aten.narrow_copy.default, torch.randn(5, 5), 1, 2, 0)


def test_transposed_convolution_with_different_output_paddings() -> None:
    x, weight = torch.randn(2, 2, 4, 4), torch.randn(2, 2, 4, 5)
    geometry = ([3, 2], [1, 2], [4, 4], True, [2, 3], 2)
    check(aten.convolution.default, x, weight, torch.randn(4), *geometry, **CLOSE)


COMPLEX = torch.complex(torch.tensor([[0.5, -1.0], [2.0, 0.0]]), torch.tensor([[1.0, 0.5], [-2.0, 0.0]]))


def test_complex_arithmetic() -> None:
    other = COMPLEX.flip(0) + 1
    for op in (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.eq.Tensor):
        check(op, COMPLEX, other, **CLOSE)
        check(op, COMPLEX, other.real.contiguous(), **CLOSE)
    check(aten.mul.Tensor, COMPLEX, Wrapped(2.0))
    check(aten.mul.Tensor, torch.ones(2, 2), Wrapped(2j))
    check(aten.mul_.Tensor, COMPLEX.clone(), other.mT, **CLOSE)
    check(aten.mm.default, COMPLEX, other.mT.contiguous(), **CLOSE)


@pytest.mark.parametrize("name", "abs angle sgn exp sqrt tanh sigmoid prod mean sum".split())
def test_complex_functions(name: str) -> None:
    check(_overload(name), COMPLEX, **CLOSE)


def test_complex_parts_and_casts() -> None:
    check(aten.complex.default, COMPLEX.real.contiguous(), COMPLEX.imag.contiguous())
    check(aten.polar.default, COMPLEX.real.contiguous(), COMPLEX.imag.contiguous(), **CLOSE)
    check(aten._to_copy.default, torch.ones(3), dtype=torch.complex128)
    check(aten.cat.default, [COMPLEX, torch.ones(1, 2)])
    check(aten.index.Tensor, COMPLEX, [torch.tensor([1, 0, 1])])
    check(aten.var.correction, COMPLEX, **CLOSE)


def test_fourier_transforms() -> None:
    real, signal = torch.randn(3, 4), torch.randn(3, 4, dtype=torch.complex64)
    check(aten._fft_r2c.default, real, [1], 0, True, **CLOSE)
    check(aten._fft_r2c.default, real, [0, 1], 1, False, **CLOSE)
    check(aten._fft_c2c.default, signal, [0, 1], 2, False, **CLOSE)
    check(aten._fft_c2r.default, signal, [0, 1], 2, 7, **CLOSE)


@pytest.mark.parametrize("name", ["_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"])
def test_the_learning_rate_is_an_input(name: str) -> None:
    op = getattr(aten, name).default
    names = [argument.name for argument in op._schema.arguments]
    lifted = {names[i] for i, flag in enumerate(lifts_numbers(op)) if flag}
    assert lifted == {"lr"}


def test_tensors_of_one_shape_share_a_template() -> None:
    torch.manual_seed(0)
    shapes = [(3,), (2, 3)] * 6
    lists = [[torch.randn(shape).abs() for shape in shapes] for _ in range(4)]
    steps = [torch.tensor(float(i + 1)) for i in range(len(shapes))]
    options = {
        "lr": 0.1,
        "beta1": 0.9,
        "beta2": 0.99,
        "weight_decay": 0.1,
        "eps": 1e-8,
        "amsgrad": False,
        "maximize": False,
    }
    lowered = check(aten._fused_adamw_.default, *lists, [], steps, **options, rtol=1e-5, atol=1e-6)
    assert lowered.stablehlo.count("func.func private @template") == 2
