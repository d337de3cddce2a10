"""Random programs: chains of ops, views and in-place updates over a few tensors, run on the CPU and on the device in step.

A chain is data, (step name, four small numbers) each; what the numbers mean depends on the tensors at hand, so every chain is a
program and a smaller chain is one too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

Numbers: TypeAlias = tuple[int, int, int, int]
Chain: TypeAlias = Sequence[tuple[str, Numbers]]
Make: TypeAlias = Callable[[Tensor, Tensor, Numbers], Any]
"""What a step does with one tensor, another one, and its numbers."""

DTYPES = (
    torch.float32,
    torch.int64,
    torch.bool,
    torch.float64,
    torch.bfloat16,
    torch.int32,
    torch.uint8,
    torch.float16,
)
SIZES = ((2, 3), (3,), (), (3, 2), (1, 3), (2, 3, 2), (4,), (0, 3), (1, 2, 1, 3, 1), (3, 3))
KEPT = 6
LARGEST = 200


def start(numbers: Numbers) -> Tensor:
    """A tensor on the CPU: small whole values, so that most of what follows is exact."""
    size, dtype, step, first = numbers
    sizes = SIZES[size % len(SIZES)]
    count = torch.Size(sizes).numel()
    values = (torch.arange(count) * (step + 1) + first) % 7 - 2
    return values.to(DTYPES[dtype % len(DTYPES)]).reshape(sizes)


def _dim(x: Tensor, n: int) -> int:
    return n % max(x.dim(), 1) - (n % 2) * max(x.dim(), 1)


def _index(x: Tensor, n: Numbers, dim: int) -> Tensor:
    size = max(x.size(dim) if x.dim() else 1, 1)
    return torch.tensor([n[1] % size, n[2] % size, n[1] % size], device=x.device)


def _number(n: int) -> Any:
    return (0, 1, 2, -1, 0.5, True, 3, -2.5)[n % 8]


def _as(x: Tensor, y: Tensor) -> Tensor:
    """`y` made of the elements of `x`'s shape, for what must match exactly."""
    flat = y.flatten()
    return flat[:1].expand(x.shape).to(x.dtype) if flat.numel() else torch.zeros_like(x)


def _slice(x: Tensor, n: Numbers) -> Tensor:
    size = x.size(_dim(x, n[0]))
    begin = n[1] % (size + 1)
    return x.narrow(_dim(x, n[0]), begin, (size - begin) * (n[2] % 2) or min(1, size - begin))


VIEWS: dict[str, Make] = {
    "transpose": lambda x, y, n: x.transpose(_dim(x, n[0]), _dim(x, n[1])),
    "permute": lambda x, y, n: x.permute(*torch.arange(x.dim()).roll(n[0]).tolist()),
    "select": lambda x, y, n: x.select(_dim(x, n[0]), n[1] % 3 - n[2] % 2),
    "slice": lambda x, y, n: _slice(x, n),
    "step": lambda x, y, n: x[n[0] % 3 :: n[1] % 2 + 1],
    "ellipsis": lambda x, y, n: x[..., n[0] % 2 :],
    "new axis": lambda x, y, n: x[:, None] if n[0] % 2 else x[None],
    "unsqueeze": lambda x, y, n: x.unsqueeze(_dim(x, n[0])),
    "squeeze": lambda x, y, n: x.squeeze(_dim(x, n[0])) if n[1] % 2 else x.squeeze(),
    "expand": lambda x, y, n: x.expand(n[0] % 3 + 1, *x.shape),
    "broadcast": lambda x, y, n: x.broadcast_to(torch.broadcast_shapes(x.shape, y.shape)),
    "view": lambda x, y, n: x.view(-1) if n[0] % 2 else x.view(x.shape[::-1]),
    "reshape": lambda x, y, n: x.reshape(-1, *((x.size(-1),) if x.dim() else ())),
    "flatten": lambda x, y, n: x.flatten(),
    "diagonal": lambda x, y, n: x.diagonal(n[0] % 3 - 1, _dim(x, n[1]), _dim(x, n[1] + 1)),
    "unfold": lambda x, y, n: x.unfold(_dim(x, n[0]), n[1] % 2 + 1, n[2] % 2 + 1),
    "split": lambda x, y, n: x.split(n[0] % 2 + 1, _dim(x, n[1]))[-1],
    "chunk": lambda x, y, n: x.chunk(2, _dim(x, n[0]))[-1],
    "unbind": lambda x, y, n: x.unbind(_dim(x, n[0]))[-1],
    "movedim": lambda x, y, n: x.movedim(_dim(x, n[0]), _dim(x, n[1])),
    "detach": lambda x, y, n: x.detach(),
    "alias": lambda x, y, n: x.view_as(x),
    "as_strided": lambda x, y, n: x.as_strided((2, 2), (1, n[0] % 2), x.storage_offset()),
    "bytes": lambda x, y, n: x if x.dtype == torch.bool else x.view(torch.uint8),
    "bits": lambda x, y, n: x.view(torch.int32),
}

FRESH: dict[str, Make] = {
    "add": lambda x, y, n: x + y,
    "add number": lambda x, y, n: x + _number(n[0]),
    "alpha": lambda x, y, n: torch.add(x, y, alpha=n[0] % 4),
    "subtract": lambda x, y, n: x - y,
    "from number": lambda x, y, n: _number(n[0]) - x,
    "multiply": lambda x, y, n: x * y,
    "multiply number": lambda x, y, n: x * _number(n[0]),
    "divide": lambda x, y, n: x / y,
    "floor divide": lambda x, y, n: x // y,
    "floor divide number": lambda x, y, n: x // (_number(n[0]) or 2),
    "remainder": lambda x, y, n: x % (_number(n[0]) or 3),
    "fmod": lambda x, y, n: torch.fmod(x, 2),
    "power": lambda x, y, n: x ** (n[0] % 4),
    "maximum": lambda x, y, n: torch.maximum(x, y),
    "minimum": lambda x, y, n: torch.minimum(x, y),
    "less": lambda x, y, n: x < y,
    "equal": lambda x, y, n: x == y,
    "and": lambda x, y, n: x & y,
    "xor": lambda x, y, n: x ^ y,
    "not": lambda x, y, n: ~x,
    "logical or": lambda x, y, n: torch.logical_or(x, y),
    "shift": lambda x, y, n: x << (n[0] % 3),
    "negative": lambda x, y, n: -x,
    "absolute": lambda x, y, n: x.abs(),
    "sign": lambda x, y, n: x.sign(),
    "floor": lambda x, y, n: x.floor(),
    "round": lambda x, y, n: x.round(),
    "relu": lambda x, y, n: x.relu(),
    "clamp": lambda x, y, n: x.clamp(-1, n[0] % 3),
    "clamp tensor": lambda x, y, n: x.clamp(max=y),
    "exp": lambda x, y, n: x.clamp(max=3).exp(),
    "tanh": lambda x, y, n: x.tanh(),
    "sigmoid": lambda x, y, n: x.sigmoid(),
    "root": lambda x, y, n: x.abs().sqrt(),
    "gelu": lambda x, y, n: F.gelu(x),
    "where": lambda x, y, n: torch.where(x > 0, x, y),
    "where number": lambda x, y, n: torch.where(x > 0, x, _number(n[0])),
    "masked_fill": lambda x, y, n: x.masked_fill(y > 0, _number(n[0])),
    "addcmul": lambda x, y, n: torch.addcmul(x, x, y, value=n[0] % 3),
    "lerp": lambda x, y, n: torch.lerp(x, y, 0.5),
    "isnan": lambda x, y, n: x.isnan(),
    "sum": lambda x, y, n: x.sum(_dim(x, n[0]), keepdim=bool(n[1] % 2)) if n[2] % 3 else x.sum(),
    "mean": lambda x, y, n: x.mean(_dim(x, n[0])),
    "prod": lambda x, y, n: x.prod(_dim(x, n[0])),
    "amax": lambda x, y, n: x.amax(_dim(x, n[0])),
    "min": lambda x, y, n: x.min(_dim(x, n[0])).values,
    "argmax": lambda x, y, n: x.argmax(_dim(x, n[0])) if n[1] % 2 else x.argmax(),
    "any": lambda x, y, n: x.any(_dim(x, n[0])) if n[1] % 2 else x.any(),
    "all": lambda x, y, n: x.all(),
    "cumsum": lambda x, y, n: x.cumsum(_dim(x, n[0])),
    "var": lambda x, y, n: x.var(_dim(x, n[0]), correction=n[1] % 2),
    "norm": lambda x, y, n: x.norm(),
    "softmax": lambda x, y, n: x.softmax(_dim(x, n[0])),
    "count": lambda x, y, n: x.count_nonzero(),
    "sort": lambda x, y, n: x.sort(_dim(x, n[0]), stable=True, descending=bool(n[1] % 2)),
    "topk": lambda x, y, n: x.topk(1, _dim(x, n[0])).values,
    "cat": lambda x, y, n: torch.cat([x, y, x], _dim(x, n[0])),
    "stack": lambda x, y, n: torch.stack([x, _as(x, y)], _dim(x, n[0])),
    "matmul": lambda x, y, n: x @ y,
    "matmul transposed": lambda x, y, n: x @ x.mT,
    "outer": lambda x, y, n: torch.outer(x.flatten(), y.flatten()),
    "gather": lambda x, y, n: x.gather(0, (x > 0).long().clamp(max=max(x.size(0) - 1, 0)) if x.dim() else x.long() * 0),
    "index_select": lambda x, y, n: x.index_select(_dim(x, n[0]), _index(x, n, _dim(x, n[0]))),
    "index": lambda x, y, n: x[_index(x, n, 0)],
    "index column": lambda x, y, n: x[:, _index(x, n, 1)],
    "index pair": lambda x, y, n: x[_index(x, n, 0), _index(x, n, 1)],
    "index mask": lambda x, y, n: x[x > _number(n[0])],
    "index wrong": lambda x, y, n: x[torch.tensor([0, 9], device=x.device)],
    "masked_select": lambda x, y, n: x.masked_select(x != 0),
    "nonzero": lambda x, y, n: x.nonzero(),
    "unique": lambda x, y, n: x.unique(),
    "flip": lambda x, y, n: x.flip(_dim(x, n[0])),
    "roll": lambda x, y, n: x.roll(n[0] % 3, _dim(x, n[1])),
    "repeat": lambda x, y, n: x.repeat(*(n[0] % 2 + 1,) * max(x.dim(), 1)),
    "repeat_interleave": lambda x, y, n: x.repeat_interleave(2, _dim(x, n[0])),
    "tril": lambda x, y, n: x.tril(n[0] % 3 - 1),
    "pad": lambda x, y, n: F.pad(x, (n[0] % 2, n[1] % 3), value=_number(n[2])),
    "clone": lambda x, y, n: x.clone() if n[0] % 2 else x.clone(memory_format=torch.contiguous_format),
    "contiguous": lambda x, y, n: x.contiguous(),
    "to": lambda x, y, n: x.to(DTYPES[n[0] % len(DTYPES)]),
    "type of the other": lambda x, y, n: x.type_as(y),
    "there and back": lambda x, y, n: x.cpu().to(x.device),
    "zeros_like": lambda x, y, n: torch.zeros_like(x),
    "full_like": lambda x, y, n: torch.full_like(x, 2),
    "one_hot": lambda x, y, n: F.one_hot(x.long().clamp(0, 3), 4),
    "einsum": lambda x, y, n: torch.einsum("i,j->ji", x.flatten(), y.flatten()),
    "item": lambda x, y, n: torch.tensor(x.flatten()[:1].sum().item()).to(x.device),
    "bucketize": lambda x, y, n: torch.bucketize(x, torch.tensor([0, 2], device=x.device)),
    "scatter_add": lambda x, y, n: torch.zeros_like(x).scatter_add(0, (x > 0).long() * 0, x),
}


def _set(x: Tensor, place: Any, value: Any) -> Tensor:
    x[place] = value
    return x


IN_PLACE: dict[str, Make] = {
    "add_": lambda x, y, n: x.add_(y),
    "add_ number": lambda x, y, n: x.add_(_number(n[0])),
    "sub_": lambda x, y, n: x.sub_(y, alpha=2),
    "mul_": lambda x, y, n: x.mul_(y),
    "mul_ number": lambda x, y, n: x.mul_(_number(n[0])),
    "div_": lambda x, y, n: x.div_(2),
    "addcmul_": lambda x, y, n: x.addcmul_(y, y),
    "neg_": lambda x, y, n: x.neg_(),
    "relu_": lambda x, y, n: x.relu_(),
    "clamp_": lambda x, y, n: x.clamp_(-1, 2),
    "copy_": lambda x, y, n: x.copy_(y),
    "fill_": lambda x, y, n: x.fill_(_number(n[0])),
    "zero_": lambda x, y, n: x.zero_(),
    "masked_fill_": lambda x, y, n: x.masked_fill_(x > 0, _number(n[0])),
    "masked_scatter_": lambda x, y, n: x.masked_scatter_(x > 0, x.clone()),
    "set slice": lambda x, y, n: _set(x, slice(n[0] % 2, None), _number(n[1])),
    "set slice to": lambda x, y, n: _set(x, slice(0, 1), y),
    "set row": lambda x, y, n: _set(x, n[0] % 3, y),
    "set step": lambda x, y, n: _set(x, (Ellipsis, slice(None, None, 2)), _number(n[0])),
    "set mask": lambda x, y, n: _set(x, x > 0, _number(n[0])),
    "set index": lambda x, y, n: _set(x, _index(x, n, 0), _number(n[3])),
    "set pair": lambda x, y, n: _set(x, (_index(x, n, 0), _index(x, n, 1)), _number(n[3])),
    "index_fill_": lambda x, y, n: x.index_fill_(_dim(x, n[0]), _index(x, n, _dim(x, n[0])), 2),
    "index_add_": lambda x, y, n: x.index_add_(0, torch.zeros(x.size(0), dtype=torch.long, device=x.device), x.clone()),
    "scatter_": lambda x, y, n: x.scatter_(0, (x > 0).long() * 0, _number(n[0])),
    "cumsum_": lambda x, y, n: x.cumsum_(_dim(x, n[0])),
    "transpose_": lambda x, y, n: x.transpose_(_dim(x, n[0]), _dim(x, n[1])),
    "squeeze_": lambda x, y, n: x.squeeze_(),
    "unsqueeze_": lambda x, y, n: x.unsqueeze_(_dim(x, n[0])),
    "logical_not_": lambda x, y, n: x.logical_not_(),
    "eq_": lambda x, y, n: x.eq_(y),
    "out": lambda x, y, n: torch.add(x, y, out=x),
    "out of another": lambda x, y, n: torch.mul(x, 2, out=y),
    "foreach": lambda x, y, n: torch._foreach_add_([x, x.clone()], 1),
    "share": lambda x, y, n: setattr(x, "data", y.detach()) or x,
    "resize_": lambda x, y, n: x.resize_(min(x.numel(), 1)),
    "triu_": lambda x, y, n: x.triu_(),
    "swap": lambda x, y, n: x.copy_(x.flip(0)),
}

STEPS: dict[str, Make] = {**VIEWS, **FRESH, **IN_PLACE}
SMOOTH = (
    *(
        "add",
        "multiply",
        "subtract",
        "tanh",
        "sigmoid",
        "exp",
        "softmax",
        "sum",
        "mean",
        "cat",
        "stack",
        "matmul",
        "pad",
    ),
    *(
        "index_select",
        "index",
        "flip",
        "roll",
        "repeat",
        "tril",
        "clone",
        "contiguous",
        "gelu",
        "lerp",
        "cumsum",
        "where",
    ),
    *(
        "transpose",
        "permute",
        "select",
        "slice",
        "step",
        "unsqueeze",
        "squeeze",
        "expand",
        "reshape",
        "flatten",
        "split",
    ),
    *("diagonal", "unfold", "movedim", "chunk", "broadcast", "matmul transposed", "masked_fill", "norm", "scatter_add"),
    *(
        "mul_ number",
        "add_",
        "relu_",
        "copy_",
        "zero_",
        "set slice to",
        "set step",
        "index_fill_",
        "masked_fill_",
        "div_",
    ),
)
"""Steps that a gradient goes through."""


class Mismatch(AssertionError):
    """The device did not do what the CPU did."""


class MoreThanTheCpu(Exception):
    """The device has an op for a dtype that the CPU has none for: the rest of the chain cannot be compared."""


class Pair:
    """The tensors of a chain on both devices."""

    def __init__(self, starts: Sequence[Numbers], device: str, *, gradients: bool = False) -> None:
        self.leaves = [start(numbers) for numbers in starts]
        if gradients:
            self.leaves = [leaf.float().requires_grad_() for leaf in self.leaves]
        self.device_leaves = [leaf.detach().to(device).requires_grad_(gradients) for leaf in self.leaves]
        self.host, self.device = (
            [leaf * 1 if gradients else leaf for leaf in leaves] for leaves in (self.leaves, self.device_leaves)
        )

    def step(self, name: str, numbers: Numbers) -> None:
        """One step on both. Raises Mismatch."""
        first, second = numbers[3] % len(self.host), (numbers[2] + numbers[3]) % len(self.host)
        make = STEPS[name]
        results = self._on_both(f"{name}{numbers}", lambda pool: make(pool[first], pool[second], numbers))
        for host, device in zip(tensors_of(results[0]), tensors_of(results[1]), strict=True):
            self._keep(host, device)
        for host, device in zip(self.host, self.device, strict=True):
            _compare(name, numbers, host, device)

    def _on_both(self, what: str, work: Callable[[list[Tensor]], Any]) -> list[Any]:
        """What `work` gives on both; the CPU's error must be the device's."""
        errors: list[str] = []
        results: list[Any] = []
        for pool in (self.host, self.device):
            try:
                results.append(work(pool))
                errors.append("")
            except Exception as error:  # whatever it raises is part of what it does
                results.append(None)
                errors.append(f"{type(error).__name__}: {error}")
        if "not implemented for" in errors[0] and not errors[1]:
            raise MoreThanTheCpu(what)
        if bool(errors[0]) != bool(errors[1]):
            raise Mismatch(f"{what}: the CPU {errors[0] or 'runs'}; the device {errors[1] or 'runs'}")
        return results

    def _keep(self, host: Tensor, device: Tensor) -> None:
        if host.numel() > LARGEST or any(host is other for other in self.host):
            return
        self.host.append(host)
        self.device.append(device)
        if len(self.host) > KEPT:
            del self.host[0], self.device[0]

    def gradients(self) -> None:
        """A backward through everything that is left. Raises Mismatch."""
        self._on_both("backward", backward)
        for host, device in zip(self.leaves, self.device_leaves, strict=True):
            if (host.grad is None) != (device.grad is None):
                raise Mismatch("one has a gradient, the other none")
            if host.grad is not None and device.grad is not None:
                _compare("backward", (0, 0, 0, 0), host.grad, device.grad)


def backward(pool: Sequence[Tensor]) -> None:
    """From a sum of all that has a gradient."""
    total = sum(t.float().sum() * 0.1 for t in pool if t.requires_grad)
    if isinstance(total, Tensor):
        total.backward()  # type: ignore[no-untyped-call]


def tensors_of(value: Any) -> list[Tensor]:
    """What a step gave."""
    if isinstance(value, Tensor):
        return [value]
    return [item for item in value if isinstance(item, Tensor)] if isinstance(value, (tuple, list)) else []


def _compare(name: str, numbers: Numbers, host: Tensor, device: Tensor) -> None:
    seen = [(t.dtype, t.shape, t.storage_offset(), t.requires_grad, t.is_conj()) for t in (host, device)]
    strides = [[s for s, size in zip(t.stride(), t.shape, strict=True) if size > 1] for t in (host, device)]
    if seen[0] != seen[1] or (host.numel() and strides[0] != strides[1]):
        raise Mismatch(f"{name}{numbers}: {seen[1]} {strides[1]} instead of {seen[0]} {strides[0]}")
    copied = device.detach().cpu()
    if torch.equal(copied, host.detach()):
        return
    tolerance = {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float64: 1e-9}.get(host.dtype, 2e-5)
    try:
        torch.testing.assert_close(copied, host.detach(), rtol=tolerance, atol=tolerance, equal_nan=True)
    except AssertionError as error:
        raise Mismatch(f"{name}{numbers}: {error}\n{copied}\ninstead of\n{host}") from None
    if not host.requires_grad and host.is_floating_point():
        device.copy_(host)  # a last bit must not grow into another comparison, floor or index


def run(starts: Sequence[Numbers], chain: Chain, device: str, *, gradients: bool = False) -> None:
    """Run a chain on the CPU and on `device`. Raises Mismatch at the first difference."""
    pair = Pair(starts, device, gradients=gradients)
    with contextlib.suppress(MoreThanTheCpu):
        for name, numbers in chain:
            pair.step(name, numbers)
        if gradients:
            pair.gradients()
