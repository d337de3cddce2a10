"""What is not there says what to do instead."""

from __future__ import annotations

import pytest
import torch
import torch_neuronx
from torch import nn

from tests.emulated import DEVICE


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("trace", r'torch.compile\(model, backend="neuron"\)'),
        ("DataParallel", "XLA-based torch-neuronx"),
        ("NeuronProfiler", "%neuron profile"),
        ("nki_op", "PyTorch's ops"),
        ("no_such_name", r"$"),
    ],
)
def test_an_absent_name_is_an_attribute_error_with_a_remedy(name: str, remedy: str) -> None:
    assert not hasattr(torch_neuronx, name)
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'.*{remedy}"):
        getattr(torch_neuronx, name)


@pytest.mark.parametrize("cores", [None, [0, 1]])
def test_data_parallel_is_refused(cores: list[int] | None) -> None:
    spread = nn.DataParallel(nn.Linear(2, 2).to(DEVICE), device_ids=cores)
    with pytest.raises(NotImplementedError, match="one process per core, each with its own NEURON_RT_VISIBLE_CORES"):
        spread(torch.ones(4, 2, device=DEVICE))
