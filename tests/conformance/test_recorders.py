"""The generic recorder, which sees what any PyTorch program can see, gives the table that the emulator's own hook gives."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_neuronx
from torch import Tensor, nn

from neuron_lab.device import Hook, generic
from neuron_lab.emulator import events
from tests.emulated import DEVICE


class Attention(nn.Module):
    """A block as GPT-2's, of width 8 with 2 heads."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, 2, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(16, 8), nn.Embedding(6, 8)
        self.blocks = nn.Sequential(Attention(), Attention())
        self.head = nn.Linear(8, 16)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.head(self.blocks(self.tokens(ids) + self.places(places))).flatten(0, 1)


def mlp_with_adamw() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(DEVICE)
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(3):
        x, y = torch.randn(6, 4).to(DEVICE), torch.randint(0, 2, (6,)).to(DEVICE)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        assert loss.item() > 0


def gpt_with_sgd() -> None:
    net = Gpt().to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    ids = torch.randint(0, 16, (2, 6)).to(DEVICE)
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(net(ids), ids.flatten()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()


def cnn_with_batch_norm() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    )
    net.to(DEVICE)
    x = torch.randn(2, 3, 8, 8, device=DEVICE)
    net(x).sum().backward()
    net.eval()
    with torch.no_grad():
        net(x)


def indexing() -> None:
    x = torch.arange(24.0).view(4, 6).to(DEVICE)
    x[1], x[:, 2] = 0.0, x[:, 3]
    rows = torch.tensor([0, 3]).to(DEVICE)
    x[rows], x[x > 3], x.gather(1, rows[None, :]), x[None, ..., ::2].clone()
    x[x > 20] = -1.0
    x.index_add_(0, rows, torch.ones(2, 6, device=DEVICE))
    torch.nonzero(x), torch.masked_select(x, x > 0), x.topk(2)


def in_place_and_out() -> None:
    x, y = torch.ones(3, 4, device=DEVICE), torch.full((3, 4), 2.0, device=DEVICE)
    x.add_(y).mul_(2).clamp_(max=5)
    out = torch.empty(0, device=DEVICE)
    torch.add(x, y, out=out)
    torch.mm(x, y.t(), out=torch.empty(0, device=DEVICE))
    out.zero_().fill_(3).copy_(out)


def views_and_layouts() -> None:
    x = torch.randn(4, 6, device=DEVICE)
    x.t().contiguous(), x.view(2, 12)[:, ::3] + 1, x.expand(2, 4, 6).sum(0), x.unfold(0, 2, 1) * 2
    x.permute(1, 0).reshape(24), torch.cat([x, x[:2]]), torch.stack([x, x]), x.split(2)[1].exp()
    x.detach().t_(), x.requires_grad_().transpose(0, 1).sum().backward()


def fallbacks() -> None:
    x = torch.randn(3, 3, device=DEVICE)
    torch.linalg.svd(x), torch.linalg.eig(x), torch.unique(x), torch.linalg.svd(x)
    torch.rand(3, device=DEVICE), torch.randperm(4, device=DEVICE), x.bernoulli(0.5)


def casts_and_copies() -> None:
    x = torch.arange(6).to(DEVICE)
    x.double(), x.to(torch.bfloat16).float(), x.bool(), x.to(torch.int32).cpu(), x.cpu().to(DEVICE), x.tolist()
    y = torch.zeros(6, device=DEVICE)
    (
        y.copy_(torch.ones(6)),
        y.copy_(x),
        torch.empty(6).copy_(y),
        y.clone(),
        y[::2].cpu(),
        torch.zeros_like(y),
        torch.ones(2, 2, device=DEVICE),
        y.new_full((3,), 7.0),
    )


def host_values() -> None:
    x = torch.arange(4.0, device=DEVICE)
    assert x.sum().item() == 6 and bool(x.max() > 2) and int(x[1]) == 1 and x.mean().cpu().numpy() == 1.5
    assert torch.equal(x, x) and torch.allclose(x, x + 1e-9)


def ragged_last_batch() -> None:
    net = nn.Linear(3, 2).to(DEVICE)
    for batch in torch.randn(10, 3).to(DEVICE).split(4):
        net(batch).sum().backward()


def no_grad_and_inference() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.GELU()).to(DEVICE)
    x = torch.randn(2, 3, device=DEVICE)
    with torch.no_grad():
        net(x)
    with torch.inference_mode():
        net(x).softmax(-1)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        net(x).sum()


def empties() -> None:
    x = torch.empty(0, 3, device=DEVICE)
    x + 1, x.sum(), torch.cat([x, torch.ones(1, 3, device=DEVICE)]), x.cpu(), x.t() @ x, x.clone(), x.double()


def errors() -> None:
    x = torch.ones(2, 3, device=DEVICE)
    for fail in (lambda: x @ x, lambda: x[torch.tensor([5]).to(DEVICE)], lambda: torch.linalg.cholesky(-x[:, :2])):
        with pytest.raises((RuntimeError, IndexError)):
            fail()
    x.exp()


def complex_numbers() -> None:
    x = torch.tensor([1 + 2j, 3 - 1j]).to(DEVICE)
    x.conj() * x, x.conj().cpu(), x.abs(), torch.view_as_real(x).sum(), x.imag + 1


def compiled() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).to(DEVICE)
    torch._dynamo.reset()
    fast = torch.compile(net, backend="neuron")
    x = torch.randn(3, 4, device=DEVICE)
    for _ in range(2):
        fast(x).square().mean().backward()
    with torch.no_grad():
        fast(x), fast(x[:2])


def with_a_graph_break(x: Tensor) -> Tensor:
    y = x.sin()
    torch._dynamo.graph_break()

    return y * 2


def compiled_in_two() -> None:
    torch._dynamo.reset()
    fast = torch.compile(with_a_graph_break, backend="neuron")
    for size in (3, 3, 4):
        fast(torch.ones(size, device=DEVICE))


def checkpointed_and_custom() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 2

    net = nn.Linear(3, 3).to(DEVICE)
    x = torch.randn(2, 3, device=DEVICE, requires_grad=True)
    Twice.apply(torch.utils.checkpoint.checkpoint(lambda v: net(v).relu(), x, use_reentrant=False)).sum().backward()
    torch.func.vmap(lambda row: row.sin().sum())(x)
    torch.func.grad(lambda v: v.square().sum())(x)


PROGRAMS: tuple[Callable[[], None], ...] = (
    mlp_with_adamw,
    gpt_with_sgd,
    cnn_with_batch_norm,
    indexing,
    in_place_and_out,
    views_and_layouts,
    fallbacks,
    casts_and_copies,
    host_values,
    ragged_last_batch,
    no_grad_and_inference,
    empties,
    errors,
    complex_numbers,
    compiled,
    compiled_in_two,
    checkpointed_and_custom,
)


@dataclasses.dataclass(frozen=True)
class Table:
    """What both recorders must agree on: sums over the rows of a log."""

    ops: Counter[tuple[Any, ...]]
    cold: Counter[tuple[Any, ...]]
    bytes: Counter[tuple[Any, ...]]
    compiles: Counter[tuple[Any, ...]]
    fallbacks: Counter[tuple[Any, ...]]
    copies: Counter[tuple[Any, ...]]
    copied: Counter[tuple[Any, ...]]
    syncs: int


# What PyTorch runs instead while a dispatch mode is on; NEFF and compiles are then others. By program, so that no other is let off.
SWAPPED = {gpt_with_sgd: dict.fromkeys(("aten::add.Tensor", "aten::add_.Tensor"), "addition")}


def table(log: Any, name: Callable[[str], str], swapped: Mapping[str, str]) -> Table:
    found = Table(Counter(), Counter(), Counter(), Counter(), Counter(), Counter(), Counter(), log.syncs)
    for op, kind, neff, core, calls, cold, _total_ns, _device_ns, nbytes, *by in log.totals:
        if op in swapped:
            found.ops[swapped[op], kind, core, *by] += calls
            continue
        key = (name(op), kind, neff, core, *by)
        found.ops[key] += calls
        found.cold[key] += cold
        if op != "aten::native_batch_norm":  # its schema does not tell that it writes the running statistics
            found.bytes[key] += nbytes
    for op, neff, source, *_ in log.compiles:
        if op not in swapped:
            found.compiles[name(op), neff, source] += 1
    for op, _reason, calls, _ in log.fallbacks:
        found.fallbacks[op] += calls
    for direction, calls, _, nbytes, *by in log.copy_totals:
        found.copies[direction, *by] += calls
        found.copied[direction, *by] += nbytes
    return found


def raw(program: Callable[[], object], session: Hook) -> Any:
    session.start()
    try:
        program()
    finally:
        log = session.stop()
    return log


def recorded(program: Callable[[], None], session: Hook) -> Table:
    torch.manual_seed(0)
    log = raw(program, session)
    numbers: dict[str, int] = {}  # of the graphs, in the order of their compiling

    def name(op: str) -> str:
        if not op.startswith("graph::"):
            return op
        number, _, kind = op.rpartition("_")
        return f"{numbers.setdefault(number, len(numbers))} {kind}"

    for op in sorted({row[0] for row in log.totals}, key=lambda op: (len(op), op)):
        name(op)
    return table(log, name, SWAPPED.get(program, {}))


@pytest.mark.parametrize("program", PROGRAMS)
def test_both_recorders_give_the_same_table(program: Callable[[], None]) -> None:
    """Cold, then warm, each time from the same state of the cache."""
    tables = []
    for make in (events.hook, generic.hook):
        torch_neuronx._C._clear_compilation_cache()
        torch_neuronx.clear_op_tracking()
        tables.append((recorded(program, make()), recorded(program, make())))
    for fast, slow in zip(*tables, strict=True):
        for field in dataclasses.fields(Table):
            assert getattr(slow, field.name) == getattr(fast, field.name), field.name


def counts(log: Any) -> tuple[Counter[str], Counter[str]]:
    """Calls by op and copies by direction."""
    ops: Counter[str] = Counter()
    copies: Counter[str] = Counter()
    for row in log.totals:
        ops[row[0]] += row[4]
    for row in log.copy_totals:
        copies[row[0]] += row[1]
    return ops, copies


def difference(program: Callable[[], object]) -> tuple[Counter[str], Counter[str], Counter[str], Counter[str]]:
    """Ops and copies that only the fast hook has, and those that only the generic recorder has."""
    (ops, copies), (other_ops, other_copies) = (counts(raw(program, make())) for make in (events.hook, generic.hook))
    return ops - other_ops, copies - other_copies, other_ops - ops, other_copies - copies


def test_what_pytorch_hides_from_every_mode() -> None:
    x = torch.ones(3, device=DEVICE)
    assert difference(lambda: torch.tensor([1.0, 2.0], device=DEVICE)) == ({}, {"h2d": 1}, {}, {})
    hidden, copies, *only_generic = difference(lambda: repr(x))
    assert hidden and copies == {"d2h": copies["d2h"]} and only_generic == [{}, {}]


def test_what_pytorch_runs_instead_while_a_mode_is_on() -> None:
    x = torch.ones(2, 2, device=DEVICE)
    assert difference(lambda: torch.linalg.eigvals(x)) == (
        {"aten::_linalg_eigvals": 1},
        {},
        {"aten::linalg_eig": 1},
        {},
    )
    w = torch.ones(2, 2, device=DEVICE, requires_grad=True)

    def sums_three_gradients() -> None:
        w.grad = None
        (w.exp() + w.sin() + w.cos()).sum().backward()

    assert difference(sums_three_gradients) == ({"aten::add_.Tensor": 2}, {}, {"aten::add.Tensor": 2}, {})


def test_what_a_kernel_copies_inside_itself() -> None:
    x = torch.ones(8, device=DEVICE)
    assert difference(lambda: F.dropout(x)) == ({}, {"h2d": 1}, {}, {})


@torch.library.custom_op("neuron_lab_tests::doubled_exp", mutates_args=())
def doubled_exp(x: Tensor) -> Tensor:
    return x.exp() * 2.0


def test_an_op_of_a_library_is_seen_by_its_parts() -> None:
    x = torch.ones(3, device=DEVICE)
    log = raw(lambda: doubled_exp(x), generic.hook())
    assert counts(log)[0] == {"aten::exp": 1, "aten::mul.Tensor": 1}
    assert difference(lambda: doubled_exp(x)) == ({}, {}, {}, {})
