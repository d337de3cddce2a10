"""`torch.compile(backend="neuron")` against eager on the same device."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_neuronx
from torch import Tensor, nn

from tests.emulated import DEVICE, fresh_dynamo  # noqa: F401  # a fixture


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = torch.compile(function, backend="neuron", **options)
    return made


def graphs() -> list[str]:
    return [
        entry["op"] for entry in torch_neuronx._C._get_compilation_cache_entries() if entry["op"].startswith("graph::")
    ]


def close(got: Any, want: Any) -> None:
    torch.testing.assert_close(got.detach().cpu(), want.detach().cpu(), rtol=1e-4, atol=1e-5)


def test_forward_and_backward_are_one_neff_each() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).to(DEVICE)
    eager = copy.deepcopy(model)
    x = torch.randn(5, 8, device=DEVICE)
    before = len(graphs())
    got, want = compiled(model)(x), eager(x)
    got.square().sum().backward()
    want.square().sum().backward()
    close(got, want)
    for p, q in zip(model.parameters(), eager.parameters(), strict=True):
        assert p.grad is not None and q.grad is not None
        close(p.grad, q.grad)
    assert len(graphs()) - before == 2


def test_every_shape_has_its_own_graph_and_none_is_dynamic() -> None:
    function = compiled(lambda x: x * 2 + 1)
    for size in (3, 4, 5):
        x = torch.arange(float(size), device=DEVICE)
        close(function(x), x * 2 + 1)


def test_dropout_draws_as_in_eager() -> None:
    def function(x: Tensor) -> Tensor:
        return F.dropout(x * 2, 0.5) + 1

    torch.manual_seed(1)
    got = compiled(function)(torch.ones(50, device=DEVICE))
    torch.manual_seed(1)
    assert torch.equal(got.cpu(), function(torch.ones(50)))


def test_input_mutation_and_views_of_inputs() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x.add_(1)
        return y * x, x.view(-1), y.t()

    x, y = torch.ones(2, 3, device=DEVICE), torch.ones(2, 3, device=DEVICE)
    product, flat, turned = compiled(function)(x, y)
    assert x.tolist() == [[2.0] * 3] * 2
    assert product.tolist() == [[2.0] * 3] * 2
    assert flat.data_ptr() == x.data_ptr()
    assert turned.shape == (3, 2) and turned.data_ptr() == y.data_ptr()


def test_graph_breaks_and_sizes_that_depend_on_data() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        if y.sum() > 0:
            y = y * 2
        return torch.nonzero(y), torch.unique(y)

    x = torch.tensor([1.0, -1.0, 3.0], device=DEVICE)
    for got, want in zip(compiled(function)(x), function(x.cpu()), strict=True):
        assert torch.equal(got.cpu(), want)


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # PyTorch's own import
def test_an_optimizer_step_inside_the_graph() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 2).to(DEVICE)
    eager = copy.deepcopy(model)
    x = torch.randn(3, 4, device=DEVICE)

    def steps(model: nn.Module) -> Callable[[], None]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

        return step

    one, other = compiled(steps(model)), steps(eager)
    for _ in range(3):
        one()
        other()
    close(model.weight, eager.weight)


def test_autocast_and_inference_mode() -> None:
    model = nn.Linear(4, 4).to(DEVICE)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert compiled(model)(torch.ones(2, 4, device=DEVICE)).dtype == torch.bfloat16
    with torch.inference_mode():
        close(compiled(model)(torch.ones(3, 4, device=DEVICE)), model(torch.ones(3, 4, device=DEVICE)))


def test_host_inputs_are_copied() -> None:
    got = compiled(lambda x, y: x + y)(torch.ones(3, device=DEVICE), torch.tensor(2.0))
    assert got.device.type == DEVICE and got.tolist() == [3.0] * 3


def test_results_are_where_the_program_has_them() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        here = (x * 2).cpu()
        written = torch.empty(3).copy_(x)
        return here, here[1:], here.to(DEVICE) + y, torch.arange(3), (x * 3).detach().cpu().double(), written, x + y

    x, y = torch.arange(3.0, device=DEVICE).requires_grad_(), torch.ones(3, device=DEVICE)
    before = len(graphs())
    got, want = compiled(function)(x, y), function(x, y)
    assert len(graphs()) - before == 1
    for one, other in zip(got, want, strict=True):
        assert (one.device, one.dtype, one.requires_grad) == (other.device, other.dtype, other.requires_grad)
        close(one, other)
    assert got[1]._base is not None and got[1].data_ptr() == got[0].data_ptr() + 4
    (got[0].sum() + got[2].sum().cpu()).backward()
    assert x.grad is not None and x.grad.tolist() == [4.0] * 3


def test_results_of_host_inputs_are_on_the_device_unless_the_program_copies() -> None:
    def function(x: Tensor, given: Tensor) -> tuple[Tensor, ...]:
        return (
            given * 2,
            given.max(0).values + torch.ones(()),
            x.cpu() + given,
            x.cpu().max(0).values * given.max(0).values,
        )

    got = compiled(function)(torch.ones(3, device=DEVICE), torch.arange(3.0))
    assert [one.device.type for one in got] == [DEVICE, DEVICE, "cpu", "cpu"]
    assert [one.tolist() for one in got] == [[0.0, 2.0, 4.0], 3.0, [1.0, 2.0, 3.0], 2.0]


def test_gradients_of_host_inputs_are_on_the_host() -> None:
    def function(x: Tensor) -> Tensor:
        return (x * x * 2).sum()

    x = torch.arange(3.0, requires_grad=True)
    compiled(function)(x).backward()
    assert x.grad is not None and x.grad.device.type == "cpu" and x.grad.tolist() == [0.0, 4.0, 8.0]
    number = torch.tensor(3.0, requires_grad=True)
    compiled(lambda s, z: (s * z).sum())(number, torch.ones(2, device=DEVICE)).backward()
    assert number.grad is not None and number.grad.item() == 2.0
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    eager = copy.deepcopy(model)
    x = torch.arange(6.0).reshape(2, 3)
    compiled(model)(x).sum().backward()
    eager(x).sum().backward()
    for p, q in zip(model.parameters(), eager.parameters(), strict=True):
        assert p.grad is not None and q.grad is not None
        close(p.grad, q.grad)
    close(model[1].running_mean, eager[1].running_mean)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # Dynamo's look
def test_a_write_to_a_host_input_is_seen_by_the_program_and_by_autograd() -> None:
    def function(x: Tensor) -> Tensor:
        x.mul_(2)
        return x + 1

    leaf = torch.ones(2, requires_grad=True)
    x = leaf * 3
    got = compiled(function)(x)
    assert got.tolist() == [7.0, 7.0] and x.tolist() == [6.0, 6.0]
    (got.cpu().sum() + x.sum()).backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [12.0, 12.0]


def test_inputs_with_gaps_and_other_cores() -> None:
    function = compiled(lambda x: torch.relu(x) @ x.t())
    x = torch.randn(4, 6, device="neuron:1")[:, ::2]
    got = function(x)
    assert got.device == x.device
    close(got, torch.relu(x) @ x.t())


def test_an_expanded_tensor_is_saved_for_backward() -> None:
    def function(x: Tensor, ids: Tensor) -> Tensor:
        return F.embedding(ids.expand(3, 4), x).sigmoid().square().sum()

    ids = torch.tensor([[0, 1, 1, 2]], device=DEVICE)
    x = torch.arange(6.0, device=DEVICE).reshape(3, 2).requires_grad_()
    compiled(function)(x, ids).backward()
    other = x.detach().requires_grad_()
    function(other, ids).backward()
    assert x.grad is not None and other.grad is not None
    close(x.grad, other.grad)


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "split of a transposed": lambda x: torch.cat((x * 2).t().split(2, 1), 0),
    "sizes of a transposed": lambda x: torch.cat((x * 2).t().split([1, 3], 1), 1),
    "as_strided of a result": lambda x: torch.as_strided(x * 2, (3, 2), (2, 1), 1),
    "as_strided of a transposed": lambda x: torch.as_strided(x.t() * 2, (3, 2), (2, 1), 1),
    "as_strided of a sum of layouts": lambda x: torch.as_strided(x.t() + x.t().contiguous(), (3, 2), (2, 1), 1),
    "view of a permuted": lambda x: (x.reshape(2, 2, 6).permute(1, 0, 2) * 2).contiguous().view(2, -1),
}


@pytest.mark.parametrize("function", VIEWS.values(), ids=VIEWS)
def test_a_view_does_not_cut_the_graph(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.arange(24.0, device=DEVICE).reshape(4, 6)
    before = len(graphs())
    close(compiled(function)(x), function(x.cpu()))
    assert len(graphs()) - before == 1


def test_a_batch_norm_in_evaluation_does_not_cut_the_graph() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.InstanceNorm2d(4)).eval().to(DEVICE)
    x = torch.randn(2, 3, 8, 8, device=DEVICE)
    before = len(graphs())
    with torch.no_grad():
        close(compiled(model)(x), model(x))
    assert len(graphs()) - before == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_rows_that_attend_to_nothing_are_zero(dtype: torch.dtype) -> None:
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    scores = torch.randn(2, 3, 3, dtype=dtype).masked_fill(~mask, -torch.inf)
    scores[0, 0, 0] = torch.nan
    for dim in (-1, 1):
        got = compiled(lambda x, dim=dim: torch.ops.aten._safe_softmax(x, dim) * 2)(scores.to(DEVICE)).cpu()
        torch.testing.assert_close(got, torch.ops.aten._safe_softmax(scores, dim) * 2, equal_nan=True)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "convolution": lambda x: F.conv2d(x, torch.ones(6, 4, 3, 3, device=x.device)),
    "transposed convolution": lambda x: F.conv_transpose2d(x, torch.ones(4, 6, 3, 3, device=x.device)),
    "depthwise convolution": lambda x: F.conv2d(x, torch.ones(4, 1, 3, 3, device=x.device), groups=4),
    "pixel shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "batch norm and pooling": lambda x: F.max_pool2d(F.batch_norm(x, None, None, training=True), 2),
}


@pytest.mark.parametrize("function", LAYOUTS.values(), ids=LAYOUTS)
def test_channels_last_is_kept_as_in_eager(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(2, 4, 8, 8).to(memory_format=torch.channels_last)
    want = function(x)
    got = compiled(function)(x.to(DEVICE))
    close(got, want)
    assert got.stride() == want.stride() == function(x.to(DEVICE)).stride()


def test_dropout_behind_a_channels_last_convolution_draws_as_in_eager() -> None:
    def function(x: Tensor) -> Tensor:
        return F.dropout(F.conv2d(x, torch.ones(3, 4, 1, 1, device=x.device)), 0.5)

    x = torch.randn(2, 4, 5, 5).to(memory_format=torch.channels_last)
    torch.manual_seed(1)
    got = compiled(function)(x.to(DEVICE))
    torch.manual_seed(1)
    close(got, function(x))


def test_graphs_that_differ_in_the_layout_of_a_result_have_neffs_of_their_own() -> None:
    from neuron_lab.emulator._signature import graph_signature

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.ops.aten.neg.default, (x,))
    graph.output((node,))
    module = torch.fx.GraphModule({}, graph)
    texts = set()
    for value in (torch.empty(2, 3), torch.empty(3, 2).t()):
        node.meta["val"] = value
        texts.add(graph_signature(module, [], torch.float32))
    assert len(texts) == 2


def test_as_strided_over_gaps_reads_the_memory_of_the_program() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.as_strided(x[:, ::2], (2, 3), (6, 1)) + 1

    x = torch.arange(24.0, device=DEVICE).reshape(4, 6)
    close(compiled(function)(x), function(x.cpu()))


def test_random_numbers_cut_the_graph_once_each() -> None:
    def function(x: Tensor) -> Tensor:
        return F.dropout(F.dropout(x * 2, 0.5) + 1, 0.5) * 3

    before = len(graphs())
    compiled(function)(torch.ones(4, device=DEVICE))
    assert len(graphs()) - before == 3


def test_dynamic_shapes_are_refused_with_the_text_of_torchneuron() -> None:
    function = torch.compile(lambda x: x + 1, backend="neuron", dynamic=True)
    with pytest.raises(
        Exception, match="Dynamic shapes detected in the model, but torch-neuronx requires static shapes"
    ):
        function(torch.ones(3, device=DEVICE))


def test_a_part_that_does_not_lower_can_be_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "1")
    with pytest.raises(
        Exception, match=r"random numbers are drawn on the host.*TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=1"
    ):
        compiled(lambda x: F.dropout(x, 0.5))(torch.ones(4, device=DEVICE))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * int(x.sum().item()) + 1,
        lambda x: torch.full((3,), x.sum().item(), device=x.device) + x,
        lambda x: x.sum().item(),
        lambda x: (x * 2)[: int(x[1].item())].sin() + 1,
        lambda x: torch.ones(int(x.sum().item()), device=x.device) * 2,
        lambda x: x[x > 0] * 2,
        lambda x: (x.nonzero() + 1, x.cos()),
        lambda x: x.unique().sum() + x,
        lambda x: x.roll(int(x[2].item())),
    ],
)
def test_a_number_or_size_of_the_data_cuts_a_full_graph(function: Callable[[Tensor], Any]) -> None:
    whole = compiled(function, fullgraph=True)
    for values in ([0.0, 1.0, 2.0], [3.0, 2.0, 1.0]):
        x = torch.tensor(values)
        expected, found = function(x), whole(x.to(DEVICE))
        if not isinstance(expected, tuple):
            expected, found = (expected,), (found,)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(torch.as_tensor(one).cpu(), torch.as_tensor(other))


def test_a_size_marked_as_unbacked_is_refused() -> None:
    x = torch.ones(4, 2, device=DEVICE)
    torch._dynamo.decorators.mark_unbacked(x, 0)
    with pytest.raises(Exception, match=r"torch-neuronx requires static shapes\. Remove mark_unbacked"):
        compiled(lambda x: x + 1)(x)


def test_unknown_options_are_warned_of_and_wrong_ones_refused() -> None:
    with pytest.warns(UserWarning, match="does not support the options foo, ignoring them; it has model_name"):
        compiled(lambda x: x + 1, options={"foo": 1, "model_name": "n"})(torch.ones(2, device=DEVICE))
    with pytest.raises(Exception, match="the option model_name is a string, not 5"):
        compiled(lambda x: x + 2, options={"model_name": 5})(torch.ones(2, device=DEVICE))


def test_a_mode_is_warned_of_and_ignored() -> None:
    function = torch.compile(lambda x: x + 1, backend="neuron", mode="max-autotune")
    with pytest.warns(UserWarning, match="Neuron backend does not support mode='max-autotune'"):
        assert function(torch.ones(2, device=DEVICE)).tolist() == [2.0, 2.0]
