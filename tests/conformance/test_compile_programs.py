"""Programs that `torch.compile` must leave as they are: what comes in, what goes out, what is changed on the way, with the `neuron` backend."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.emulated import DEVICE, fresh_dynamo  # noqa: F401  # a fixture

# Dynamo's own look at the program, and PyTorch's own imports.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script.*` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*Function.*should not be instantiated:DeprecationWarning"),
]


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = torch.compile(function, backend="neuron", **options)
    return made


def there(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor.to(DEVICE) for tensor in tensors)


def numbers(*sizes: int) -> Tensor:
    count = torch.Size(sizes).numel()
    return (torch.arange(float(count)) / count - 0.4).reshape(sizes)


def close(got: Any, want: Any) -> None:
    torch.testing.assert_close(got.detach().cpu(), want.detach().cpu(), rtol=1e-4, atol=1e-5)


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


@dataclass
class Pair:
    first: Tensor
    second: Tensor | None = None


Form = Callable[[Tensor], Any]
FORMS: dict[str, Form] = {
    "nothing": lambda x: None,
    "none among results": lambda x: (x + 1, None, 3, "text"),
    "an input": lambda x: (x, x * 2),
    "a result twice": lambda x: (lambda y: (y, y))(x * 2),
    "a dict in its order": lambda x: {"b": x + 1, "a": x * 2, "c": {"d": x.sum()}},
    "an ordered dict": lambda x: OrderedDict(z=x + 1, y=x * 2),
    "a dataclass": lambda x: Pair(x + 1),
    "a named tuple": lambda x: torch.max(x, 0),
    "a list of views": lambda x: list((x * 2).split(1)),
    "a generator's list": lambda x: [x * n for n in range(3)],
    "a scalar": lambda x: (x.shape[0], float(x.dim())),
    "a constant": lambda x: torch.ones(3, device=x.device),
    "a size of zero": lambda x: x[:0] * 2,
    "a complex number": lambda x: torch.view_as_real(torch.complex(x, x * 2)),
    "a detached part": lambda x: ((x * 2).detach(), x.sum()),
}


def _assert_same(got: Any, want: Any) -> None:
    if isinstance(want, Tensor):
        close(got, want)
    elif isinstance(want, Pair):
        _assert_same([got.first, got.second], [want.first, want.second])
    elif isinstance(want, dict):
        assert type(got) is type(want) and list(got) == list(want)
        _assert_same(list(got.values()), list(want.values()))
    elif isinstance(want, (list, tuple)):
        assert type(got) is type(want) and len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            _assert_same(one, other)
    else:
        assert got == want


@pytest.mark.parametrize("function", FORMS.values(), ids=FORMS)
def test_results_have_the_form_they_have_in_eager(function: Form) -> None:
    x = numbers(2, 3)
    _assert_same(compiled(function)(x.to(DEVICE)), function(x))


def test_the_same_result_twice_is_one_tensor_and_an_input_is_itself() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return y, y, x

    x = numbers(3).to(DEVICE)
    one, other, same = compiled(function)(x)
    assert one is other and same is x


def test_keyword_arguments_defaults_and_closures() -> None:
    factor = [2.0]
    captured = numbers(3).to(DEVICE)

    def function(x: Tensor, *rest: Tensor, scale: float = 1.0, **named: Tensor) -> Tensor:
        return sum((*rest, *named.values()), x * scale * factor[0]) + captured

    call = compiled(function)
    (x,) = there(numbers(3))
    for scale in (1.0, 3.0):
        close(call(x, x, scale=scale, b=x, a=x * 2), function(x, x, scale=scale, b=x, a=x * 2))
    factor[0] = 5.0
    close(call(x), function(x))
    captured.add_(1)
    close(call(x), function(x))


Write = Callable[[Tensor], Any]
WRITES: dict[str, Write] = {
    "an element": lambda x: x.__setitem__((0, 1), 7.0),
    "a slice": lambda x: x[:, 1:].mul_(3),
    "a transposed": lambda x: x.t().add_(numbers(3, 2).to(x.device)),
    "a diagonal": lambda x: x.diagonal().zero_(),
    "through two views": lambda x: x.view(-1)[1:4].view(3).neg_(),
    "by a mask": lambda x: x.masked_fill_(x > 0, 9.0),
    "by indices": lambda x: x.index_add_(1, torch.tensor([0, 2], device=x.device), x[:, :2].clone()),
    "copied into": lambda x: x.copy_(x.flip(0)),
    "out of an op": lambda x: torch.add(x, 1, out=x),
    "twice": lambda x: x.add_(1).mul_(x),
    "set to itself": lambda x: x.data.mul_(2),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_to_views_of_inputs_reach_the_inputs(write: Write) -> None:
    def function(x: Tensor) -> Tensor:
        before = x.sum()
        write(x)
        return x * 2 + before

    x = numbers(2, 3)
    y = x.to(DEVICE)
    view = y[1]
    close(compiled(function)(y), function(x))
    close(y, x)
    close(view, x[1])


def _set_and_write(x: Tensor, y: Tensor) -> Tensor:
    y.add_(1)
    x.data = y * 2
    return x * y


def _halve(x: Tensor, y: Tensor) -> Tensor:
    x.data = x.data * 0.5
    return (x * y).sum()


SETS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "beside a write": _set_and_write,
    "of itself": _halve,
    "another size": lambda x, y: (setattr(x, "data", torch.cat([y, y])), x + 1)[1],
    "another dtype": lambda x, y: (setattr(x, "data", y.bfloat16()), x + 1)[1],
    "expanded": lambda x, y: (setattr(x, "data", y[:, None].expand(3, 2)), x + 1)[1],
}


@pytest.mark.parametrize("program", SETS.values(), ids=SETS)
def test_data_is_set(program: Callable[[Tensor, Tensor], Tensor]) -> None:
    x, y = torch.tensor([1.0, 2, 3]), torch.tensor([0.5, 1, 4])
    there_x, there_y = there(x, y)
    close(compiled(program)(there_x, there_y), program(x, y))
    close(there_x, x)
    close(there_y, y)


def test_data_of_a_parameter_is_set() -> None:
    x, y = torch.tensor([1.0, 2, 3], requires_grad=True), torch.tensor([0.5, 1, 4])
    there_x = x.detach().to(DEVICE).requires_grad_()
    call = compiled(_halve)
    for _ in range(2):
        call(there_x, y.to(DEVICE)).backward()
        _halve(x, y).backward()
    close(there_x, x)
    close(there_x.grad, x.grad)


def test_data_that_is_set_is_shared() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.data = y
        return x + 1

    x, y = there(torch.ones(3), torch.zeros(3))
    close(compiled(function)(x, y), torch.ones(3))
    y.add_(5)
    close(x, torch.full((3,), 5.0))


def test_buffers_are_written_in_training_without_gradients_too() -> None:
    layers = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
    other = copy.deepcopy(layers).to(DEVICE)
    call = compiled(other)
    for grad in (True, False, True):
        with torch.set_grad_enabled(grad):
            close(call(numbers(4, 3).to(DEVICE)), layers(numbers(4, 3)))
    for name, buffer in layers.named_buffers():
        close(other.get_buffer(name).float(), buffer.float())


@pytest.mark.parametrize("outside", [True, False])
def test_autocast_inside_and_outside(outside: bool) -> None:
    layers = model().to(DEVICE)

    def function(x: Tensor) -> Tensor:
        if outside:
            return layers(x)  # type: ignore[no-any-return]
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            inner = layers(x)
        return inner.float() * 2  # type: ignore[no-any-return]

    (x,) = there(numbers(3, 4))

    def run(call: Callable[..., Any]) -> tuple[Tensor, Tensor]:
        layers.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=outside):
            out = call(x)
        out.sum().backward()
        assert layers[0].weight.grad is not None
        return out, layers[0].weight.grad.clone()

    got, want = run(compiled(function)), run(function)
    for one, other in zip(got, want, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one.detach().cpu(), other.detach().cpu(), rtol=2e-2, atol=2e-2)


def test_transforms_of_functions() -> None:
    weight = numbers(4, 4)

    def loss(x: Tensor, w: Tensor) -> Tensor:
        return ((x @ w).tanh() ** 2).sum()

    programs: list[Callable[[Tensor, Tensor], Any]] = [
        lambda x, w: torch.func.grad(loss)(x, w),
        lambda x, w: torch.func.vmap(loss, in_dims=(0, None))(x, w),
        lambda x, w: torch.func.vmap(torch.func.grad(loss), in_dims=(0, None))(x, w),
        lambda x, w: torch.func.jvp(lambda y: loss(y, w), (x,), (x * 2,))[1],
        lambda x, w: torch.func.jacrev(lambda y: (y @ w).sin())(x[0]),
        lambda x, w: torch.func.functional_call(nn.Linear(4, 4, device=x.device), {"weight": w, "bias": w[0]}, x),
    ]
    for program in programs:
        close(compiled(program)(*there(numbers(3, 4), weight)), program(numbers(3, 4), weight))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * 10 * x  # not the derivative, so that this very code is seen to run


def test_a_function_with_its_own_backward() -> None:
    x = numbers(4).to(DEVICE).requires_grad_()
    compiled(lambda x: Cube.apply(x).sum())(x).backward()
    assert x.grad is not None
    close(x.grad, numbers(4) * 10)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_recomputes(reentrant: bool) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        part = checkpoint(lambda y: F.dropout((y @ w).sin(), 0.5) * 2, x, use_reentrant=reentrant)
        assert isinstance(part, Tensor)
        return part.sum()

    results = []
    for device, call in ((DEVICE, compiled(function)), ("cpu", function)):
        x, w = (numbers(3, 3).to(device).requires_grad_() for _ in range(2))
        torch.manual_seed(3)
        out = call(x, w)
        out.backward()
        assert x.grad is not None and w.grad is not None
        results.append((out, x.grad, w.grad))
    for got, want in zip(*results, strict=True):
        close(got, want)


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop], ids=lambda o: o.__name__)
def test_a_compiled_optimizer_step(make: Any) -> None:
    ours, other = model().to(DEVICE), model()
    optimizers = make(ours.parameters(), lr=0.1), make(other.parameters(), lr=0.1)
    steps = compiled(lambda: optimizers[0].step()), optimizers[1].step
    for _ in range(3):
        for layers, optimizer, step in zip((ours, other), optimizers, steps, strict=True):
            optimizer.zero_grad()
            layers(numbers(3, 4).to(next(layers.parameters()).device)).square().sum().backward()
            step()
    for p, q in zip(ours.parameters(), other.parameters(), strict=True):
        close(p, q)


def test_copies_pickles_and_state_of_a_compiled_module() -> None:
    layers = model().to(DEVICE)
    call = compiled(layers)
    (x,) = there(numbers(3, 4))
    want = call(x)
    close(copy.deepcopy(call)(x), want)
    assert isinstance(call, nn.Module)
    assert [name.removeprefix("_orig_mod.") for name in call.state_dict()] == list(layers.state_dict())
    fresh = compiled(model().to(DEVICE))
    assert isinstance(fresh, nn.Module)
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.zero_()
    fresh.load_state_dict(call.state_dict())
    close(fresh(x), want)
    kept = io.BytesIO()
    torch.save(call.state_dict(), kept)
    kept.seek(0)
    fresh.load_state_dict(torch.load(kept))
    close(fresh(x), want)
    layers.compile(backend="neuron")
    close(pickle.loads(pickle.dumps(layers))(x), want)


def test_parametrized_and_tied_weights() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(5, 4)
            self.mix = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
            self.head = nn.Linear(4, 5, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.mix(self.embed(ids)))  # type: ignore[no-any-return]

    torch.manual_seed(0)
    layers = Tied()
    other = copy.deepcopy(layers).to(DEVICE)
    ids = torch.tensor([[0, 3, 3]])
    compiled(other)(ids.to(DEVICE)).square().sum().backward()
    layers(ids).square().sum().backward()
    assert other.head.weight is other.embed.weight
    for (name, p), (_, q) in zip(other.named_parameters(), layers.named_parameters(), strict=True):
        assert p.grad is not None and q.grad is not None, name
        close(p.grad, q.grad)


def test_a_default_device_makes_tensors_on_it() -> None:
    with torch.device(DEVICE):
        call = compiled(lambda x: x + torch.arange(3.0) * torch.ones(3))
        assert call(torch.zeros(3)).tolist() == [0.0, 1.0, 2.0]
        assert call(torch.zeros(3)).device.type == DEVICE


def test_inference_mode_and_a_reset_between_calls() -> None:
    layers = model().to(DEVICE)
    call = compiled(layers)
    (x,) = there(numbers(3, 4))
    want = layers(x)
    with torch.inference_mode():
        got = call(x)
        assert got.is_inference()
        close(got, want)
    torch._dynamo.reset()
    close(call(x), want)
    assert call(x).requires_grad


def test_threads_share_a_compiled_program() -> None:
    call = compiled(lambda x, n: (x * n).sin() @ x)
    (x,) = there(numbers(4, 4))
    found: dict[int, Tensor] = {}

    def work(n: int) -> None:
        for _ in range(5):
            found[n] = call(x, n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(1, 5):
        close(found[n], (numbers(4, 4) * n).sin() @ numbers(4, 4))


def test_hooks_on_tensors_and_gradients_accumulate() -> None:
    results = []
    for device, wrap in ((DEVICE, compiled), ("cpu", lambda function: function)):
        layers = model().to(device)
        call = wrap(layers)
        layers[0].weight.register_hook(lambda grad: grad * 2)
        layers[2].register_full_backward_hook(lambda _, inputs, outputs: tuple(g * 3 for g in inputs))
        for _ in range(2):
            call(numbers(3, 4).to(device)).sum().backward()
        results.append([parameter.grad for parameter in layers.parameters()])
    for got, want in zip(*results, strict=True):
        close(got, want)


def test_second_derivatives_are_refused_with_pytorch_s_own_text() -> None:
    x = numbers(3).to(DEVICE).requires_grad_()
    (first,) = torch.autograd.grad(compiled(lambda x: (x**3).sum())(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="aot_autograd does not currently support double backward"):
        first.sum().backward()
