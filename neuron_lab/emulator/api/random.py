"""Random state of the device: it is the CPU's, so that `torch.manual_seed` gives the CPU's numbers (TorchNeuron's `normal_`,
`uniform_` and the like continue the CPU's stream too)."""

from __future__ import annotations

from typing import Any

import torch

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def manual_seed(seed: int) -> None:
    """Seed the stream that the host and every core share."""
    torch.default_generator.manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """The same as `manual_seed`: there is one stream."""
    manual_seed(seed)


def seed() -> None:
    """Seed the shared stream from the system's entropy."""
    torch.default_generator.seed()


def seed_all() -> None:
    """The same as `seed`."""
    seed()


def initial_seed() -> int:
    """The seed of the shared stream."""
    return int(torch.default_generator.initial_seed())


def get_rng_state(device: Any = "neuron") -> torch.Tensor:
    """The shared stream's state, a CPU byte tensor: the CPU generator's 5,056 bytes, where TorchNeuron's has 16 (seed and offset)."""
    return torch.default_generator.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "neuron") -> None:
    """Set the shared stream's state."""
    torch.default_generator.set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """One state for each core; all are the shared one."""
    from neuron_lab.emulator.api import neuron

    return [get_rng_state() for _ in range(neuron.device_count())]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Set the shared stream from a list as `get_rng_state_all` gives it."""
    for state in new_states:
        set_rng_state(state)
