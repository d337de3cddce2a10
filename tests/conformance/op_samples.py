"""Runs PyTorch's operator samples on the CPU and on the device and compares everything a program can see."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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

_TOLERANCES = {
    # Two ulps of the 16-bit formats: XLA and the CPU's kernels may round at different places of one op.
    torch.bfloat16: 2**-6,
    torch.float16: 2**-9,
    # Samples are ill conditioned at times; a step of a 24-bit mantissa is 6e-8.
    torch.float32: 1e-4,
    torch.complex64: 1e-4,
    # Well below what any single-precision step inside would leave behind.
    torch.float64: 1e-9,
    torch.complex128: 1e-9,
}
"""Relative and absolute; what is not here is compared exactly."""

_WIDER = {torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.float32: torch.float64}
"""In what the CPU's result is taken anew where the two differ."""


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


def samples_of(info: Any, limit: int, dtype: torch.dtype) -> list[Any]:
    """The first ``limit`` samples of an op_db entry, differing in more than values where the entry allows it."""
    torch.manual_seed(0)
    return list(itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=_gradients(info, dtype)), limit))


def _widened(value: Any, dtype: torch.dtype) -> Any:
    """``value`` with the tensors of ``dtype`` in the next wider one."""

    def change(t: Tensor) -> Tensor:
        return t.detach().to(_WIDER[dtype]).requires_grad_(t.requires_grad) if t.dtype == dtype else t

    return _mapped(value, change)


def _rounded(value: Any, like: Any) -> Any:
    """``value`` in the dtypes that ``like`` has."""
    kinds = (t.dtype for t in list(tensors(like)))
    return _mapped(value, lambda t: t.to(next(kinds, t.dtype)))


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [_mapped(item, change) for item in value]
    return {key: _mapped(item, change) for key, item in value.items()} if isinstance(value, dict) else value


def _gradients(info: Any, dtype: torch.dtype) -> bool:
    return bool(info.supports_autograd) and dtype in info.supported_backward_dtypes("cpu")


def moved(value: Any, device: str, gradients: bool) -> Any:
    """A copy of ``value`` on ``device``; tensors that want a gradient become leaves when ``gradients``."""
    if isinstance(value, Tensor):
        copied = value.detach().to(device, copy=True)
        return copied.requires_grad_(value.requires_grad and gradients)
    if isinstance(value, (list, tuple)):
        items = [moved(item, device, gradients) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: moved(item, device, gradients) for key, item in value.items()}
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
    tolerance = _TOLERANCES.get(expected.dtype, 0.0)
    if expected.element_size() == 1 and expected.is_floating_point():
        host, expected = host.float(), expected.float()
    try:
        torch.testing.assert_close(host, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
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


def _drawn(like: Tensor, rounding: torch.dtype | None) -> Tensor:
    drawn = torch.randn(like.shape, dtype=torch.complex64 if like.is_complex() else torch.float32)
    return drawn.to(rounding or like.dtype).to(like.dtype)


def _backward(run: _Run, result: Any, device: str, rounding: torch.dtype | None) -> None:
    outputs = [t for t in tensors(result) if t.requires_grad and t.layout == torch.strided]
    leaves = [t for t in tensors(run.inputs) if t.requires_grad]
    if not outputs or not leaves:
        return
    torch.manual_seed(1)
    cotangents = [_drawn(t, rounding).to(device) for t in outputs]
    try:
        run.gradients = list(torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True))
    except Exception as error:
        run.backward_error = _one_line(error)


@dataclass(frozen=True, slots=True)
class _Trial:
    """One function of one sample, to be run on both devices."""

    function: Callable[..., Any]
    sample: Any
    dtype: torch.dtype
    gradients: bool
    values: bool

    def on(self, device: str) -> _Run:
        return self._run(self.sample, device, None)

    def _run(self, sample: Any, device: str, rounding: torch.dtype | None) -> _Run:
        run = _Run()
        try:
            run.inputs = [moved(v, device, self.gradients) for v in (sample.input, sample.args, sample.kwargs)]
            first, args, kwargs = run.inputs
            torch.manual_seed(0)
            run.results = self.function(first, *args, **kwargs)
            run.aliases = _aliases(run.inputs, run.results)
        except Exception as error:  # whatever an op raises is part of its behaviour
            run.error = _one_line(error)
            return run
        if self.gradients:
            process = sample.output_process_fn_grad
            _backward(run, process(run.results) if process else run.results, device, rounding)
        return run

    def difference(self, ours: _Run, cpus: _Run, *parts: str) -> str:
        """Where these parts of the two runs differ.

        The CPU's kernel may be the less exact one, for it rounds too: where the two differ, its result in a wider dtype decides.
        """
        mine, theirs = ([getattr(run, part) for part in parts] for run in (ours, cpus))
        found = difference(mine, theirs, values=self.values)
        if not found.startswith("values") or self.dtype not in _WIDER:
            return found
        wide = copy.copy(self.sample)
        for name in ("input", "args", "kwargs"):
            setattr(wide, name, _widened(getattr(wide, name), self.dtype))
        exact = self._run(wide, "cpu", self.dtype)
        if exact.error or exact.backward_error:
            return found
        return found and difference(mine, _rounded([getattr(exact, part) for part in parts], theirs), values=True)


def _compared(ours: str, cpus: str, difference_of: Callable[[], str]) -> tuple[str, str]:
    if ours and cpus:
        return "raises", ""
    if ours:
        return "refused", ours
    if cpus:
        return "accepted", cpus
    found = difference_of()
    return ("wrong", found) if found else ("same", "")


def check(info: Any, limit: int, dtype: torch.dtype, variants: bool = True) -> Iterator[Finding]:
    """Every variant of the first samples of an op_db entry that takes ``dtype``."""
    name = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
    values = info.name not in UNINITIALISED and name not in AMBIGUOUS
    for index, sample in enumerate(samples_of(info, limit, dtype)):
        trial = _Trial(info.get_op(), sample, dtype, _gradients(info, dtype), values)
        ours, cpus = trial.on(DEVICE), trial.on("cpu")

        def forward(trial: _Trial = trial, ours: _Run = ours, cpus: _Run = cpus) -> str:
            found = trial.difference(ours, cpus, "results")
            return found or ("" if ours.aliases == cpus.aliases else f"aliases {ours.aliases}, not {cpus.aliases}")

        yield Finding(name, index, "forward", *_compared(ours.error, cpus.error, forward))
        if cpus.gradients is not None and not ours.error:

            def backward(trial: _Trial = trial, ours: _Run = ours, cpus: _Run = cpus) -> str:
                return trial.difference(ours, cpus, "gradients")

            yield Finding(name, index, "backward", *_compared(ours.backward_error, cpus.backward_error, backward))
        if variants and not cpus.error:
            yield from _variants(info, name, index, trial, cpus)


def _variants(info: Any, name: str, index: int, trial: _Trial, cpus: _Run) -> Iterator[Finding]:
    inplace = info.get_inplace()
    if inplace is not None and not trial.sample.broadcasts_input:
        yield Finding(name, index, "inplace", *_outcome(trial, inplace, "results", "inputs"))
    result = cpus.results
    if info.supports_out and isinstance(result, Tensor) and result.layout == torch.strided and index == 0:

        def out(first: Any, *args: Any, **kwargs: Any) -> Any:
            device = kwargs.get("device") or _device_of(first, args, kwargs)
            taken = {t.dtype for t in tensors([first, args, kwargs])}
            widened = result.dtype == trial.dtype in _WIDER and taken and trial.dtype not in taken
            kind = _WIDER[trial.dtype] if widened else result.dtype
            target = torch.empty_strided(result.shape, result.stride(), dtype=kind)
            target = target.fill_(7).to(device)  # fresh memory may hold an earlier result
            returned = info.get_op()(first, *args, **kwargs, out=target)
            return [target, returned is target]

        yield Finding(name, index, "out", *_outcome(trial, out, "results"))


def _outcome(trial: _Trial, function: Callable[..., Any], *parts: str) -> tuple[str, str]:
    """How another function of the same sample goes."""
    trial = replace(trial, function=function, gradients=False)
    ours, cpus = trial.on(DEVICE), trial.on("cpu")
    return _compared(ours.error, cpus.error, lambda: trial.difference(ours, cpus, *parts))


def _device_of(*values: Any) -> torch.device:
    return next((t.device for t in tensors(list(values))), torch.device("cpu"))


def refusal(info: Any, dtype: torch.dtype) -> Finding | None:
    """How the first sample goes in a ``dtype`` that the entry does not take; None when the CPU takes it all the same."""
    taken = info.supported_dtypes("cpu")
    source = next((kind for kind in (torch.float32, torch.int64, torch.bool, torch.complex64) if kind in taken), None)
    if source is None or dtype in taken:
        return None
    sample = next(iter(samples_of(info, 1, source)), None)
    if sample is None:
        return None
    sample = copy.copy(sample)
    for name in ("input", "args", "kwargs"):
        changed = _mapped(getattr(sample, name), lambda t: t.detach().to(dtype) if t.dtype == source else t)
        setattr(sample, name, changed)
    trial = _Trial(info.get_op(), sample, dtype, gradients=False, values=True)
    cpus = trial.on("cpu")
    if not cpus.error:
        return None
    return Finding(info.name, 0, "forward", *_compared(trial.on(DEVICE).error, cpus.error, lambda: ""))
