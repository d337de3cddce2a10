"""What training programs do around a model: precision, checkpoints, averages, parametrizations, pruning, transforms."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.optim import swa_utils
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.conformance._both import Program, assert_agrees, programs
from tests.conformance._training import assert_close, moved
from tests.emulated import DEVICE

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))


def data(device: str) -> tuple[Tensor, Tensor]:
    return torch.randn(6, 4).to(device), torch.randint(0, 3, (6,)).to(device)


def three_steps(model: nn.Module, device: str, loss: Callable[[], Tensor] | None = None) -> None:
    x, y = data(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (loss() if loss else F.cross_entropy(model(x), y)).backward()
        optimizer.step()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_and_a_gradient_scaler_train_as_on_the_cpu(dtype: torch.dtype) -> None:
    def program(device: str) -> dict[str, Tensor]:
        torch.manual_seed(0)
        model = perceptron().to(device)
        x, y = data(device)
        optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler(device, init_scale=64.0)
        losses = {}
        for step in range(4):
            optimizer.zero_grad()
            with torch.autocast(device, dtype=dtype):
                loss = F.cross_entropy(model(x), y)
            assert loss.dtype == torch.float32
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            losses[f"loss {step}"] = loss.detach()
        assert scaler.get_scale() == 64.0
        return {**losses, **model.state_dict()}

    there, here = program(DEVICE), program("cpu")
    for name, value in here.items():  # the lower precision has 8 (bfloat16) or 11 bits
        torch.testing.assert_close(there[name].cpu(), value, rtol=2e-2, atol=5e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_a_model_in_another_precision(dtype: torch.dtype) -> None:
    def program(device: str) -> list[Tensor]:
        model = perceptron().to(device, dtype)
        x, y = data(device)
        loss = F.cross_entropy(model(x.to(dtype)), y)
        loss.backward()
        return [loss, *(p.grad for p in model.parameters() if p.grad is not None)]

    exact = dtype == torch.float64
    assert_agrees(program, **({"rtol": 1e-12, "atol": 1e-12} if exact else {"rtol": 4e-2, "atol": 1e-2}))


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_of_a_transformer(reentrant: bool) -> None:
    def program(device: str) -> list[Tensor | None]:
        layers = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True) for _ in range(2))
        layers.to(device)
        x = torch.randn(2, 5, 8).to(device).requires_grad_()
        y = x
        for layer in layers:
            y = checkpoint(layer, y, use_reentrant=reentrant)
        y = checkpoint_sequential(nn.Sequential(nn.Linear(8, 8), nn.Tanh()).to(device), 2, y, use_reentrant=reentrant)
        y.square().sum().backward()
        return [y, x.grad, *(p.grad for p in layers.parameters())]

    assert_agrees(program, **CLOSE)


def test_gradients_accumulate_over_parts_of_a_batch() -> None:
    def program(device: str) -> list[Tensor | None]:
        model = perceptron().to(device)
        x, y = data(device)
        for part, labels in zip(x.split(2), y.split(2), strict=True):
            (F.cross_entropy(model(part), labels) / 3).backward()
        return [p.grad for p in model.parameters()]

    assert_agrees(program, **CLOSE)


def test_parameters_become_one_vector_and_back() -> None:
    def program(device: str) -> dict[str, Any]:
        model = perceptron().to(device)
        vector = nn.utils.parameters_to_vector(model.parameters())
        nn.utils.vector_to_parameters(vector * 2, model.parameters())
        return model.state_dict()

    assert_agrees(program)


def _averaged(make: Callable[[nn.Module], swa_utils.AveragedModel]) -> Program:
    def program(device: str) -> list[Tensor]:
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).to(device)
        average = make(model)
        for _ in range(2):
            three_steps(model, device)
            average.update_parameters(model)
        swa_utils.update_bn([data(device)[0] for _ in range(2)], average)
        return [*average.parameters(), *average.buffers()]

    return program


@programs(
    {
        "mean": _averaged(swa_utils.AveragedModel),
        "exponential": _averaged(
            lambda model: swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
        ),
        "by hand": _averaged(lambda model: swa_utils.AveragedModel(model, avg_fn=lambda a, p, n: a.lerp(p, 0.1))),
    }
)
def test_an_average_of_the_weights(program: Program) -> None:
    assert_agrees(program, **CLOSE)


def _parametrized(change: Callable[[nn.Linear], Any]) -> Program:
    def program(device: str) -> dict[str, Tensor]:
        model = perceptron().to(device)
        change(model[3])
        three_steps(model, device)
        state = dict(model.state_dict())
        if parametrize.is_parametrized(model[3]):
            parametrize.remove_parametrizations(model[3], "weight")
        return {**state, "weight": model[3].weight}

    return program


class _Symmetric(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.triu() + x.triu(1).mT if x.shape[0] == x.shape[1] else x * x.sign().abs()


@programs(
    {
        "weight_norm": _parametrized(parametrizations.weight_norm),
        "spectral_norm": _parametrized(parametrizations.spectral_norm),
        "orthogonal": _parametrized(parametrizations.orthogonal),
        "orthogonal by Cayley": _parametrized(lambda m: parametrizations.orthogonal(m, orthogonal_map="cayley")),
        "one's own": _parametrized(lambda m: parametrize.register_parametrization(m, "weight", _Symmetric())),
        "pruned by size": _parametrized(lambda m: prune.l1_unstructured(m, "weight", amount=0.3)),
        "pruned by rows": _parametrized(lambda m: prune.ln_structured(m, "weight", amount=1, n=2, dim=0)),
        "pruned at random": _parametrized(lambda m: prune.random_unstructured(m, "weight", amount=0.5)),
        "pruned for good": _parametrized(
            lambda m: prune.remove(prune.l1_unstructured(m, "weight", amount=5), "weight")
        ),
    }
)
def test_a_weight_that_is_computed(program: Program) -> None:
    assert_agrees(program, **CLOSE)


def test_pruning_over_all_layers() -> None:
    def program(device: str) -> dict[str, Tensor]:
        model = perceptron().to(device)
        chosen = [(model[0], "weight"), (model[3], "weight")]
        prune.global_unstructured(chosen, prune.L1Unstructured, amount=0.4)
        three_steps(model, device)
        return model.state_dict()

    assert_agrees(program, **CLOSE)


def test_convolution_and_norm_are_fused() -> None:
    def program(device: str) -> list[Tensor]:
        convolution, norm = nn.Conv2d(2, 3, 3).to(device), nn.BatchNorm2d(3).to(device)
        x = torch.randn(2, 2, 5, 5).to(device)
        norm(convolution(x))
        fused = nn.utils.fusion.fuse_conv_bn_eval(convolution.eval(), norm.eval())
        with torch.no_grad():
            return [fused(x), norm(convolution(x))]

    assert_agrees(program, **CLOSE)


def _per_sample(device: str) -> dict[str, Tensor]:
    model = perceptron().to(device)
    x, y = data(device)

    def loss(parameters: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(torch.func.functional_call(model, parameters, (one[None],)), label[None])

    parameters = {name: p.detach() for name, p in model.named_parameters()}
    gradients: dict[str, Tensor] = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    return gradients


def _ensemble(device: str) -> list[Tensor]:
    models = [perceptron().to(device) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    empty = copy.deepcopy(models[0]).to("meta")

    def call(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
        result: Tensor = torch.func.functional_call(empty, (parameters, buffers), (x,))
        return result

    x, _ = data(device)
    return [torch.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x), torch.stack([model(x) for model in models])]


def _convolved_per_sample(device: str) -> Any:
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 2)
    )
    model.to(device)
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters: dict[str, Tensor], one: Tensor) -> Tensor:
        return torch.func.functional_call(model, parameters, (one[None],)).square().sum()

    images = torch.randn(3, 1, 6, 6).to(device)
    return torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, images)


def _jacobians(device: str) -> list[Tensor]:
    model = perceptron().to(device)
    x = data(device)[0]
    return [
        torch.vmap(torch.func.jacrev(model))(x),
        torch.vmap(torch.func.jacfwd(model))(x),
        torch.func.hessian(lambda v: model(v).logsumexp(-1))(x[0]),
        torch.autograd.functional.jacobian(lambda v: model(v).sum(0), x),
    ]


def _penalised(device: str) -> list[Tensor | None]:
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.SiLU(), nn.Flatten(), nn.Linear(12, 1)).to(device)
    x = torch.randn(3, 2, 5).to(device).requires_grad_()
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    (model(x).mean() + 10 * (slope.flatten(1).norm(dim=1) - 1).square().mean()).backward()
    return [slope, *(p.grad for p in model.parameters())]


def _learned_to_learn(device: str) -> list[Tensor | None]:
    model = perceptron().to(device)
    x, y = data(device)
    parameters: dict[str, Tensor] = dict(model.named_parameters())
    for _ in range(2):
        loss = F.cross_entropy(torch.func.functional_call(model, parameters, (x,)), y)
        slopes = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
        parameters = {name: p - 0.1 * g for (name, p), g in zip(parameters.items(), slopes, strict=True)}
    F.cross_entropy(torch.func.functional_call(model, parameters, (x,)), y).backward()
    return [p.grad for p in model.parameters()]


def _product_with_the_hessian(device: str) -> Any:
    model = perceptron().to(device)
    x, y = data(device)
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        return F.cross_entropy(torch.func.functional_call(model, parameters, (x,)), y)

    return torch.func.jvp(torch.func.grad(loss), (parameters,), (parameters,))[1]


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # PyTorch's own forward mode uses it
@programs(
    {
        "gradients of each sample": _per_sample,
        "gradients of each image": _convolved_per_sample,
        "an ensemble": _ensemble,
        "jacobians": _jacobians,
        "a gradient penalty": _penalised,
        "learning to learn": _learned_to_learn,
        "hessian times vector": _product_with_the_hessian,
    }
)
def test_a_transform_of_a_model(program: Program) -> None:
    assert_agrees(program, **CLOSE)


def encoded(device: str, nested: bool) -> Tensor:
    """A padded batch through an encoder in evaluation, where PyTorch runs each layer as one op; 0 where there is padding."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).to(device).eval()
    padded = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]).to(device)
    with torch.no_grad():
        y: Tensor = model(torch.randn(2, 5, 8).to(device), src_key_padding_mask=padded)
    return y.masked_fill(padded[..., None], 0)


def test_an_encoder_in_evaluation() -> None:
    assert_agrees(lambda device: encoded(device, nested=False), **CLOSE)


def test_an_encoder_that_packs_its_batch_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="padding mask: enable_nested_tensor=False"):
        encoded(DEVICE, nested=True)


def test_a_rate_that_follows_the_loss() -> None:
    def program(device: str) -> list[float]:
        model = perceptron().to(device)
        x, y = data(device)
        optimizer = torch.optim.SGD(model.parameters(), 5.0)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
        rates = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            schedule.step(loss.detach())
            rates.append(optimizer.param_groups[0]["lr"])
        return rates

    assert_agrees(program)


@pytest.mark.parametrize("place", ["cpu", DEVICE])
def test_training_goes_on_from_a_file(place: str) -> None:
    def start() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = perceptron().to(DEVICE)
        return model, torch.optim.AdamW(model.parameters(), 0.01)

    torch.manual_seed(1)
    x, y = data(DEVICE)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    model, optimizer = start()
    step(model, optimizer)
    file = io.BytesIO()
    torch.save(moved({"model": dict(model.state_dict()), "optimizer": optimizer.state_dict()}, place), file)
    file.seek(0)
    again, resumed = start()
    state = torch.load(file, map_location=DEVICE)
    again.load_state_dict(state["model"])
    resumed.load_state_dict(state["optimizer"])
    step(model, optimizer)
    step(again, resumed)
    assert_close(again.state_dict(), model.state_dict())
