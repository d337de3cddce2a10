"""What `torch.compile` promises, with the `neuron` backend: breaks, guards, aliases, hooks, and TorchNeuron's own manners."""

from __future__ import annotations

import copy
import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from neuron_lab import neff
from neuron_lab.emulator import dispatch
from tests.emulated import DEVICE, fresh_dynamo, output_of  # noqa: F401  # a fixture

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"
    ),  # PyTorch's own import
    pytest.mark.filterwarnings(
        "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
    ),  # Dynamo's look
]


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = torch.compile(function, backend="neuron", **options)
    return made


def captured() -> int:
    """Graphs that Dynamo handed to the backend."""
    return int(counters["stats"]["unique_graphs"])


def test_a_print_breaks_the_graph_and_prints_every_time(capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: Tensor) -> Tensor:
        y = x + 1
        print("between")
        return y * 2

    call = compiled(function)
    for _ in range(2):
        assert call(torch.ones(2, device=DEVICE)).tolist() == [4.0, 4.0]
    assert capsys.readouterr().out == "between\n" * 2
    assert captured() == 2


def test_an_item_breaks_the_graph_and_is_read_anew() -> None:
    def function(x: Tensor) -> Tensor:
        return x * x.sum().item()

    call = compiled(function)
    for value in (1.0, 2.0):
        x = torch.full((3,), value, device=DEVICE)
        assert call(x).tolist() == [3 * value * value] * 3


def test_a_branch_on_data_takes_the_side_of_this_call() -> None:
    def function(x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x - 1

    call = compiled(function)
    assert [call(torch.tensor([v], device=DEVICE)).item() for v in (1.0, -1.0, 2.0)] == [2.0, -2.0, 3.0]


def test_the_compile_road_of_an_eager_op_is_not_traced() -> None:
    def function(x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return torch.compiler.disable(recursive=False)(lambda y: y.atan2(y + 0.123))(x)

    compiled(function)(_ones(7))
    ours = [reason for reason in torch._dynamo.utils.graph_break_reasons if "neuron_lab/emulator" in str(reason)]
    assert not ours


def test_fullgraph_refuses_a_break() -> None:
    def function(x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(function, fullgraph=True)(_ones(2))


def test_fullgraph_takes_an_item_into_the_graph() -> None:
    call = compiled(lambda x: x * x.sum().item(), fullgraph=True)
    assert [call(_ones(2) * n).tolist() for n in (1, 2)] == [[2.0] * 2, [8.0] * 2]


Change = tuple[tuple[Any, ...], tuple[Any, ...]]
CHANGES: dict[str, Callable[[], Change]] = {
    "shape": lambda: ((_ones(2), 1), (_ones(3), 1)),
    "dtype": lambda: ((_ones(2), 1), (_ones(2).half(), 1)),
    "python value": lambda: ((_ones(2), 1), (_ones(2), 5)),
    "requires_grad": lambda: ((_ones(2), 1), (_ones(2).requires_grad_(), 1)),
    "strides": lambda: ((_ones(2, 3), 1), (_ones(3, 2).t(), 1)),
}


def _ones(*sizes: int) -> Tensor:
    return torch.ones(*sizes, device=DEVICE)


@pytest.mark.parametrize("make", CHANGES.values(), ids=CHANGES)
def test_a_guard_that_fails_compiles_once_more(make: Callable[[], Change]) -> None:
    def function(x: Tensor, n: int) -> Tensor:
        return x.sin() * n

    call = compiled(function)
    for count, arguments in enumerate(make(), 1):
        for _ in range(2):
            torch.testing.assert_close(call(*arguments).cpu(), function(arguments[0].cpu(), arguments[1]))
            assert captured() == count


def test_a_module_s_training_flag_is_guarded() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)).to(DEVICE)
    other = copy.deepcopy(model)
    call = compiled(model)
    x = torch.arange(12.0, device=DEVICE).reshape(4, 3)
    for training in (True, False, True):
        model.train(training)
        other.train(training)
        torch.testing.assert_close(call(x).detach().cpu(), other(x).detach().cpu())
        torch.testing.assert_close(model[0].running_mean.cpu(), other[0].running_mean.cpu())
    assert captured() == 2


def test_outputs_alias_what_they_alias_in_eager() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return y, y[0], x, x.t(), y.view(-1)

    x = torch.arange(6.0, device=DEVICE).reshape(2, 3).clone()
    y, row, same, turned, flat = compiled(function)(x)
    assert same is x and turned._base is x
    y.zero_()
    assert row.tolist() == [0.0] * 3 and flat.tolist() == [0.0] * 6
    x.fill_(7)
    assert turned.tolist() == [[7.0, 7.0]] * 3


def test_writes_to_an_input_are_seen_by_its_other_views() -> None:
    def function(x: Tensor, view: Tensor) -> Tensor:
        x.mul_(10)
        return view + 1

    x = torch.arange(4.0, device=DEVICE)
    assert compiled(function)(x, x[1:3]).tolist() == [11.0, 21.0]
    assert x.tolist() == [0.0, 10.0, 20.0, 30.0]


def test_writes_reach_buffers_and_captured_tensors() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            seen.append(x.shape)
            return x * self.calls

    seen: list[torch.Size] = []
    model = Counting().to(DEVICE)
    call = compiled(model)
    assert [call(_ones(1)).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert len(seen) == 3


def test_a_disabled_function_runs_eagerly_between_two_graphs() -> None:
    ran: list[bool] = []

    @torch.compiler.disable
    def eager(x: Tensor) -> Tensor:
        ran.append(torch.compiler.is_compiling())
        return x + 1

    assert compiled(lambda x: eager(x * 2) * 3)(_ones(1)).tolist() == [9.0]
    assert ran == [False] and captured() == 2


def test_hooks_run_where_they_do_in_eager() -> None:
    def run(wrap: Callable[[nn.Module], Callable[..., Any]]) -> tuple[list[str], Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)).to(DEVICE)
        events: list[str] = []
        model[0].register_forward_pre_hook(lambda _, inputs: events.append("before") or (inputs[0] * 2,))  # type: ignore[func-returns-value]
        model[0].register_forward_hook(lambda _, __, output: events.append("after") or output + 1)  # type: ignore[func-returns-value]
        x = _ones(2, 3).requires_grad_()
        x.register_hook(lambda grad: events.append("gradient") or grad * 3)  # type: ignore[func-returns-value]
        call = wrap(model)
        for _ in range(2):
            call(x).sum().backward()
        assert x.grad is not None
        return events, x.grad.cpu()

    events, grad = run(compiled)
    wanted, other = run(lambda model: model)
    assert events == wanted
    torch.testing.assert_close(grad, other)


def test_mark_static_is_accepted_and_mark_dynamic_refused() -> None:
    x = _ones(4, 3)
    torch._dynamo.mark_static(x, 0)
    assert compiled(lambda x: x + 1)(x).tolist() == [[2.0] * 3] * 4
    y = _ones(4, 3)
    torch._dynamo.mark_dynamic(y, 0)
    with pytest.raises(
        Exception, match="Dynamic shapes detected in the model, but torch-neuronx requires static shapes"
    ):
        compiled(lambda x: x + 2)(y)


def test_jagged_tensors_are_refused_and_told_what_to_do() -> None:
    rows = [torch.ones(2, 3, device=DEVICE), torch.ones(4, 3, device=DEVICE)]
    jagged = torch.nested.nested_tensor(rows, layout=torch.jagged)
    with pytest.raises(
        Exception, match=r"requires static shapes\. A jagged tensor .* pass its values\(\) and offsets\(\)"
    ):
        compiled(lambda x: (x * 2).values())(jagged)
    assert compiled(lambda x: x * 2)(jagged.values()).shape == (6, 3)


def test_grad_modes_make_graphs_of_their_own() -> None:
    model = nn.Linear(2, 2).to(DEVICE)
    call = compiled(model)
    x = _ones(1, 2)
    assert call(x).requires_grad
    with torch.no_grad():
        assert not call(x).requires_grad
    with torch.inference_mode():
        assert call(x).is_inference()
    assert compiled(torch.no_grad()(lambda x: model(x)))(x).requires_grad is False


def test_without_a_backend_a_graph_on_the_device_is_ours() -> None:
    call = torch.compile(lambda x: (x * 2).sin())
    assert call(_ones(2)).device.type == DEVICE
    assert counters["neuron"]["compiled_graphs"] == 1
    assert torch.compile(lambda: torch.arange(3, device=DEVICE) + 1)().tolist() == [1, 2, 3]
    assert counters["neuron"]["compiled_graphs"] == 2


def test_without_a_backend_any_other_device_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.compile_fx

    given: list[Any] = []
    monkeypatch.setattr(
        torch._inductor.compile_fx, "compile_fx", lambda gm, inputs, **_: (given.append(gm), gm.forward)[1]
    )
    assert torch.compile(lambda x: x * 2)(torch.ones(2)).tolist() == [2.0, 2.0]
    assert len(given) == 1 and counters["neuron"]["compiled_graphs"] == 0


def test_options_of_inductor_are_warned_of_and_ignored() -> None:
    with pytest.warns(UserWarning, match=r"does not support Inductor's options \(.*max_autotune"):
        assert torch.compile(lambda x: x + 1, mode="max-autotune")(_ones(1)).tolist() == [2.0]


def test_host_inputs_are_refused_when_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled(lambda x: x + 1)(torch.ones(2)).device.type == DEVICE
    monkeypatch.setenv("TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY", "1")
    with pytest.raises(RuntimeError, match="Input tensor at index 0 is on cpu device"):
        compiled(lambda x: x + 2)(torch.ones(2))


def test_artifacts_are_written_on_demand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCH_NEURONX_DEBUG_DIR", str(tmp_path))
    compiled(lambda x: x.sin() + 3)(_ones(5))
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS", "1")
    for _ in range(2):  # the second graph comes from disk
        torch._dynamo.reset()
        compiled(lambda x: x.sin() + 4, options={"model_name": "small"})(_ones(5))
    found = {kind: sorted((tmp_path / kind / "proc_0").iterdir()) for kind in ("fx_graphs", "raw", "stablehlo", "neff")}
    assert [len(files) for files in found.values()] == [2] * 4
    assert all(file.name.startswith("small_") for files in found.values() for file in files)
    assert "aten.sin.default" in found["fx_graphs"][0].read_text()
    assert "torch.aten.sin" in found["raw"][0].read_text()
    assert "stablehlo.sine" in found["stablehlo"][0].read_text()
    with found["neff"][1].open("rb") as file:
        assert neff.parse(file).json("neff.json")["emulated"] is True


def test_artifacts_that_cannot_be_written_fail_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").touch()
    monkeypatch.setenv("TORCH_NEURONX_DEBUG_DIR", str(tmp_path / "taken"))
    monkeypatch.setenv("TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS", "1")
    assert compiled(lambda x: x * 0 + 8)(_ones(5)).tolist() == [8] * 5
    assert f"files that cannot be written to {tmp_path / 'taken'}" in caplog.text


def test_a_name_for_artifacts_leads_out_of_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "debug"
    monkeypatch.setenv("TORCH_NEURONX_DEBUG_DIR", str(folder))
    monkeypatch.setenv("TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS", "1")
    compiled(lambda x: x.sin() + 6, options={"model_name": "../../../out/n"})(_ones(5))
    assert [path.name for path in tmp_path.iterdir()] == ["debug"]
    (file,) = (folder / "neff" / "proc_0").iterdir()
    assert file.name.startswith("_out_n_")


def test_a_long_name_is_cut_for_its_artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_NEURONX_DEBUG_DIR", str(tmp_path))
    monkeypatch.setenv("TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS", "1")
    compiled(lambda x: x.sin() + 7, options={"model_name": "\u00fc" * 3000})(_ones(5))
    (file,) = (tmp_path / "neff" / "proc_0").iterdir()
    assert "\u00fc_0_inference_" in file.name


def test_metrics_tell_every_graph() -> None:
    torch.neuron.reset_dynamo_metrics()
    compiled(lambda x: x.cos() * 5, options={"model_name": "waves"})(_ones(6).requires_grad_()).sum().backward()
    graphs = torch.neuron.get_dynamo_metrics()
    assert [graph.graph_name.rpartition("_")[2] for graph in graphs] == ["forward", "backward"]
    assert {graph.model_name for graph in graphs} == {"waves"}
    assert all(graph.graph_node_count > 0 and dispatch.store().get(graph.graph_id) is not None for graph in graphs)
    torch.neuron.reset_dynamo_metrics()
    assert torch.neuron.get_dynamo_metrics() == []


def test_the_table_of_graphs_is_written_where_the_environment_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TORCH_NEURONX_ENABLED_METRIC_TABLES", "graph_stats")
    monkeypatch.setenv("TORCH_NEURONX_METRICS_DIR", str(tmp_path / "tables"))
    monkeypatch.setenv("RANK", "3")
    torch.neuron.reset_dynamo_metrics()
    for size in (4, 5):
        compiled(lambda x: x.sin() - 9)(_ones(size))
    with open(tmp_path / "tables" / "metric_table_graph_stats_rank3.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    graphs = torch.neuron.get_dynamo_metrics()
    assert [row["graph_id"] for row in rows] == [graph.graph_id for graph in graphs] and len(rows) == 2
    assert float(rows[1]["torch_neuronx_compile_us"]) == graphs[1].torch_neuronx_compile_us
    assert torch._dynamo.utils.compilation_time_metrics["torch_neuronx_lower"][-1] > 0
    monkeypatch.setenv("TORCH_NEURONX_METRICS_DIR", str(tmp_path / "tables" / "metric_table_graph_stats_rank3.csv"))
    compiled(lambda x: x.sin() - 9)(_ones(6))
    assert "cannot be written" in caplog.text


def test_a_nested_compile_and_a_compiled_submodule_agree_with_eager() -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, 1))).to(DEVICE)
    want = model(_ones(3, 2)).detach().cpu()
    model[1] = compiled(model[1])
    torch.testing.assert_close(model(_ones(3, 2)).detach().cpu(), want)
    torch.testing.assert_close(compiled(model)(_ones(3, 2)).detach().cpu(), want)


def test_a_second_process_compiles_nothing() -> None:
    program = (
        "import torch, torch_neuronx\n"
        "f = torch.compile(lambda x: x.tan() * 7, backend='neuron')\n"
        "f(torch.ones(11, device='neuron'))\n"
        "print([m.torch_neuronx_compile_us > 0 for m in torch.neuron.get_dynamo_metrics()])"
    )
    assert output_of(program) == "[True]"
    assert output_of(program) == "[False]"
