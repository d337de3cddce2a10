"""Optimizers, and their link to parameters that move: as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.conformance._both import Program, assert_agrees
from tests.emulated import DEVICE

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def trained(make: Callable[[Any], torch.optim.Optimizer]) -> Program:
    """A program: the parameters after three steps."""

    def program(device: str) -> list[Tensor]:
        module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
        optimizer, x = make(module.parameters()), torch.randn(3, 4).to(device)
        for _ in range(3):
            optimizer.zero_grad()
            module(x).square().mean().backward()
            optimizer.step()
        return list(module.parameters())

    return program


OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "SGD": (torch.optim.SGD, {"lr": 0.1}),
    "SGD with momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "Adam": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.01}),
    "NAdam": (torch.optim.NAdam, {}),
    "RAdam": (torch.optim.RAdam, {}),
    "Adamax": (torch.optim.Adamax, {}),
    "Adagrad": (torch.optim.Adagrad, {}),
    "Adadelta": (torch.optim.Adadelta, {}),
    "Adafactor": (torch.optim.Adafactor, {}),
    "RMSprop": (torch.optim.RMSprop, {"momentum": 0.9, "centered": True}),
    "Rprop": (torch.optim.Rprop, {}),
    "ASGD": (torch.optim.ASGD, {}),
}


@pytest.mark.parametrize("foreach", [None, False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name: str, foreach: bool | None) -> None:
    kind, options = OPTIMIZERS[name]
    assert_agrees(trained(lambda parameters: kind(parameters, foreach=foreach, **options)), **CLOSE)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad])
def test_fused_optimizer(kind: type[torch.optim.Optimizer]) -> None:
    assert_agrees(trained(lambda parameters: kind(parameters, lr=0.1, fused=True)), **CLOSE)


def test_a_capturable_optimizer() -> None:
    program = trained(lambda parameters: torch.optim.AdamW(parameters, lr=0.1, capturable=True))
    torch.manual_seed(0)
    expected = trained(lambda parameters: torch.optim.AdamW(parameters, lr=0.1))("cpu")
    torch.manual_seed(0)
    for actual, wanted in zip(program(DEVICE), expected, strict=True):
        torch.testing.assert_close(actual.cpu(), wanted, **CLOSE)


def test_lbfgs() -> None:
    def program(device: str) -> list[Tensor]:
        module = nn.Linear(3, 1).to(device)
        optimizer, x = torch.optim.LBFGS(module.parameters(), max_iter=4), torch.randn(5, 3).to(device)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)
        return list(module.parameters())

    assert_agrees(program, **CLOSE)


def test_a_moved_module_keeps_its_parameters_and_optimizer() -> None:
    module = nn.Linear(3, 3)
    weight, optimizer = module.weight, torch.optim.SGD(module.parameters(), lr=1.0)
    module.to(DEVICE)
    assert module.weight is weight and weight.device.type == DEVICE
    before = weight.detach().clone()
    module(torch.ones(1, 3, device=DEVICE)).sum().backward()
    optimizer.step()
    assert torch.equal(weight, before - 1)


def test_a_moved_module_moves_its_gradients_and_buffers() -> None:
    module = nn.BatchNorm1d(3)
    module(torch.randn(4, 3)).sum().backward()
    module.to(DEVICE)
    assert module.weight.grad is not None
    assert module.weight.grad.device.type == module.running_mean.device.type == DEVICE
    module.cpu()
    assert module.weight.device.type == "cpu"


def test_the_data_of_a_parameter_is_replaced_by_a_device_tensor() -> None:
    parameter = nn.Parameter(torch.ones(2))
    parameter.data = torch.full((2,), 3.0, device=DEVICE)
    assert parameter.device.type == DEVICE and parameter.tolist() == [3, 3]


def test_a_module_made_on_meta_is_made_on_the_device() -> None:
    module = nn.Linear(3, 3, device="meta").to_empty(device=DEVICE)
    assert module.weight.device.type == DEVICE
