"""What `torch.compile(backend="neuron")` compiled (TorchNeuron's April 2026 snapshot, neuron_dynamo_backend/metrics.py)."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from neuron_lab.emulator import clock, events

__all__ = ["NeuronCompilationMetrics", "get_dynamo_metrics", "reset_dynamo_metrics"]

_NAME = re.compile(r"(?P<model>.*?)_\d+_(forward|backward|inference)")


@dataclass(frozen=True, slots=True)
class NeuronCompilationMetrics:
    """One graph. `timestamp` is in seconds since 1970, of the start; the last three in microseconds, 0 when it came from disk."""

    graph_id: str
    graph_name: str
    model_name: str
    has_collectives: bool
    graph_node_count: int
    timestamp: float
    torch_neuronx_fx_passes_us: float
    torch_neuronx_lower_us: float
    torch_neuronx_compile_us: float


_since_ns = 0


def get_dynamo_metrics() -> list[NeuronCompilationMetrics]:
    """The graphs compiled by this process since the last reset, oldest first."""
    return [
        _metrics(event)
        for event in events.history()
        if event.signature.startswith("graph(") and event.start_ns >= _since_ns
    ]


def reset_dynamo_metrics() -> None:
    """Forget them."""
    global _since_ns
    _since_ns = clock.now_ns()


def _metrics(event: events.Compile) -> NeuronCompilationMetrics:
    name = event.op.removeprefix("graph::")
    named = _NAME.match(name)
    _, _, graph = event.signature.partition("\n")
    made = event.source == "compiled"
    return NeuronCompilationMetrics(
        graph_id=event.neff,
        graph_name=name,
        model_name=named["model"] if named else name,
        has_collectives=False,
        graph_node_count=sum(line.startswith("    ") for line in graph.splitlines()),
        timestamp=time.time() - (clock.now_ns() - event.start_ns) / 1e9,
        torch_neuronx_fx_passes_us=event.trace_ns / 1e3 if made else 0.0,
        torch_neuronx_lower_us=event.lower_ns / 1e3 if made else 0.0,
        torch_neuronx_compile_us=event.compile_ns / 1e3 if made else 0.0,
    )
