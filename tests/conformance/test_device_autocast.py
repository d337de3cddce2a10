"""torch.autocast("neuron"): PyTorch's lists of ops."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.emulated import DEVICE

LOWER: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: F.linear(x, x),
    "matmul": lambda x: x @ x,
    "mm": lambda x: torch.mm(x, x),
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "addmm": lambda x: torch.addmm(x, x, x),
    "mv": lambda x: torch.mv(x, x[0]),
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
    "conv1d": lambda x: F.conv1d(x[None], torch.ones(2, 4, 1, device=DEVICE)),
    "conv2d": lambda x: F.conv2d(x[None, None], torch.ones(1, 1, 2, 2, device=DEVICE)),
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "prelu": lambda x: F.prelu(x, torch.ones(1, device=DEVICE)),
}
FLOAT32: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "log": lambda x: torch.log(x.abs() + 1),
    "pow": lambda x: x**2,
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 1),
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "rms_norm": lambda x: F.rms_norm(x, (4,)),
    "group_norm": lambda x: F.group_norm(x[None], 2),
    "mse_loss": lambda x: F.mse_loss(x, x),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.zeros(4, dtype=torch.long, device=DEVICE)),
    "sum": lambda x: x.sum(),
    "sum of a dimension": lambda x: x.sum(0),
    "prod": lambda x: x.prod(),
    "cumsum": lambda x: x.cumsum(0),
    "norm": lambda x: torch.linalg.vector_norm(x),
    "softplus": F.softplus,
    "cosine_similarity": lambda x: F.cosine_similarity(x, x),
    "logsumexp": lambda x: x.logsumexp(0),
}


def table(rows: dict[str, Callable[[Tensor], Tensor]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("compute", rows.values(), ids=rows)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@table(LOWER)
def test_matrix_ops_run_in_the_lower_precision(compute: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    with torch.autocast(DEVICE, dtype=dtype):
        assert compute(torch.ones(4, 4, device=DEVICE)).dtype == dtype


@table(FLOAT32)
def test_delicate_ops_run_in_float32(compute: Callable[[Tensor], Tensor]) -> None:
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert compute(torch.ones(4, 4, dtype=torch.bfloat16, device=DEVICE)).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_other_ops_keep_their_dtype(dtype: torch.dtype) -> None:
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert torch.ones(2, dtype=dtype, device=DEVICE).relu().dtype == dtype


def test_mixed_inputs_of_dot_promote() -> None:
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert (
            torch.dot(torch.ones(2, device=DEVICE), torch.ones(2, dtype=torch.bfloat16, device=DEVICE)).dtype
            == torch.float32
        )


def test_float64_is_left_alone() -> None:
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        x = torch.ones(2, 2, dtype=torch.float64, device=DEVICE)
        assert (x @ x).dtype == torch.float64


def test_binary_cross_entropy_is_refused() -> None:
    x = torch.full((2,), 0.5, device=DEVICE)
    with torch.autocast(DEVICE), pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(x, x)


def test_gradients_keep_the_dtype_of_their_parameters() -> None:
    module = nn.Linear(4, 4).to(DEVICE)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        loss = module(torch.ones(2, 4, device=DEVICE)).float().square().mean()
    loss.backward()
    assert module.weight.grad is not None and module.weight.grad.dtype == torch.float32


def test_a_region_without_autocast_inside() -> None:
    x = torch.ones(2, 2, device=DEVICE)
    with torch.autocast(DEVICE, dtype=torch.bfloat16), torch.autocast(DEVICE, enabled=False):
        assert (x @ x).dtype == torch.float32


def test_autocast_of_the_cpu_does_not_reach_the_device() -> None:
    x = torch.ones(2, 2, device=DEVICE)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.float32


def test_autocast_of_the_device_does_not_reach_the_cpu() -> None:
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_autocast_of_the_cpu_does_not_reach_a_fallback() -> None:
    x = torch.eye(3, device=DEVICE)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.linalg.qr(x)[0].dtype == torch.float32


def test_autocast_does_not_reach_the_compiler() -> None:
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert torch.ones(7, 3, device=DEVICE).mul(2).add(1).dtype == torch.float32


def test_the_dtype_is_float16_unless_told() -> None:
    with torch.autocast(DEVICE):
        assert torch.get_autocast_dtype(DEVICE) == torch.float16


def test_an_unsupported_dtype_switches_autocast_off() -> None:
    with pytest.warns(UserWarning, match="Currently neuron only supports|not supported"):
        context = torch.autocast(DEVICE, dtype=torch.float64)
    with context:
        assert not torch.is_autocast_enabled(DEVICE)


def test_supported_dtypes() -> None:
    assert torch.neuron.get_amp_supported_dtype() == [torch.float32, torch.float16, torch.bfloat16]
    assert torch.neuron.is_bf16_supported()


def scaled_step(scaler: torch.amp.GradScaler, module: nn.Module, factor: float) -> None:
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    loss = (module(torch.ones(1, 3, device=DEVICE)) * factor).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()


def test_a_gradient_scaler_steps() -> None:
    scaler, module = torch.amp.GradScaler(DEVICE), nn.Linear(3, 3).to(DEVICE)
    before = module.weight.detach().clone()
    scaled_step(scaler, module, 1.0)
    assert scaler.get_scale() == 2**16 and not torch.equal(module.weight, before)


def test_a_gradient_scaler_skips_an_infinite_gradient() -> None:
    scaler, module = torch.amp.GradScaler(DEVICE), nn.Linear(3, 3).to(DEVICE)
    before = module.weight.detach().clone()
    scaled_step(scaler, module, float("inf"))
    assert scaler.get_scale() == 2**15 and torch.equal(module.weight, before)
