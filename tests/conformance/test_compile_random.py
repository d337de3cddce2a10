"""Compiled programs draw the random numbers that the eager ones draw, and their writes are seen as there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tests.emulated import DEVICE, fresh_dynamo  # noqa: F401  # a fixture

Program = Callable[[Tensor, Tensor], tuple[Tensor, ...]]


def branches(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a = F.dropout(F.dropout(x.sin(), 0.5).exp() * 2, 0.3)
    b = F.dropout(y, 0.5).cos()
    return (a @ b).tanh(), F.dropout(y + 1, 0.5) + a


def decoder_before_its_encoder_is_used(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    memory = x
    for _ in range(2):
        memory = F.dropout(memory @ x, 0.2).tanh()
    memory = F.dropout(memory, 0.2)
    state = F.dropout(F.dropout(y, 0.2) @ y, 0.2)
    return (state @ memory,)


def in_a_loop(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    for _ in range(4):
        x = F.dropout(x @ y, 0.4).sigmoid()
    return (x,)


def every_kind(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    order = torch.randperm(6, device=x.device)
    gate = torch.bernoulli(torch.full((6, 6), 0.5, device=x.device))
    noise = torch.randn(6, 6, device=x.device) + torch.empty(6, 6, device=x.device).uniform_(-1, 1)
    return x * torch.rand_like(x) + noise, y[order] * gate, torch.normal(x, y.exp()), F.gumbel_softmax(x)


def on_the_host_and_on_the_device(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return x * torch.rand(6, 6).to(x.device) + torch.randn(6, 6, device=x.device), F.dropout(y, 0.5) * torch.rand(1).to(
        x.device
    )


def attention(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    key = y[None, None]
    return (F.scaled_dot_product_attention(x[None, None], key, key, dropout_p=0.3)[0, 0] + F.dropout(x, 0.5),)


def _block(x: Tensor, y: Tensor) -> Tensor:
    return F.dropout(F.dropout((x @ y).sin(), 0.5) @ y, 0.2)


def recomputed(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    hidden = checkpoint(_block, x, y, use_reentrant=False)
    return (checkpoint(_block, F.dropout(hidden, 0.5).cos(), y, use_reentrant=False),)


PROGRAMS: list[Program] = [
    branches,
    decoder_before_its_encoder_is_used,
    in_a_loop,
    every_kind,
    on_the_host_and_on_the_device,
    attention,
    recomputed,
]


def outcome(program: Program) -> list[Tensor]:
    """Results, gradients and the next random number."""
    torch.manual_seed(0)
    x, y = (torch.randn(6, 6).to(DEVICE).requires_grad_() for _ in range(2))
    results = program(x, y)
    torch.stack([result.square().sum() for result in results]).sum().backward()
    assert x.grad is not None and y.grad is not None
    return [*(tensor.detach().cpu() for tensor in (*results, x.grad, y.grad)), torch.rand(1)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_draws_are_those_of_eager(program: Program) -> None:
    compiled = torch.compile(program, backend="neuron", fullgraph=program is not recomputed)
    for got, want in zip(outcome(compiled), outcome(program), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_calls_inside_and_outside_share_one_stream() -> None:
    def program(x: Tensor) -> Tensor:
        return F.dropout(x, 0.5) + torch.rand_like(x)

    def run(function: Callable[[Tensor], Tensor]) -> list[Tensor]:
        torch.manual_seed(5)
        x = torch.ones(8, device=DEVICE)
        return [function(x).cpu(), torch.rand(2, device=DEVICE).cpu(), function(x).cpu(), torch.rand(2)]

    for got, want in zip(run(torch.compile(program, backend="neuron")), run(program), strict=True):
        assert torch.equal(got, want)


def test_a_custom_op_that_writes_is_seen_where_it_stands() -> None:
    with torch.library._scoped_library("neuron_lab_tests", "FRAGMENT"):

        @torch.library.custom_op("neuron_lab_tests::add_one_", mutates_args={"x"})
        def add_one_(x: Tensor) -> None:
            x.add_(1)

        def program(x: Tensor, y: Tensor) -> Tensor:
            doubled = x * 2
            add_one_(doubled)
            total = doubled.sum()
            add_one_(doubled)
            add_one_(y)
            return doubled * total + y

        x, y, other = (torch.arange(3.0, device=DEVICE) for _ in range(3))
        got = torch.compile(program, backend="neuron")(x, y)
        assert torch.equal(got.cpu(), program(x, other).cpu())
        assert y.tolist() == other.tolist() == [1.0, 2.0, 3.0]
