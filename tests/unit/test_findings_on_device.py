"""On the emulated device: a clean warm program has no findings, and the usual mistakes have theirs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import neuron_lab
from tests.emulated import DEVICE, hbm_limit, neff_cache, nothing_stays_behind

__all__ = ["hbm_limit", "neff_cache", "nothing_stays_behind"]

X, Y = torch.randn(22, 12), torch.randint(5, (22,))


def codes(program: Callable[[], object]) -> list[str]:
    with neuron_lab.profile() as p:
        program()
    return [finding.code for finding in p.findings]


class Trained:
    """A small network that trains."""

    def __init__(self, optimizer: type[torch.optim.Optimizer] = torch.optim.SGD, **options: object) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 5)).to(DEVICE)
        self.optimizer = optimizer(self.net.parameters(), lr=0.1, **options)  # type: ignore[call-arg]

    def step(self, first: int = 0, last: int = 8) -> torch.Tensor:
        loss = F.cross_entropy(self.net(X[first:last].to(DEVICE)), Y[first:last].to(DEVICE))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def epoch(self) -> None:
        for first in range(0, 22, 8):
            self.step(first, min(first + 8, 22))


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [(torch.optim.SGD, {"momentum": 0.9}), (torch.optim.AdamW, {"foreach": False})],
    ids=["sgd", "adamw one by one"],
)
def test_training_is_clean_cold_and_warm(optimizer: type[torch.optim.Optimizer], options: dict[str, object]) -> None:
    trained = Trained(optimizer, **options)
    assert codes(lambda: [trained.step() for _ in range(2)]) == []
    assert codes(lambda: [trained.step() for _ in range(6)]) == []


def test_transformer_is_clean_cold_and_warm() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(9, 16), layer, nn.Linear(16, 9)).to(DEVICE)
    tokens = torch.randint(9, (2, 6))

    def step() -> None:
        F.cross_entropy(model(tokens.to(DEVICE)).flatten(0, 1), tokens.flatten().to(DEVICE)).backward()

    assert codes(step) == []
    assert codes(lambda: [step() for _ in range(5)]) == []


def test_last_batch_is_found_in_the_epoch_that_compiles_it() -> None:
    trained = Trained()
    trained.step()
    with neuron_lab.profile() as p:
        trained.epoch()
    (finding,) = p.findings
    assert finding.code == "NRN012"
    assert "8 → 6" in finding.message
    assert {"aten::linear", "aten::linear_backward"} <= set(finding.ops)
    assert codes(trained.epoch) == []


def test_value_read_in_a_loop() -> None:
    trained = Trained()
    trained.step()
    assert codes(lambda: [trained.step().item() for _ in range(5)]) == ["NRN041"]
    assert codes(lambda: [trained.step() for _ in range(5)][-1].item()) == []


def test_printing_once_is_no_loop() -> None:
    values = torch.randn(3, device=DEVICE)
    repr(values)
    assert codes(lambda: repr(values)) == []


def test_unique_in_a_loop() -> None:
    labels = torch.randint(3, (8,), device=DEVICE)
    assert codes(lambda: [labels.unique() for _ in range(5)]) == ["NRN031"]


def test_mask_in_a_loop() -> None:
    values = torch.randn(8, device=DEVICE)
    assert codes(lambda: [values[values > 0] for _ in range(5)]) == ["NRN031"]


def test_float64() -> None:
    assert codes(lambda: torch.ones(3, dtype=torch.float64).to(DEVICE) * 2) == ["NRN021"]


def test_variable_that_came_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_RT_NUM_CORES", "1")
    assert codes(lambda: None) == ["NRN061"]


def test_memory_near_the_limit(hbm_limit: Callable[[int], None]) -> None:
    torch.neuron.reset_peak_memory_stats()
    held = torch.neuron.memory_allocated()
    limit = 2 * held + (1 << 20)
    hbm_limit(limit)
    assert codes(lambda: torch.empty(int(0.95 * limit) - held, dtype=torch.uint8, device=DEVICE)) == ["NRN051"]
