"""What `torch.compile(backend="neuron")` compiled (TorchNeuron's April 2026 snapshot, neuron_dynamo_backend/metrics.py)."""

from __future__ import annotations

import csv
import logging
import os
import re
import tempfile
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from neuron_lab.emulator import clock, events

__all__ = ["NeuronCompilationMetrics", "get_dynamo_metrics", "reset_dynamo_metrics"]

_log = logging.getLogger(__name__)
_TABLES, _TABLES_DIR = "TORCH_NEURONX_ENABLED_METRIC_TABLES", "TORCH_NEURONX_METRICS_DIR"
_STAGES = ("torch_neuronx_fx_passes", "torch_neuronx_lower", "torch_neuronx_compile")
_NAME = re.compile(r"(?P<model>.*)_\d+_(forward|backward|inference)(_\d+)?")


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
    named = _NAME.fullmatch(name)
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


def _observe(event: events.Compile, executable_bytes: int) -> None:
    """Tell Dynamo's own tables about a graph, and write its row where the environment asks for the table."""
    if not event.signature.startswith("graph("):
        return
    from torch._dynamo.utils import compilation_time_metrics

    graph = _metrics(event)
    for stage in _STAGES:
        compilation_time_metrics.setdefault(stage, []).append(getattr(graph, f"{stage}_us") / 1e6)
    if "graph_stats" in os.environ.get(_TABLES, "").split(","):
        _write(graph)


def _write(graph: NeuronCompilationMetrics) -> None:
    """One more row of this rank's table. A table that cannot be written fails no program."""
    folder = Path(os.environ.get(_TABLES_DIR) or tempfile.gettempdir())
    path = folder / f"metric_table_graph_stats_rank{os.environ.get('RANK', '0')}.csv"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(path, "a", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, [item.name for item in fields(NeuronCompilationMetrics)])
            if file.tell() == 0:
                table.writeheader()
            table.writerow(asdict(graph))
    except OSError as error:
        _log.warning("%s asks for a table that cannot be written to %s: %s", _TABLES, path, error)


events.observers.append(_observe)
