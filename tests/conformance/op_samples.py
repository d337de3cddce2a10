"""Runs PyTorch's operator samples on the CPU and on the device and compares everything a program can see."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.emulated import DEVICE

UNINITIALISED = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})
"""Entries whose values are arbitrary: only metadata is compared."""

AMBIGUOUS = frozenset(
    """
    linalg.eig linalg.eigh linalg.svd svd svd_lowrank pca_lowrank linalg.qr qr geqrf linalg.householder_product
    linalg.lstsq linalg.lstsq.grad_oriented linalg.tensorinv
    """.split()
)
"""Decompositions that are unique up to signs or phases: as the uninitialised ones."""

_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Finding:
    """One variant of one sample: how it went."""

    entry: str
    sample: int
    variant: str
    """forward, backward, inplace or out."""
    outcome: str
    """same, wrong, refused (only the device raises), accepted (only the CPU raises) or raises (both do)."""
    detail: str = ""


def samples_of(info: Any, limit: int) -> list[Any]:
    """The first ``limit`` float32 samples of an op_db entry, differing in more than values where the entry allows it."""
    torch.manual_seed(0)
    gradient = bool(info.supports_autograd)
    return list(itertools.islice(info.sample_inputs("cpu", torch.float32, requires_grad=gradient), limit))


def _moved(value: Any, device: str, gradients: bool) -> Any:
    if isinstance(value, Tensor):
        moved = value.detach().to(device, copy=True)
        return moved.requires_grad_(value.requires_grad and gradients)
    if isinstance(value, (list, tuple)):
        items = [_moved(item, device, gradients) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: _moved(item, device, gradients) for key, item in value.items()}
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device(device)
    return value


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in ``value``, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def _aliases(inputs: Any, outputs: Any) -> list[tuple[int, int]]:
    """Pairs of tensors, inputs first, that share memory; the first index is an earlier tensor."""
    every = [t for t in [*tensors(inputs), *tensors(outputs)] if t.layout == torch.strided]
    places = [t.untyped_storage().data_ptr() if t.numel() else None for t in every]
    return [(i, j) for j, p in enumerate(places) for i in range(j) if p is not None and places[i] == p]


def difference(actual: Any, expected: Any, *, values: bool) -> str:
    """Where the two differ, or nothing: type, dtype, shape, strides, value."""
    if isinstance(expected, Tensor):
        if not isinstance(actual, Tensor):
            return f"{type(actual).__name__} instead of a tensor"
        return _tensor_difference(actual, expected, values=values)
    if isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            return f"{len(actual)} results instead of {len(expected)}"
        found = (difference(one, other, values=values) for one, other in zip(actual, expected, strict=True))
        return next(filter(None, found), "")
    if isinstance(expected, float) and values:
        return "" if torch.isclose(torch.tensor(actual), torch.tensor(expected), equal_nan=True) else f"{actual}"
    if isinstance(expected, (bool, int, str, torch.dtype)) and values:
        return "" if actual == expected else f"{actual} instead of {expected}"
    return ""


def _tensor_difference(actual: Tensor, expected: Tensor, *, values: bool) -> str:
    if actual.dtype != expected.dtype or actual.shape != expected.shape or actual.layout != expected.layout:
        return f"{actual.dtype} {tuple(actual.shape)} instead of {expected.dtype} {tuple(expected.shape)}"
    if expected.layout != torch.strided:
        return difference(actual.to_dense(), expected.to_dense(), values=values)
    strides = zip(actual.stride(), expected.stride(), expected.shape, strict=True)
    if expected.numel() and any(a != b for a, b, size in strides if size != 1):
        return f"strides {actual.stride()} instead of {expected.stride()}"
    if not values:
        return ""
    host, expected = actual.detach().cpu(), expected.detach()
    if expected.element_size() == 1 and expected.is_floating_point():
        host, expected = host.float(), expected.float()
    try:
        torch.testing.assert_close(host, expected, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)
    except AssertionError as error:
        return "values: " + " ".join(str(error).split())[:200]
    return ""


@dataclass(slots=True)
class _Run:
    """What one device gives: results, gradients, sharing of memory, or an error."""

    results: Any = None
    gradients: Any = None
    aliases: Any = None
    inputs: Any = None
    error: str = ""
    backward_error: str = ""


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


def _forward(function: Callable[..., Any], info: Any, sample: Any, device: str, *, gradients: bool) -> _Run:
    run = _Run()
    try:
        first, args, kwargs = (_moved(v, device, gradients) for v in (sample.input, sample.args, sample.kwargs))
        run.inputs = [first, args, kwargs]
        torch.manual_seed(0)
        result = function(first, *args, **kwargs)
        run.results = result
        run.aliases = _aliases(run.inputs, result)
    except Exception as error:  # whatever an op raises is part of its behaviour
        run.error = _one_line(error)
        return run
    if gradients:
        shaped = sample.output_process_fn_grad(result) if sample.output_process_fn_grad else result
        _backward(run, shaped, device)
    return run


def _backward(run: _Run, result: Any, device: str) -> None:
    outputs = [t for t in tensors(result) if t.requires_grad and t.layout == torch.strided]
    leaves = [t for t in tensors(run.inputs) if t.requires_grad]
    if not outputs or not leaves:
        return
    torch.manual_seed(1)
    cotangents = [torch.randn(t.shape, dtype=t.dtype).to(device) for t in outputs]
    try:
        run.gradients = list(torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True))
    except Exception as error:
        run.backward_error = _one_line(error)


def _compared(ours: str, cpus: str, difference_of: Callable[[], str]) -> tuple[str, str]:
    if ours and cpus:
        return "raises", ""
    if ours:
        return "refused", ours
    if cpus:
        return "accepted", cpus
    found = difference_of()
    return ("wrong", found) if found else ("same", "")


def _pair(info: Any, sample: Any, function: Callable[..., Any], *, gradients: bool) -> tuple[_Run, _Run]:
    return tuple(_forward(function, info, sample, device, gradients=gradients) for device in (DEVICE, "cpu"))  # type: ignore[return-value]


def check(info: Any, limit: int, variants: bool = True) -> Iterator[Finding]:
    """Every variant of the first samples of an op_db entry."""
    name = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
    values = info.name not in UNINITIALISED and name not in AMBIGUOUS
    for index, sample in enumerate(samples_of(info, limit)):
        ours, cpus = _pair(info, sample, info.get_op(), gradients=bool(info.supports_autograd))

        def forward(ours: _Run = ours, cpus: _Run = cpus) -> str:
            found = difference(ours.results, cpus.results, values=values)
            return found or ("" if ours.aliases == cpus.aliases else f"aliases {ours.aliases}, not {cpus.aliases}")

        yield Finding(name, index, "forward", *_compared(ours.error, cpus.error, forward))
        if cpus.gradients is not None and not ours.error:

            def backward(ours: _Run = ours, cpus: _Run = cpus) -> str:
                return difference(ours.gradients, cpus.gradients, values=values)

            yield Finding(name, index, "backward", *_compared(ours.backward_error, cpus.backward_error, backward))
        if variants and not cpus.error:
            yield from _variants(info, name, index, sample, cpus, values=values)


def _variants(info: Any, name: str, index: int, sample: Any, cpus: _Run, *, values: bool) -> Iterator[Finding]:
    inplace = info.get_inplace()
    if inplace is not None and not sample.broadcasts_input:
        ours, cpu = _pair(info, sample, inplace, gradients=False)
        found = _compared(
            ours.error,
            cpu.error,
            lambda: difference([ours.results, ours.inputs], [cpu.results, cpu.inputs], values=values),
        )
        yield Finding(name, index, "inplace", *found)
    result = cpus.results
    if info.supports_out and isinstance(result, Tensor) and result.layout == torch.strided and index == 0:

        def out(first: Any, *args: Any, **kwargs: Any) -> Any:
            device = kwargs.get("device") or _device_of(first, args, kwargs)
            target = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype)
            target = target.fill_(7).to(device)  # fresh memory may hold an earlier result
            returned = info.get_op()(first, *args, **kwargs, out=target)
            return [target, returned is target]

        ours, cpu = _pair(info, sample, out, gradients=False)
        yield Finding(
            name,
            index,
            "out",
            *_compared(ours.error, cpu.error, lambda: difference(ours.results, cpu.results, values=values)),
        )


def _device_of(*values: Any) -> torch.device:
    return next((t.device for t in tensors(list(values))), torch.device("cpu"))
