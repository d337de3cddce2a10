"""Lowers, compiles and runs ATen calls on real CPU tensors, to compare them with CPU eager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from neuron_lab.emulator import compiler
from neuron_lab.emulator.lowering import Leaf, LeafRef, Lowered, OpCall, lifts_numbers, lower

_NUMBER_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A number that arrives as a wrapped 0-d tensor, as in ``x + 1``."""

    value: bool | int | float | complex


def _physical(tensor: Tensor) -> tuple[Tensor, Leaf]:
    """The dense buffer of a tensor and its leaf, as the C++ side builds them: gaps are copied away, order is kept."""
    plain = tuple(torch.empty(tensor.shape, device="meta").stride())
    if tensor.is_contiguous():
        return tensor, Leaf(tensor.dtype, tuple(tensor.shape), plain, None)
    dims = [d for d in range(tensor.dim()) if tensor.size(d) != 1 and tensor.stride(d) != 0]
    order = sorted(dims, key=lambda d: (-tensor.stride(d), d))
    buffer = tensor
    for dim in range(tensor.dim()):
        if dim not in dims:
            buffer = buffer.narrow(dim, 0, 1)
    buffer = buffer.permute(order + [d for d in range(tensor.dim()) if d not in dims])
    buffer = buffer.reshape([tensor.size(d) for d in order]).contiguous()
    strides = [0 if d not in dims and tensor.size(d) > 1 else 1 for d in range(tensor.dim())]
    for position, dim in enumerate(order):
        strides[dim] = buffer.stride(position)
    return buffer, Leaf(tensor.dtype, tuple(tensor.shape), tuple(strides), tuple(order))


class Specimen:
    """An op call together with the buffers of its leaves."""

    def __init__(self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._leaves: list[Leaf] = []
        self.buffers: list[Tensor] = []
        self.tensors: list[Tensor] = []
        lifted = lifts_numbers(op)
        names = [argument.name for argument in op._schema.arguments]
        spec_args = tuple(self._spec(value, lifted[i]) for i, value in enumerate(args))
        spec_kwargs = {name: self._spec(value, lifted[names.index(name)]) for name, value in kwargs.items()}
        self.call = OpCall(op, spec_args, spec_kwargs, tuple(self._leaves), torch.get_default_dtype())

    def _spec(self, value: Any, lifted: bool) -> Any:
        if isinstance(value, Tensor):
            buffer, leaf = _physical(value)
            return self._leaf(value, buffer, leaf)
        if isinstance(value, Wrapped):
            return self._number(value.value, wrapped=True)
        if lifted and isinstance(value, (bool, int, float, complex)):
            return self._number(value, wrapped=False)
        if isinstance(value, (list, tuple)):
            return type(value)(self._spec(item, False) for item in value)
        return value

    def _number(self, value: bool | int | float | complex, *, wrapped: bool) -> LeafRef:
        tensor = torch.tensor(value, dtype=_NUMBER_DTYPES[type(value)])
        return self._leaf(tensor, tensor, Leaf(tensor.dtype, (), (), None, wrapped=wrapped, number=not wrapped))

    def _leaf(self, tensor: Tensor, buffer: Tensor, leaf: Leaf) -> LeafRef:
        self._leaves.append(leaf)
        self.buffers.append(buffer)
        self.tensors.append(tensor)
        return LeafRef(len(self._leaves) - 1)


def _to_device(tensor: Tensor) -> Any:
    from jaxlib import _jax

    capsule = torch.utils.dlpack.to_dlpack(tensor.contiguous())
    return _jax.dlpack_managed_tensor_to_buffer(capsule, compiler.client().local_devices()[0], None)


def _to_host(array: Any) -> Tensor:
    from jaxlib import _jax

    host: Tensor = torch.utils.dlpack.from_dlpack(_jax.buffer_to_dlpack_managed_tensor(array))
    return host.clone().reshape(-1)


def run(lowered: Lowered, specimen: Specimen, executable: compiler.Executable | None = None) -> list[Tensor]:
    """Logical result tensors of the executable, with the strides of the plan."""
    executable = executable or compiler.compile(lowered.stablehlo)
    results = executable.raw.execute([_to_device(specimen.buffers[i]) for i in lowered.plan.inputs])
    tensors = []
    for result, output in zip(results, lowered.plan.outputs, strict=True):
        flat = _to_host(result)
        assert str(flat.dtype) == f"torch.{output.dtype}", f"executable gives {flat.dtype}, plan says {output.dtype}"
        tensors.append(flat.as_strided(output.sizes, output.strides))
    return tensors


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Wrapped):
        return value.value
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, (list, tuple)):
        return type(value)(_unwrapped(item) for item in value)
    return value


def _flat(values: Any) -> list[Any]:
    if isinstance(values, (list, tuple)):
        return [leaf for value in values for leaf in _flat(value)]
    return [values]


def _resolve(entry: tuple[Any, ...], results: list[Tensor], leaves: list[Tensor]) -> Any:
    kind = entry[0]
    if kind == "list":
        return [_resolve(item, results, leaves) for item in entry[1]]
    return {"out": lambda: results[entry[1]], "leaf": lambda: leaves[entry[1]], "none": lambda: None}[kind]()


def check(
    op: Any,
    *args: Any,
    reference: Callable[..., Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    **kwargs: Any,
) -> Lowered:
    """Lower, run, and compare with CPU eager: values, dtypes, strides and writes. Raises AssertionError."""
    op = getattr(op, "default", op)
    specimen = Specimen(op, args, kwargs)
    lowered = lower(specimen.call)
    results = run(lowered, specimen)
    compare(op, args, kwargs, specimen, lowered, results, reference or op, rtol, atol)
    return lowered


def compare(
    op: OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    specimen: Specimen,
    lowered: Lowered,
    results: list[Tensor],
    reference: Callable[..., Any],
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    cpu_args = tuple(_unwrapped(value) for value in args)
    cpu_kwargs = {name: _unwrapped(value) for name, value in kwargs.items()}
    expected = reference(*cpu_args, **cpu_kwargs)
    after = list(specimen.tensors)
    for k, j in lowered.plan.writes:
        after[j] = results[k]
    returned = [_resolve(entry, results, after) for entry in lowered.plan.returns]
    expected_list = [] if expected is None and not op._schema.returns else _flat(expected)
    for got, want in zip(_flat(returned), expected_list, strict=True):
        same(got, want, rtol, atol)
    cpu_leaves = [leaf for leaf in _flat([*cpu_args, *cpu_kwargs.values()]) if isinstance(leaf, Tensor)]
    leaves = [leaf for leaf, spec in zip(after, specimen.call.leaves, strict=True) if not (spec.number or spec.wrapped)]
    for got, want in zip(leaves, cpu_leaves, strict=True):
        same(got, want, rtol, atol, strides=False)


def same(got: Any, want: Any, rtol: float | None, atol: float | None, *, strides: bool = True) -> None:
    if not isinstance(want, Tensor):
        assert got == want, f"got {got}, CPU gives {want}"
        return
    assert isinstance(got, Tensor), f"got {got}, CPU gives a tensor"
    assert got.dtype == want.dtype, f"dtype {got.dtype}, CPU gives {want.dtype}"
    assert got.shape == want.shape, f"shape {tuple(got.shape)}, CPU gives {tuple(want.shape)}"
    if strides:
        pairs = [(a, b) for a, b, size in zip(got.stride(), want.stride(), want.shape, strict=True) if size != 1]
        assert all(a == b for a, b in pairs), f"strides {got.stride()}, CPU gives {want.stride()}"
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)
