"""What programs ask for that the emulator does not have, in words that say what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

__all__ = ["attribute_error", "install"]

_AHEAD = (
    "is of the XLA-based torch-neuronx (2.9 and older), which compiles a model ahead of time. On the neuron device a model is moved, "
    'model.to("neuron"), and called, or compiled as a whole with torch.compile(model, backend="neuron")'
)
_NAMES = {
    **dict.fromkeys(
        (
            "DataParallel",
            "analyze",
            "async_load",
            "dynamic_batch",
            "experimental",
            "lazy_load",
            "move_trace_to_device",
            "replace_weights",
            "trace",
            "xla_impl",
        ),
        _AHEAD,
    ),
    **dict.fromkeys(
        ("NeuronProfiler", "profiling"),
        "profiles Trainium, which the emulator is not: use %neuron profile, neuron_lab.profile() or torch.profiler",
    ),
    **dict.fromkeys(
        ("nki_op", "wrap_nki"), "runs NKI kernels, which only Trainium can: give the emulator the same in PyTorch's ops"
    ),
}


def attribute_error(name: str) -> AttributeError:
    """For a name that `torch_neuronx` does not have here."""
    text = f"module 'torch_neuronx' has no attribute {name!r}"
    return AttributeError(f"{text}: it {_NAMES[name]}." if name in _NAMES else text, name=name)


def install() -> None:
    """Have what `nn.DataParallel` calls say why it cannot; a PyTorch without CUDA lacks these functions altogether."""
    for name in (
        "_broadcast",
        "_broadcast_coalesced",
        "_broadcast_out",
        "_gather",
        "_gather_out",
        "_scatter",
        "_scatter_out",
    ):
        if not hasattr(torch._C, name):
            setattr(torch._C, name, _refuse_to_spread)


def _refuse_to_spread(*_: Any) -> NoReturn:
    raise NotImplementedError(
        "nn.DataParallel and torch.nn.parallel.comm spread work over CUDA devices only. Use the module without it, on one core, or one "
        "process per core, each with its own NEURON_RT_VISIBLE_CORES."
    )
