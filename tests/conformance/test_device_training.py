"""Layers and losses, forward and backward: as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.conformance._both import Program, assert_agrees, assert_fails_alike, drawn, programs
from tests.emulated import DEVICE

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def gradients(module: nn.Module) -> list[Tensor]:
    return [parameter.grad for parameter in module.parameters() if parameter.grad is not None]


def learned(make: Callable[[], nn.Module], *sizes: int) -> Program:
    """A program: output and all gradients of a module."""

    def program(device: str) -> list[Tensor]:
        module = make().to(device)
        x = drawn(device, *sizes)
        y = module(x)
        y = y[0] if isinstance(y, tuple) else y
        (y * torch.arange(y.numel(), device=device).reshape(y.shape)).mean().backward()
        assert x.grad is not None
        return [y.contiguous(), x.grad.contiguous(), *(grad.contiguous() for grad in gradients(module))]

    return program


LAYERS: dict[str, Program] = {
    "Linear": learned(lambda: nn.Linear(4, 3), 2, 4),
    "Bilinear": learned(lambda: _Twice(nn.Bilinear(4, 4, 3)), 2, 4),
    "Conv1d": learned(lambda: nn.Conv1d(3, 4, 3, stride=2), 2, 3, 9),
    "Conv2d": learned(lambda: nn.Conv2d(3, 4, 3, padding=1), 2, 3, 8, 8),
    "Conv2d, grouped": learned(lambda: nn.Conv2d(4, 4, 3, groups=2, dilation=2, bias=False), 1, 4, 8, 8),
    "Conv3d": learned(lambda: nn.Conv3d(2, 3, 2), 1, 2, 4, 4, 4),
    "ConvTranspose2d": learned(lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), 2, 3, 5, 5),
    "BatchNorm2d": learned(lambda: nn.BatchNorm2d(3), 2, 3, 4, 4),
    "BatchNorm1d, evaluated": learned(lambda: nn.BatchNorm1d(3).eval(), 2, 3),
    "InstanceNorm2d": learned(lambda: nn.InstanceNorm2d(3, affine=True), 2, 3, 4, 4),
    "GroupNorm": learned(lambda: nn.GroupNorm(2, 4), 2, 4, 3, 3),
    "LayerNorm": learned(lambda: nn.LayerNorm(6), 2, 6),
    "RMSNorm": learned(lambda: nn.RMSNorm(6), 2, 6),
    "MaxPool2d": learned(lambda: nn.MaxPool2d(2), 2, 3, 8, 8),
    "AvgPool2d": learned(lambda: nn.AvgPool2d(2), 1, 2, 4, 4),
    "AdaptiveAvgPool2d": learned(lambda: nn.AdaptiveAvgPool2d(2), 1, 2, 5, 5),
    "RNN": learned(lambda: nn.RNN(4, 5), 2, 3, 4),
    "LSTM": learned(lambda: nn.LSTM(4, 5, 2, batch_first=True), 2, 3, 4),
    "GRU": learned(lambda: nn.GRU(4, 5, bidirectional=True), 2, 3, 4),
    "LSTMCell": learned(lambda: nn.LSTMCell(4, 5), 2, 4),
    "GRUCell": learned(lambda: nn.GRUCell(4, 5), 2, 4),
    "MultiheadAttention": learned(lambda: _Attention(), 2, 3, 8),
    "TransformerEncoderLayer": learned(
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True), 2, 3, 8
    ),
    "PReLU": learned(lambda: nn.PReLU(), 2, 3),
    "Upsample": learned(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), 1, 2, 3, 3),
    "Upsample, nearest": learned(lambda: nn.Upsample(scale_factor=2), 1, 2, 3, 3),
    "PixelShuffle": learned(lambda: nn.PixelShuffle(2), 1, 4, 2, 2),
    "ReflectionPad2d": learned(lambda: nn.ReflectionPad2d(1), 1, 2, 3, 3),
    "activations": learned(
        lambda: nn.Sequential(nn.SiLU(), nn.Mish(), nn.Hardswish(), nn.ELU(), nn.Softplus(), nn.GELU()), 2, 4
    ),
    "softmax": learned(lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.LogSoftmax(-1)), 2, 3, 4),
    "weight_norm": learned(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), 2, 4),
    "convolutional network": learned(
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)
        ),
        2,
        3,
        8,
        8,
    ),
    "float64": learned(lambda: _Double(), 2, 4),
}


class _Twice(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Any:
        return self.inner(x, x)


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        return self.inner(x, x, x)


class _Double(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3).double()

    def forward(self, x: Tensor) -> Any:
        return self.inner(x.double())


@programs(LAYERS)
def test_layer(program: Program) -> None:
    assert_agrees(program, **CLOSE)


def classes(device: str, *values: int) -> Tensor:
    return torch.tensor(values, device=device)


def lost(loss: Callable[[Tensor, str], Tensor]) -> Program:
    """A program: a loss of drawn predictions, and their gradient."""

    def program(device: str) -> list[Tensor]:
        x = drawn(device, 4, 3)
        value = loss(x, device)
        value.sum().backward()
        assert x.grad is not None
        return [value, x.grad]

    return program


LOSSES: dict[str, Program] = {
    "cross_entropy": lost(lambda x, d: F.cross_entropy(x, classes(d, 0, 1, 2, 0))),
    "cross_entropy, weighted": lost(
        lambda x, d: F.cross_entropy(x, classes(d, 0, 1, 2, 0), weight=torch.ones(3, device=d))
    ),
    "cross_entropy, smoothed": lost(lambda x, d: F.cross_entropy(x, classes(d, 0, 1, 2, 0), label_smoothing=0.1)),
    "cross_entropy, each": lost(lambda x, d: F.cross_entropy(x, classes(d, 0, 1, -100, 0), reduction="none")),
    "nll_loss": lost(lambda x, d: F.nll_loss(x.log_softmax(-1), classes(d, 0, 1, 2, 0))),
    "mse_loss": lost(lambda x, d: F.mse_loss(x, torch.zeros(4, 3, device=d))),
    "l1_loss": lost(lambda x, d: F.l1_loss(x, torch.zeros(4, 3, device=d))),
    "smooth_l1_loss": lost(lambda x, d: F.smooth_l1_loss(x, torch.zeros(4, 3, device=d))),
    "huber_loss": lost(lambda x, d: F.huber_loss(x, torch.zeros(4, 3, device=d))),
    "binary_cross_entropy": lost(lambda x, d: F.binary_cross_entropy(x.sigmoid(), torch.ones(4, 3, device=d))),
    "with logits": lost(lambda x, d: F.binary_cross_entropy_with_logits(x, torch.ones(4, 3, device=d))),
    "kl_div": lost(
        lambda x, d: F.kl_div(x.log_softmax(-1), torch.full((4, 3), 1 / 3, device=d), reduction="batchmean")
    ),
    "cosine_similarity": lost(lambda x, d: F.cosine_similarity(x, torch.ones(4, 3, device=d))),
    "triplet_margin_loss": lost(lambda x, d: F.triplet_margin_loss(x, x.flip(0), torch.ones(4, 3, device=d))),
    "embedding": lost(lambda x, d: F.embedding(classes(d, 0, 1, 1, 3), x).square()),
    "embedding with padding": lost(lambda x, d: F.embedding(classes(d, 0, 1, 1, 3), x, padding_idx=1).square()),
    "embedding_bag": lost(lambda x, d: F.embedding_bag(classes(d, 0, 1, 1, 3), x, classes(d, 0, 2))),
    "index": lost(lambda x, d: x[classes(d, 0, 0, 2)].square()),
    "mask": lost(lambda x, d: x[x > 0].square()),
    "gather": lost(lambda x, d: x.gather(1, classes(d, 0, 1, 2, 0)[:, None]).exp()),
    "cumsum": lost(lambda x, d: x.cumsum(0).exp()),
    "sort": lost(lambda x, d: x.sort(0)[0].square()),
    "max": lost(lambda x, d: x.max(0)[0].square()),
    "std": lost(lambda x, d: x.std(0)),
    "logsumexp": lost(lambda x, d: x.logsumexp(1)),
    "norm": lost(lambda x, d: torch.linalg.vector_norm(x, dim=1)),
    "view": lost(lambda x, d: x.t()[1:].reshape(-1)[::2].exp()),
    "expand": lost(lambda x, d: (x[None].expand(2, 4, 3) * 2).exp()),
    "complex": lost(lambda x, d: torch.view_as_real(torch.view_as_complex(x[:, :2].contiguous()).conj() * 1j)),
    "einsum": lost(lambda x, d: torch.einsum("ij,kj->ik", x, x)),
    "fallback": lost(lambda x, d: torch.linalg.svdvals(x)),
}


@programs(LOSSES)
def test_loss(program: Program) -> None:
    assert_agrees(program, **CLOSE)


@pytest.mark.parametrize("core", range(4))
def test_a_backward_on_every_core(core: int) -> None:
    x = torch.ones(3, device=f"neuron:{core}", requires_grad=True)
    (x * 3).sum().backward()
    assert x.grad is not None and x.grad.get_device() == core and x.grad.tolist() == [3, 3, 3]


def test_a_backward_over_two_cores_and_the_host() -> None:
    x = torch.ones(3, requires_grad=True)
    ((x.to("neuron:0") * 2).to("neuron:1") * 3).cpu().sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6, 6, 6]


def test_a_hook_changes_a_gradient() -> None:
    x = torch.ones(2, device=DEVICE, requires_grad=True)
    x.register_hook(lambda grad: grad * 2)
    (x * 3).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6, 6]


def test_an_error_in_a_hook_reaches_the_caller() -> None:
    x = torch.ones(2, device="neuron:1", requires_grad=True)

    def hook(grad: Tensor) -> None:
        raise KeyError("the hook's own")

    x.register_hook(hook)
    with pytest.raises(KeyError, match="the hook's own"):
        (x * 3).sum().backward()
    assert torch.neuron.current_device() == 0
    (x.detach().requires_grad_() * 3).sum().backward()


def test_module_hooks_see_device_tensors() -> None:
    seen: list[str] = []
    module = nn.Linear(2, 2).to(DEVICE)
    module.register_forward_hook(lambda _, inputs, output: seen.append(output.device.type))
    module.register_full_backward_hook(lambda _, grad_in, grad_out: seen.append(grad_out[0].device.type))
    module(torch.ones(1, 2, device=DEVICE, requires_grad=True)).sum().backward()
    assert seen == [DEVICE, DEVICE]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * 2 + x * 0


def test_a_function_of_the_user() -> None:
    def program(device: str) -> Tensor | None:
        x = torch.ones(3, device=device, requires_grad=True)
        Doubled.apply(x).sum().backward()
        return x.grad

    assert_agrees(program)


def test_gradients_accumulate() -> None:
    x = torch.ones(2, device=DEVICE, requires_grad=True)
    for _ in range(3):
        (x * 2).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6, 6]


def test_a_graph_is_used_twice_when_kept() -> None:
    x = torch.ones(2, device=DEVICE, requires_grad=True)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_a_second_derivative() -> None:
    def program(device: str) -> tuple[Tensor, ...]:
        x = drawn(device, 3)
        (grad,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return torch.autograd.grad(grad.sum(), x)

    assert_agrees(program)


def test_a_saved_tensor_that_was_changed_is_noticed() -> None:
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@programs(
    {
        "no gradient wanted": lambda d: torch.ones(2, device=d).sum().backward(),
        "not a scalar": lambda d: torch.ones(2, device=d, requires_grad=True).exp().backward(),
        "integers": lambda d: torch.ones(2, dtype=torch.long, device=d).requires_grad_(),
    }
)
def test_a_backward_that_cannot_be_is_refused(program: Program) -> None:
    assert_fails_alike(program)


def test_gradcheck() -> None:
    x = torch.randn(3, dtype=torch.float64, device=DEVICE, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: (t.sin() * t).sum(), (x,))


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected")
def test_anomaly_mode_finds_a_nan() -> None:
    x = torch.zeros(1, device=DEVICE, requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=True), pytest.raises(RuntimeError, match="nan"):
        (x.sqrt() * 0).sum().backward()


def test_saved_tensors_go_to_the_host() -> None:
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        y = x.exp()
    y.sum().backward()
    assert x.grad is not None and x.grad.device.type == DEVICE


ATTENTION: dict[str, Callable[[str], dict[str, Any]]] = {
    "plain": lambda d: {},
    "causal": lambda d: {"is_causal": True},
    "mask": lambda d: {"attn_mask": torch.ones(5, 5, dtype=torch.bool, device=d).tril()},
    "bias": lambda d: {"attn_mask": torch.ones(5, 5, device=d)},
    "scale": lambda d: {"scale": 0.5},
}


@pytest.mark.parametrize("options", ATTENTION.values(), ids=ATTENTION)
def test_attention(options: Callable[[str], dict[str, Any]]) -> None:
    def program(device: str) -> list[Tensor | None]:
        q, k, v = (drawn(device, 2, 2, 5, 4) for _ in range(3))
        y = F.scaled_dot_product_attention(q, k, v, **options(device))
        y.square().sum().backward()
        return [y.contiguous(), *(t.grad.contiguous() for t in (q, k, v) if t.grad is not None)]

    assert_agrees(program, **CLOSE)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_draws_the_same_dropout_again(reentrant: bool) -> None:
    def program(device: str, *, saves: bool) -> Tensor | None:
        layer, x = nn.Linear(4, 4).to(device), drawn(device, 2, 4)

        def block(t: Tensor) -> Tensor:
            return F.dropout(layer(t), 0.5)

        y = checkpoint(block, x, use_reentrant=reentrant) if saves else block(x)
        y.sum().backward()
        return x.grad

    torch.manual_seed(0)
    expected = program("cpu", saves=False)
    for device in ("cpu", DEVICE):
        torch.manual_seed(0)
        grad = program(device, saves=True)
        assert grad is not None
        torch.testing.assert_close(grad.cpu(), expected)


def test_clipped_gradients() -> None:
    def program(device: str) -> list[Tensor]:
        module = nn.Linear(4, 3).to(device)
        module(torch.ones(2, 4, device=device)).square().sum().backward()
        return [nn.utils.clip_grad_norm_(module.parameters(), 0.5), *gradients(module)]

    assert_agrees(program, **CLOSE)


# Input, weight and whether there is a bias: no rows, no input features, no output features, no dim for one feature.
LINEAR: dict[str, tuple[tuple[int, ...], tuple[int, ...], bool]] = {
    "no rows": ((0, 3), (2, 3), True),
    "no rows of three dims": ((2, 0, 3), (4, 3), True),
    "no input": ((2, 0), (3, 0), True),
    "no input of one dim": ((0,), (2, 0), True),
    "no output": ((2, 3), (0, 3), True),
    "no rows, no bias": ((0, 3), (2, 3), False),
    "one feature": ((2, 3), (3,), False),
    "one feature, no rows": ((0, 3), (3,), False),
}


@pytest.mark.parametrize(("input", "weight", "bias"), LINEAR.values(), ids=LINEAR)
def test_gradients_of_a_linear_layer_at_its_limits(input: tuple[int, ...], weight: tuple[int, ...], bias: bool) -> None:
    def program(device: str) -> list[Tensor]:
        leaves = [drawn(device, *input), drawn(device, *weight), *([drawn(device, *weight[:-1])] if bias else [])]
        y = F.linear(*leaves)
        return list(torch.autograd.grad(y, leaves, torch.full_like(y, 2)))

    assert_agrees(program, **CLOSE)


def test_a_bias_for_a_feature_without_a_dim_is_refused() -> None:
    assert_fails_alike(
        lambda d: F.linear(torch.ones(2, 3, device=d), torch.ones(3, device=d), torch.ones((), device=d))
    )
