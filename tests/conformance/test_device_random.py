"""Random numbers on the device are the CPU's: one stream for host and cores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.conformance._both import Program, assert_agrees, programs
from tests.emulated import DEVICE


@pytest.fixture(autouse=True)
def stream() -> Iterator[None]:
    """Gives the next test the stream as it was."""
    with torch.random.fork_rng(devices=[]):
        yield


DRAWS: dict[str, Program] = {
    "randn": lambda d: torch.randn(5, device=d),
    "rand": lambda d: torch.rand(3, 3, device=d),
    "randint": lambda d: torch.randint(0, 10, (7,), device=d),
    "randperm": lambda d: torch.randperm(9, device=d),
    "rand in float64": lambda d: torch.rand(4, dtype=torch.float64, device=d),
    "randn in bfloat16": lambda d: torch.randn(16, dtype=torch.bfloat16, device=d),
    "randn of complex numbers": lambda d: torch.randn(3, dtype=torch.complex64, device=d),
    "randn_like": lambda d: torch.randn_like(torch.ones(3, 2, device=d).t()),
    "rand_like": lambda d: torch.rand_like(torch.ones(3, device=d)),
    "randint_like": lambda d: torch.randint_like(torch.ones(3, device=d), 5),
    "bernoulli": lambda d: torch.bernoulli(torch.full((5,), 0.5, device=d)),
    "bernoulli_": lambda d: torch.empty(5, device=d).bernoulli_(0.3),
    "multinomial": lambda d: torch.multinomial(torch.ones(6, device=d), 3),
    "normal": lambda d: torch.normal(torch.zeros(3, device=d), 1.0),
    "normal of two tensors": lambda d: torch.normal(torch.zeros(3, device=d), torch.ones(3, device=d)),
    "normal_": lambda d: torch.empty(3, device=d).normal_(1, 2),
    "normal_ in steps": lambda d: torch.zeros(6, device=d)[::2].normal_(),
    "uniform_": lambda d: torch.empty(3, 3, device=d).uniform_(-1, 1),
    "exponential_": lambda d: torch.empty(4, device=d).exponential_(),
    "cauchy_": lambda d: torch.empty(4, device=d).cauchy_(),
    "log_normal_": lambda d: torch.empty(4, device=d).log_normal_(),
    "geometric_": lambda d: torch.empty(4, device=d).geometric_(0.5),
    "random_": lambda d: torch.empty(4, device=d).random_(10),
    "poisson": lambda d: torch.poisson(torch.full((4,), 3.0, device=d)),
    "dropout": lambda d: F.dropout(torch.ones(30, device=d), 0.3),
    "dropout of the transposed": lambda d: F.dropout(torch.ones(4, 6, device=d).t(), 0.5),
    "dropout in place": lambda d: F.dropout(torch.ones(30, device=d), 0.3, inplace=True),
    "dropout that keeps all": lambda d: F.dropout(torch.ones(5, device=d), 0.0),
    "dropout that keeps none": lambda d: F.dropout(torch.ones(5, device=d), 1.0),
    "dropout1d": lambda d: F.dropout1d(torch.ones(2, 3, 4, device=d)),
    "dropout2d": lambda d: F.dropout2d(torch.ones(2, 3, 4, 4, device=d)),
    "alpha_dropout": lambda d: F.alpha_dropout(torch.ones(9, device=d), 0.2),
    "rrelu": lambda d: F.rrelu(torch.full((5,), -1.0, device=d), training=True),
    "gumbel_softmax": lambda d: F.gumbel_softmax(torch.zeros(4, device=d)),
    "kaiming_normal_": lambda d: nn.init.kaiming_normal_(torch.empty(3, 3, device=d)),
    "orthogonal_": lambda d: nn.init.orthogonal_(torch.empty(3, 3, device=d)),
    "trunc_normal_": lambda d: nn.init.trunc_normal_(torch.empty(5, device=d)),
    "module": lambda d: list(nn.Linear(2, 3, device=d).state_dict().values()),
    "distribution": lambda d: torch.distributions.Normal(torch.zeros(2, device=d), torch.ones(2, device=d)).sample(
        (3,)
    ),
    "one after another": lambda d: [torch.randn(3, device=d), torch.rand(2, device=d), torch.randn(3)],
}


@programs(DRAWS)
def test_the_device_draws_what_the_cpu_draws(program: Program) -> None:
    assert_agrees(program, rtol=1e-5, atol=1e-6)


@programs(DRAWS)
def test_drawing_moves_the_stream_as_on_the_cpu(program: Program) -> None:
    assert_agrees(lambda d: [program(d), torch.rand(2)][-1])


@pytest.mark.parametrize("core", range(4))
def test_every_core_draws_from_the_same_stream(core: int) -> None:
    torch.manual_seed(1)
    expected = torch.randn(3)
    torch.manual_seed(1)
    assert torch.equal(torch.randn(3, device=f"neuron:{core}").cpu(), expected)


def test_a_generator_of_the_device_has_a_stream_of_its_own() -> None:
    before = torch.get_rng_state()
    drawn = torch.randn(4, generator=torch.Generator(device=DEVICE).manual_seed(5), device=DEVICE)
    assert torch.equal(drawn.cpu(), torch.randn(4, generator=torch.Generator().manual_seed(5)))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_state_of_a_generator_moves_to_another() -> None:
    one, other = torch.Generator(device=DEVICE).manual_seed(5), torch.Generator(device=DEVICE)
    torch.rand(3, generator=one, device=DEVICE)
    other.set_state(one.get_state())
    assert torch.equal(torch.rand(4, generator=one, device=DEVICE), torch.rand(4, generator=other, device=DEVICE))


def test_a_generator_knows_its_seed_and_core() -> None:
    generator = torch.Generator(device="neuron:2").manual_seed(7)
    assert generator.initial_seed() == 7 and generator.device == torch.device("neuron:2")


def test_a_cloned_generator_draws_the_same() -> None:
    generator = torch.Generator(device=DEVICE).manual_seed(5)
    clone = generator.clone_state()
    assert torch.equal(torch.rand(4, generator=generator, device=DEVICE), torch.rand(4, generator=clone, device=DEVICE))


def test_fork_rng_puts_the_stream_back() -> None:
    torch.manual_seed(3)
    expected = torch.randn(3)
    torch.manual_seed(3)
    with torch.random.fork_rng(devices=[0], device_type=DEVICE):
        torch.randn(3, device=DEVICE)
    assert torch.equal(torch.randn(3, device=DEVICE).cpu(), expected)


def test_the_state_of_the_device_is_put_back() -> None:
    state = torch.neuron.get_rng_state()
    first = torch.randn(3, device=DEVICE)
    torch.neuron.set_rng_state(state)
    assert torch.equal(torch.randn(3, device=DEVICE), first)


def test_there_is_one_state_for_each_core() -> None:
    states = torch.neuron.get_rng_state_all()
    first = torch.randn(3, device=DEVICE)
    torch.neuron.set_rng_state_all(states)
    assert len(states) == 4 and torch.equal(torch.randn(3, device=DEVICE), first)


@pytest.mark.parametrize("seed", [torch.neuron.manual_seed, torch.neuron.manual_seed_all, torch.manual_seed])
def test_every_way_to_seed_seeds_the_device(seed: object) -> None:
    assert callable(seed)
    seed(11)
    assert torch.neuron.initial_seed() == 11
    first = torch.randn(3, device=DEVICE)
    seed(11)
    assert torch.equal(torch.randn(3, device=DEVICE), first)


@pytest.mark.parametrize("seed", [torch.neuron.seed, torch.neuron.seed_all])
def test_a_seed_from_entropy_is_another_one(seed: object) -> None:
    assert callable(seed)
    torch.neuron.manual_seed(11)
    seed()
    assert torch.neuron.initial_seed() != 11


def test_dropout_is_scaled_in_its_backward() -> None:
    def program(device: str) -> list[torch.Tensor | None]:
        x = torch.ones(20, device=device, requires_grad=True)
        y = F.dropout(x, 0.25)
        y.sum().backward()
        return [y, x.grad]

    assert_agrees(program)
