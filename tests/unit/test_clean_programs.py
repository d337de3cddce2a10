"""Programs as people write them, with nothing to find: warm and, as none changes its shapes, cold as well."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuron_lab
from tests.emulated import DEVICE, neff_cache, nothing_stays_behind

__all__ = ["neff_cache", "nothing_stays_behind"]

Program = Callable[[], object]
X, Y = torch.randn(64, 12), torch.randint(5, (64,))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5)).to(DEVICE)


def batches(rows: int = 64) -> list[tuple[Tensor, Tensor]]:
    data = torch.utils.data.TensorDataset(X[:rows], Y[:rows])
    return list(torch.utils.data.DataLoader(data, batch_size=8))


def step(net: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x.to(DEVICE)), y.to(DEVICE))
    loss.backward()
    optimizer.step()
    return loss.detach()


def losses_after_the_loop() -> Program:
    net = mlp()
    optimizer = torch.optim.AdamW(net.parameters(), foreach=False)

    def program() -> object:
        losses = [step(net, optimizer, x, y) for x, y in batches()]
        return [loss.item() for loss in losses]

    return program


def clipped_and_scheduled() -> Program:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    def program() -> None:
        for x, y in batches():
            F.cross_entropy(net(x.to(DEVICE)), y.to(DEVICE)).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            scheduler.step()

    return program


def bfloat16_by_autocast() -> Program:
    net = mlp()

    def program() -> None:
        for x, y in batches(32):
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                loss = F.cross_entropy(net(x.to(DEVICE)), y.to(DEVICE))
            loss.backward()

    return program


def gradients_accumulated() -> Program:
    net = mlp()
    optimizer = torch.optim.AdamW(net.parameters())

    def program() -> None:
        for number, (x, y) in enumerate(batches()):
            (F.cross_entropy(net(x.to(DEVICE)), y.to(DEVICE)) / 4).backward()
            if number % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()

    return program


def accuracy_at_the_end() -> Program:
    net = mlp().eval()

    @torch.no_grad()
    def program() -> object:
        right = torch.zeros((), device=DEVICE)
        for x, y in batches():
            right += (net(x.to(DEVICE)).argmax(-1) == y.to(DEVICE)).sum()
        return right.item() / len(X)

    return program


def loss_once_in_an_epoch() -> Program:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def program() -> object:
        best = float("inf")
        for _ in range(5):
            for _ in range(20):
                loss = step(net, optimizer, X[:8], Y[:8])
            best = min(best, loss.item())
        return best

    return program


def gradient_descent_by_hand() -> Program:
    net = mlp()

    def program() -> None:
        for x, y in batches(32):
            net.zero_grad()
            F.cross_entropy(net(x.to(DEVICE)), y.to(DEVICE)).backward()
            with torch.no_grad():
                for weight in net.parameters():
                    weight -= 0.1 * weight.grad  # type: ignore[operator]

    return program


def moving_average_and_norms() -> Program:
    net = mlp()
    average = copy.deepcopy(net)

    @torch.no_grad()
    def program() -> object:
        for _ in range(5):
            for mean, weight in zip(average.parameters(), net.parameters(), strict=True):
                mean.lerp_(weight, 0.1)
        return [weight.norm() for weight in net.parameters()]

    return program


def checkpoint_saved_and_loaded() -> Program:
    net = mlp()
    return lambda: net.load_state_dict({name: weight.cpu() for name, weight in net.state_dict().items()})


def convolutions() -> Program:
    blocks: list[nn.Module] = []
    for inside, out in ((1, 4), (4, 8), (8, 16)):
        blocks += [nn.Conv2d(inside, out, 3, stride=2, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
    net = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)).to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    pictures = torch.randn(8, 1, 16, 16)
    return lambda: [step(net, optimizer, pictures, Y[:8]) for _ in range(3)]


def recurrent() -> Program:
    net = nn.LSTM(12, 8, batch_first=True).to(DEVICE)
    rows = torch.randn(4, 6, 12).to(DEVICE)
    return lambda: [net(rows)[0].sum().backward() for _ in range(2)]


def generated_with_a_static_cache() -> Program:
    embedding, query, out = (part.to(DEVICE) for part in (nn.Embedding(9, 16), nn.Linear(16, 16), nn.Linear(16, 9)))
    places = torch.arange(8).to(DEVICE)

    @torch.no_grad()
    def program() -> object:
        keys = torch.zeros(1, 8, 16, device=DEVICE)
        token, tokens = torch.ones(1, 1, dtype=torch.int64).to(DEVICE), []
        for place in range(8):
            h = query(embedding(token))
            keys.index_copy_(1, places[place : place + 1], h)
            scores = (h @ keys.transpose(1, 2)).masked_fill(places > place, -1e9)
            token = out((scores.softmax(-1) @ keys)[:, -1]).argmax(-1, keepdim=True)
            tokens.append(token)
        return torch.cat(tokens, 1).cpu()

    return program


def two_networks_in_turn() -> Program:
    maker, judge = nn.Linear(4, 12).to(DEVICE), nn.Linear(12, 1).to(DEVICE)

    def program() -> None:
        for x, _ in batches(24):
            made = maker(torch.randn(8, 4).to(DEVICE))
            (F.softplus(-judge(x.to(DEVICE))).mean() + F.softplus(judge(made.detach())).mean()).backward()
            F.softplus(-judge(made)).mean().backward()

    return program


def denoised() -> Program:
    net = nn.Sequential(nn.Linear(13, 16), nn.SiLU(), nn.Linear(16, 12)).to(DEVICE)
    kept = torch.linspace(0.99, 0.01, 10).to(DEVICE)

    @torch.no_grad()
    def program() -> object:
        x = torch.randn(4, 12).to(DEVICE)
        for t in range(9, -1, -1):
            noise = net(torch.cat([x, torch.full((4, 1), float(t), device=DEVICE)], 1))
            x = (x - (1 - kept[t]).sqrt() * noise) / kept[t].sqrt()
        return x.cpu()

    return program


def compiled() -> Program:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    fast = torch.compile(net, backend=DEVICE)
    return lambda: [step(fast, optimizer, X[:8], Y[:8]) for _ in range(4)]


PROGRAMS = [
    losses_after_the_loop,
    clipped_and_scheduled,
    bfloat16_by_autocast,
    gradients_accumulated,
    accuracy_at_the_end,
    loss_once_in_an_epoch,
    gradient_descent_by_hand,
    moving_average_and_norms,
    checkpoint_saved_and_loaded,
    convolutions,
    recurrent,
    generated_with_a_static_cache,
    two_networks_in_turn,
    denoised,
    compiled,
]


# What TorchNeuron's table of April 2026 has no kernel for.
NO_KERNEL = {
    accuracy_at_the_end: {"aten::argmax"},
    generated_with_a_static_cache: {"aten::argmax"},
    convolutions: {"aten::native_batch_norm", "aten::native_batch_norm_backward"},
    recurrent: {"aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_lstm_cell_backward_impl"},
}


@pytest.mark.parametrize("made", PROGRAMS, ids=lambda made: made.__name__)
def test_nothing_is_found(made: Callable[[], Program]) -> None:
    program = made()
    for _ in range(2):
        with neuron_lab.profile() as p:
            program()
        # NRN032 is about another device: what TorchNeuron has no kernel for.
        assert [(finding.code, finding.message) for finding in p.findings if finding.code != "NRN032"] == []
    lacking = {op for finding in p.findings for op in finding.ops}
    assert lacking == NO_KERNEL.get(made, set())
    assert p.summary.cold_calls == 0
