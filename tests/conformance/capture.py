"""Records the ATen calls that PyTorch's own operator samples make on the CPU, forward and backward."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.unit.lowering._runner import Wrapped


@dataclass(frozen=True, slots=True)
class Captured:
    """One call: overload name, arguments with real tensors, and the op_db entry it came from."""

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    source: str


def _key(value: Any) -> Any:
    if isinstance(value, Tensor):
        return (value.dtype, tuple(value.shape), tuple(value.stride()))
    if isinstance(value, (list, tuple)):
        return tuple(_key(item) for item in value)
    return repr(value)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _kept(value: Any) -> Any:
    if isinstance(value, Tensor):
        # An expanded dim holds one element: it is copied and expanded again.
        single = value
        for dim, stride in enumerate(value.stride()):
            single = single.narrow(dim, 0, 1) if stride == 0 and single.size(dim) > 1 else single
        kept = torch.empty_strided(single.shape, value.stride(), dtype=value.dtype)
        return (kept.copy_(single) if single.numel() else kept).expand(value.shape)
    if isinstance(value, (list, tuple)):
        return type(value)(_kept(item) for item in value)
    return value


def _wrapped(op: torch._ops.OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers in Tensor positions arrived as wrapped tensors."""
    kinds = [str(argument.type) for argument in op._schema.arguments]
    numbers = (bool, int, float, complex)
    return tuple(
        Wrapped(value) if kind == "Tensor" and isinstance(value, numbers) else value
        for kind, value in zip(kinds, args, strict=False)
    )


def _computes(op: torch._ops.OpOverload) -> bool:
    """Leaves out random, data-dependent, factory and view ops: they never reach the lowering."""
    tags = {torch.Tag.nondeterministic_seeded, torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
    if op.namespace != "aten" or tags & set(op.tags) or op._schema.name.startswith("aten::empty"):
        return False
    return all(ret.alias_info is None or ret.alias_info.is_write for ret in op._schema.returns)


class Recorder(TorchDispatchMode):
    """Keeps up to ``limit`` different calls of every overload."""

    def __init__(self, limit: int, largest: int = 20_000) -> None:
        super().__init__()
        self.calls: dict[str, dict[Any, Captured]] = defaultdict(dict)
        self.source = ""
        self._limit = limit
        self._largest = largest

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = f"{func._schema.name}.{func._overloadname}"
        kept = self.calls[name] if _computes(func) else None
        if kept is not None and len(kept) < self._limit:
            tensors = list(_tensors([*args, *kwargs.values()]))
            plain = all(type(t) is Tensor and t.layout == torch.strided and not t.is_conj() for t in tensors)
            if plain and tensors and all(0 < t.numel() <= self._largest for t in tensors):
                key = (_key(args), _key(tuple(kwargs.items())))
                if key not in kept:
                    values = {k: _kept(v) for k, v in kwargs.items()}
                    kept[key] = Captured(name, _kept(_wrapped(func, args)), values, self.source)
        return func(*args, **kwargs)


def _backward(result: Any) -> None:
    outputs = list(_tensors(result))
    outputs = [t for t in outputs if t.requires_grad and t.dtype == torch.float32]
    if outputs:
        torch.autograd.backward(outputs, [torch.randn_like(t) for t in outputs], retain_graph=False)


def capture(
    limit: int = 3, samples: int = 4, dtype: torch.dtype = torch.float32, wanted: Callable[[str], bool] | None = None
) -> list[Captured]:
    """Calls recorded from ``op_db`` and the foreach databases."""
    from torch.testing._internal import common_methods_invocations as db

    recorder = Recorder(limit)
    infos = [*db.op_db, *db.foreach_unary_op_db, *db.foreach_binary_op_db, *db.foreach_pointwise_op_db]
    for info in infos:
        if wanted is not None and not wanted(info.name):
            continue
        torch.manual_seed(0)
        recorder.source = info.name
        with contextlib.suppress(Exception):
            inputs = []
            gradient = dtype.is_floating_point and info.supports_autograd
            for sample in info.sample_inputs("cpu", dtype, requires_grad=gradient):
                inputs.append(sample)
                if len(inputs) >= samples:
                    break
            for sample in inputs:
                variants = [info.get_op(), info.get_inplace()]
                for variant in variants:
                    if variant is not None:
                        _run(recorder, variant, sample, inplace=variant is variants[1])
    return [call for calls in recorder.calls.values() for call in calls.values()]


def _run(recorder: Recorder, function: Callable[..., Any], sample: Any, *, inplace: bool) -> None:
    with contextlib.suppress(Exception):  # samples that need another device or dtype
        first = sample.input
        if inplace:
            first = [t.detach().clone() for t in first] if isinstance(first, (list, tuple)) else first.detach().clone()
        with recorder:
            result = function(first, *sample.args, **sample.kwargs)
            if not inplace:
                _backward(result)
