"""Layers, their gradients, optimizers: the ops of real models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from neuron_lab.emulator.lowering import Unlowerable, lower

from ._runner import Specimen, check, run

aten = torch.ops.aten
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def _r(*sizes: int) -> Tensor:
    return torch.randn(*sizes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear(dtype: torch.dtype) -> None:
    weight, bias = _r(6, 8).to(dtype), _r(6).to(dtype)
    check(aten.linear, _r(2, 4, 8).to(dtype), weight, bias)
    check(aten.linear, _r(8).to(dtype), weight, bias)
    check(aten.addmm, bias, _r(4, 8).to(dtype), weight.t(), beta=0.5, alpha=2)


def test_linear_backward() -> None:
    def reference(self: Tensor, grad: Tensor, weight: Tensor, mask: list[bool]) -> tuple[Tensor | None, ...]:
        rows, grads = self.reshape(-1, self.size(-1)), grad.reshape(-1, grad.size(-1))
        return grad @ weight, grads.t() @ rows, grads.sum(0) if mask[2] else None

    check(aten.linear_backward, _r(4, 8), _r(4, 6), _r(6, 8), [True, True, True], reference=reference)
    check(aten.linear_backward, _r(2, 4, 8), _r(2, 4, 6), _r(6, 8), [True, True, False], reference=reference)


def test_zero_beta_hides_nan() -> None:
    check(aten.addmm, torch.full((6,), float("nan")), _r(4, 8), _r(8, 6), beta=0, alpha=1)


GEOMETRIES = [(1, 0, 1), (2, 1, 1), (2, 1, 2), (3, 0, 1), (3, 2, 1)]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolution_and_gradient(transposed: bool, groups: int, geometry: tuple[int, int, int]) -> None:
    stride, padding, dilation = geometry
    x = _r(2, 4, 9, 8)
    weight = _r(4, 6 // groups, 3, 2) if transposed else _r(6, 4 // groups, 3, 2)
    rest = ([stride] * 2, [padding] * 2, [dilation] * 2, transposed, [0, 0], groups)
    y = aten.convolution(x, weight, None, *rest)
    check(aten.convolution, x, weight, _r(6), *rest, **CLOSE)
    check(aten.convolution_backward, torch.randn_like(y), x, weight, [6], *rest, [True, True, True], **CLOSE)


@pytest.mark.parametrize("rank", [1, 3])
def test_convolution_of_other_ranks(rank: int) -> None:
    x, weight = _r(2, 4, *[6] * rank), _r(6, 4, *[3] * rank)
    rest = ([1] * rank, [1] * rank, [1] * rank, False, [0] * rank, 1)
    check(aten.convolution, x, weight, None, *rest, **CLOSE)
    grad = _r(2, 6, *[6] * rank)
    check(aten.convolution_backward, grad, x, weight, None, *rest, [True, True, False], **CLOSE)


def test_overrideable_convolution_is_convolution() -> None:
    x, weight = _r(2, 3, 8, 8), _r(4, 3, 3, 3)
    rest = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    check(aten.convolution_overrideable, x, weight, None, *rest, reference=aten.convolution.default)

    def reference(grad: Tensor, x: Tensor, weight: Tensor, *more: Any) -> Any:
        return aten.convolution_backward.default(grad, x, weight, [grad.size(1)], *more)

    mask = [True, True, True]
    check(aten.convolution_backward_overrideable, _r(2, 4, 8, 8), x, weight, *rest, mask, reference=reference, **CLOSE)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_updates_its_statistics(training: bool) -> None:
    stats = (torch.zeros(3), torch.ones(3))
    lowered = check(aten.native_batch_norm, _r(2, 3, 4, 5), _r(3), _r(3), *stats, training, 0.1, 1e-5)
    assert len(lowered.plan.writes) == (2 if training else 0)
    check(aten._native_batch_norm_legit, _r(2, 3, 4, 5), _r(3), _r(3), *stats, training, 0.1, 1e-5)
    check(aten.native_batch_norm, _r(2, 3, 4, 5).bfloat16(), _r(3), _r(3), *stats, training, 0.1, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_transformer_pieces(dtype: torch.dtype) -> None:
    x = _r(4, 32).to(dtype)
    check(aten._softmax, x, -1, False)
    check(aten._log_softmax, x, -1, False)
    check(aten.native_layer_norm, x, [32], x[0], x[1], 1e-5)
    check(aten._fused_rms_norm, x, [32], x[0], 1e-6)
    check(aten.gelu, x)
    check(aten.silu, x)
    check(aten.mean.dim, x, [1])
    check(aten.nll_loss_forward, x, torch.tensor([1, 2, 3, -100]), None, 1, -100)
    check(aten.embedding_dense_backward, x, torch.tensor([1, 1, 2, 3]), 5, -1, False)


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool) -> tuple[Tensor, Tensor]:
    scores = q @ k.transpose(-1, -2) * q.size(-1) ** -0.5
    scores = scores if bias is None else scores + bias
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), float("-inf"))
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


@pytest.mark.parametrize(("causal", "with_bias"), [(False, False), (True, False), (False, True)])
def test_attention_and_gradient(causal: bool, with_bias: bool) -> None:
    q, k, v = _r(2, 4, 5, 8), _r(2, 4, 6, 8), _r(2, 4, 6, 8)
    bias = _r(2, 1, 5, 6) if with_bias else None
    specimen = Specimen(aten._scaled_dot_product_fused_attention_overrideable.default, (q, k, v, bias, 0.0, causal), {})
    lowered = lower(specimen.call)
    out, logsumexp = run(lowered, specimen)[:2]
    inputs = [t.clone().requires_grad_() for t in (q, k, v, bias) if t is not None]
    expected, expected_logsumexp = _attend(*inputs[:3], inputs[3] if with_bias else None, causal)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(logsumexp, expected_logsumexp)
    assert lowered.plan.returns[4:6] == (("value", 5), ("value", 6))

    grad, none, seed = torch.randn_like(out), torch.zeros(1, dtype=torch.long), torch.zeros((), dtype=torch.long)
    mask = [True, True, True, with_bias]
    args = (grad, q, k, v, bias, mask, out, logsumexp, none, none, 5, 6, 0.0, causal, seed, seed)
    specimen = Specimen(aten._scaled_dot_product_fused_attention_overrideable_backward.default, args, {})
    results = run(lower(specimen.call), specimen)
    for got, want in zip(results, torch.autograd.grad(expected, inputs, grad), strict=True):
        torch.testing.assert_close(got, want, **CLOSE)


def test_attention_with_dropout_is_refused() -> None:
    q = _r(2, 4, 5, 8)
    specimen = Specimen(aten._scaled_dot_product_fused_attention_overrideable.default, (q, q, q, None, 0.1), {})
    with pytest.raises(Unlowerable, match="dropout"):
        lower(specimen.call)


def _lstm(gates: Tensor, cx: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    i, f, c, o = gates.chunk(4, 1)
    i, f, c, o = i.sigmoid(), f.sigmoid(), c.tanh(), o.sigmoid()
    cy = f * cx + i * c
    return o * cy.tanh(), cy, torch.cat([i, f, c, o], 1)


def test_lstm_cell_and_gradient() -> None:
    def forward(ig: Tensor, hg: Tensor, cx: Tensor, *biases: Tensor) -> Any:
        return _lstm(ig + hg + sum(biases), cx)

    gates, cx = _r(3, 20), _r(3, 5)
    check(aten._thnn_fused_lstm_cell, gates, _r(3, 20), cx, _r(20), _r(20), reference=forward)
    check(aten._thnn_fused_lstm_cell, gates, _r(3, 20), cx, reference=forward)
    _, cy, workspace = _lstm(gates, cx)

    def backward(grad_hy: Tensor, grad_cy: Tensor, cx: Tensor, cy: Tensor, work: Tensor, has_bias: bool) -> Any:
        inputs = [gates.clone().requires_grad_(), cx.clone().requires_grad_()]
        hy, new, _ = _lstm(*inputs)
        grads = torch.autograd.grad([hy, new], inputs, [grad_hy, grad_cy])
        return *grads, grads[0].sum(0) if has_bias else None

    op = aten._thnn_fused_lstm_cell_backward_impl
    check(op, _r(3, 5), _r(3, 5), cx, cy, workspace, True, reference=backward, **CLOSE)


def _gru(ig: Tensor, hg: Tensor, hx: Tensor, *biases: Tensor) -> tuple[Tensor, Tensor]:
    left, right = (ig + biases[0], hg + biases[1]) if biases else (ig, hg)
    (ir, ii, inn), (hr, hi, hn) = left.chunk(3, 1), right.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (ii + hi).sigmoid()
    n = (inn + r * hn).tanh()
    return n + z * (hx - n), torch.cat([r, z, n, hx, hn], 1)


def test_gru_cell_and_gradient() -> None:
    ig, hg, hx = _r(3, 15), _r(3, 15), _r(3, 5)
    check(aten._thnn_fused_gru_cell, ig, hg, hx, _r(15), _r(15), reference=_gru)
    _, workspace = _gru(ig, hg, hx)

    def backward(grad_hy: Tensor, work: Tensor, has_bias: bool) -> Any:
        inputs = [t.clone().requires_grad_() for t in (ig, hg, hx)]
        grads = torch.autograd.grad(_gru(*inputs)[0], inputs, grad_hy)
        return *grads, grads[0].sum(0), grads[1].sum(0)

    check(aten._thnn_fused_gru_cell_backward, _r(3, 5), workspace, True, reference=backward, **CLOSE)


def _list(positive: bool = False) -> list[Tensor]:
    tensors = [_r(3, 4), _r(5)]
    return [t.abs() for t in tensors] if positive else tensors


def _steps() -> list[Tensor]:
    return [torch.tensor(3.0), torch.tensor(3.0)]


ADAM = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8}


@pytest.mark.parametrize("name", ["_fused_adam_", "_fused_adamw_"])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_fused_adam(name: str, amsgrad: bool) -> None:
    state = (_list(), _list(), _list(), _list(True), _list(True) if amsgrad else [], _steps())
    op = getattr(aten, name)
    check(op, *state, lr=0.01, amsgrad=amsgrad, maximize=amsgrad, **ADAM)
    check(op.tensor_lr, *state, lr=torch.tensor(0.01), amsgrad=amsgrad, maximize=False, **ADAM)


@pytest.mark.parametrize("found", [0.0, 1.0])
def test_fused_adam_unscales(found: float) -> None:
    state = (_list(), _list(), _list(), _list(True), [], _steps())
    scaling = {"grad_scale": torch.tensor(2.0), "found_inf": torch.tensor(found)}
    check(aten._fused_adamw_, *state, lr=0.01, amsgrad=False, maximize=False, **ADAM, **scaling)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("nesterov", [False, True])
def test_fused_sgd(first: bool, nesterov: bool) -> None:
    settings = {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.01, "dampening": 0.0 if nesterov else 0.1}
    flags = {"nesterov": nesterov, "maximize": False, "is_first_step": first}
    check(aten._fused_sgd_, _list(), _list(), _list(), **settings, **flags)


def test_foreach() -> None:
    check(aten._foreach_add_.List, _list(), _list(), alpha=-0.1)
    check(aten._foreach_mul.Scalar, _list(), 2.5)
    check(aten._foreach_div_.ScalarList, _list(), [2.0, 3.0])
    check(aten._foreach_mul_.Tensor, _list(), torch.tensor(0.5))
    check(aten._foreach_addcdiv_.ScalarList, _list(), _list(), _list(True), [-0.1, -0.2])
    check(aten._foreach_norm.Scalar, _list(), 2)
    check(aten._foreach_lerp_.Scalar, _list(), _list(), 0.1)
    check(aten._foreach_sqrt_, _list(True))


def test_gradient_scaler() -> None:
    def reference(tensors: list[Tensor], found: Tensor, inverse: Tensor) -> None:
        for tensor in tensors:
            if not tensor.isfinite().all():
                found.fill_(1)
            tensor.mul_(inverse)

    for poison in (0.0, float("inf")):
        grads = _list()
        grads[0][0, 0] += poison
        check(
            aten._amp_foreach_non_finite_check_and_unscale_,
            grads,
            torch.zeros(1),
            torch.tensor([0.5]),
            reference=reference,
        )
    for tracker, found in ((0, 1.0), (2, 0.0), (0, 0.0)):
        count = torch.tensor([tracker], dtype=torch.int32)
        check(aten._amp_update_scale_, torch.tensor([4.0]), count, torch.tensor([found]), 2.0, 0.5, 3)
