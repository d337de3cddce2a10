"""Networks of the usual kinds trained for three steps: every loss, parameter and buffer as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer, lr_scheduler

from tests.conformance import _networks as networks
from tests.conformance._training import assert_close, moved
from tests.emulated import DEVICE

Batch = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Run:
    """A network, what it is trained on, and how."""

    network: Callable[[], nn.Module]
    batch: Callable[[], Batch]
    optimizer: Callable[[Any], Optimizer] = lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9)
    schedule: Callable[[Optimizer], lr_scheduler.LRScheduler] = lambda optimizer: lr_scheduler.StepLR(optimizer, 2)


def labels(count: int) -> Tensor:
    return torch.randint(0, 3, (count,))


def images(size: int = 32) -> Batch:
    return {"x": torch.randn(4, 3, size, size), "labels": labels(4)}


def text() -> Batch:
    lengths = torch.tensor([3, 5, 1, 4])
    ids = torch.randint(1, 20, (4, 5)) * (torch.arange(5) < lengths[:, None])
    return {"ids": ids, "lengths": lengths, "labels": labels(4)}


def graph() -> Batch:
    return {"nodes": torch.randn(7, 6), "edges": torch.randint(0, 7, (2, 15)), "labels": labels(7)}


def pairs() -> Batch:
    return {
        "source": torch.randint(1, 20, (3, 6)).index_fill(1, torch.tensor([5]), 0),
        "target": torch.randint(1, 20, (3, 5)),
    }


def clicks() -> Batch:
    return {
        "dense": torch.randn(3, 5),
        "categories": torch.randint(0, 10, (8,)),
        "offsets": torch.tensor([0, 3, 3]),
        "clicked": torch.tensor([0.0, 1.0, 1.0]),
    }


def adamw(parameters: Any) -> Optimizer:
    return torch.optim.AdamW(parameters, 1e-3, eps=1e-4)  # small gradients are rounding: eps keeps them small


def reader(kind: Callable[..., nn.Module], width: int, **options: Any) -> Run:
    return Run(lambda: networks.Reader(kind, width, **options), text, adamw)


RUNS = {
    "small ResNet": Run(lambda: networks.resnet((1, 1), 4), images),
    "ResNet-18": Run(lambda: networks.resnet((2, 2, 2, 2)), lambda: images(64)),
    "MobileNet": Run(networks.mobilenet, images, lambda p: torch.optim.RMSprop(p, 1e-3, eps=1e-3, momentum=0.9)),
    "VGG": Run(networks.vgg, images, schedule=lambda o: lr_scheduler.CosineAnnealingLR(o, 3)),
    "UNet": Run(networks.UNet, lambda: {"x": torch.randn(2, 3, 16, 16), "mask": torch.randint(0, 2, (2, 16, 16))}, adamw),
    "LSTM, both ways": reader(nn.LSTM, 16, bidirectional=True, num_layers=2, dropout=0.3),
    "LSTM, projected": reader(nn.LSTM, 4, proj_size=4),
    "GRU, both ways": reader(nn.GRU, 16, bidirectional=True),
    "RNN": reader(nn.RNN, 8, nonlinearity="relu", num_layers=2),
    "experts": Run(networks.Experts, lambda: {"x": torch.randn(2, 5, 8), "target": torch.randn(2, 5, 8)}, adamw),
    "Transformer": Run(networks.Translator, pairs, adamw, lambda o: lr_scheduler.OneCycleLR(o, 1e-2, total_steps=4)),
    "attention": Run(networks.Attention, lambda: {"q": torch.randn(2, 3, 8), "k": torch.randn(2, 4, 6), "v": torch.randn(2, 4, 4)}, adamw),
    "variational autoencoder": Run(networks.Variational, lambda: {"x": torch.rand(3, 1, 16, 16)}, adamw, lambda o: lr_scheduler.ExponentialLR(o, 0.9)),
    "diffusion": Run(networks.Diffusion, lambda: {"x": torch.randn(3, 1, 8, 8)}, adamw, lambda o: lr_scheduler.LinearLR(o)),
    "graph": Run(networks.Graph, graph, lambda p: torch.optim.Adagrad(p, 0.05)),
    "contrast": Run(networks.Contrast, lambda: {"x": torch.randn(4, 6), "y": torch.randn(4, 5)}, lambda p: torch.optim.NAdam(p, eps=1e-4)),
    "recommender": Run(networks.Recommender, clicks, lambda p: torch.optim.Adamax(p, eps=1e-4)),
    "spelling": Run(networks.Spelling, text, schedule=lambda o: lr_scheduler.PolynomialLR(o, 3)),
}  # fmt: skip
_SLOW = ("ResNet-18",)


def trained(run: Run, device: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The loss of each step, and the state after the last."""
    torch.manual_seed(0)
    network, batch = run.network().train(), moved(run.batch(), device)
    network.to(device)
    optimizer = run.optimizer(network.parameters())
    schedule = run.schedule(optimizer)
    losses: dict[str, Tensor] = {}
    for step in range(3):
        optimizer.zero_grad()
        losses[f"loss {step}"] = network(**batch)
        losses[f"loss {step}"].backward()
        losses[f"norm {step}"] = nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return losses, network.state_dict()


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in _SLOW else ()) for name in RUNS])
def test_three_steps_are_the_cpus(name: str) -> None:
    for there, here in zip(trained(RUNS[name], DEVICE), trained(RUNS[name], "cpu"), strict=True):
        assert_close(there, here)
