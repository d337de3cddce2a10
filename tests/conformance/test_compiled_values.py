"""What a compiler may fold - constants, an operand met twice - has the CPU's value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.conformance._both import assert_same
from tests.emulated import DEVICE, fresh_dynamo  # noqa: F401  # a fixture

INF, NAN = float("inf"), float("nan")
CONSTANTS: dict[str, tuple[Any, torch.dtype]] = {
    "one": (1.0, torch.float32),
    "half": (0.5, torch.float32),
    "five halves": (2.5, torch.float32),
    "double": (2.5, torch.float64),
    "bfloat16": (1.5, torch.bfloat16),
    "float16": (-1.5, torch.float16),
    "infinity": (INF, torch.float32),
    "nan": (NAN, torch.float32),
    "integer": (2, torch.int64),
    "negative": (-1, torch.int64),
    "int32": (7, torch.int32),
    "byte": (200, torch.uint8),
    "boolean": (True, torch.bool),
}
NUMBERS = (0, 1, 2, 0.5, -1, True, 2.5)
BINARY = ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "div", "remainder", "pow", "floor_divide")
UNARY = (
    *("neg", "abs", "sign", "floor", "ceil", "round", "trunc", "sqrt", "exp", "reciprocal", "rsqrt", "square", "tanh"),
    *("isnan", "isinf", "isfinite", "logical_not", "bitwise_not", "relu", "sigmoid", "sum", "any", "all", "amax"),
)


def _runs(compute: Callable[[Tensor], Any], x: Tensor) -> bool:
    try:
        compute(x)
    except (RuntimeError, NotImplementedError):
        return False
    return True


def assert_compiles_alike(computations: dict[str, Callable[[Tensor], Any]], x: Tensor) -> None:
    """One graph of all computations gives what the CPU gives, where the CPU gives anything."""
    known = {name: compute for name, compute in computations.items() if _runs(compute, x)}
    assert known

    def program(x: Tensor) -> list[Any]:
        return [compute(x) for compute in known.values()]

    expected = program(x)
    actual = torch.compile(program, backend="neuron")(x.to(DEVICE))
    for name, one, other in zip(known, actual, expected, strict=True):
        try:
            assert_same(one, other)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


@pytest.mark.parametrize("constant", CONSTANTS.values(), ids=CONSTANTS)
def test_what_is_computed_from_a_constant(constant: tuple[Any, torch.dtype]) -> None:
    value, dtype = constant

    def of(name: str, *numbers: Any) -> Callable[[Tensor], Any]:
        return lambda x: getattr(torch, name)(torch.full((3,), value, dtype=dtype, device=x.device), *numbers)

    computations = {f"{name} {number}": of(name, number) for name in BINARY for number in NUMBERS}
    assert_compiles_alike({**computations, **{name: of(name) for name in UNARY}}, torch.ones(1))


VALUES = torch.tensor([NAN, 1.0, INF, -INF, 0.0, -2.5])


def _same(name: str) -> Callable[[Tensor], Any]:
    return lambda x: getattr(torch, name)(x, x)


def test_an_operand_that_is_met_twice() -> None:
    names = ("eq", "ne", "lt", "le", "gt", "ge", "sub", "div", "mul", "maximum", "minimum", "remainder", "atan2", "pow")
    assert_compiles_alike({name: _same(name) for name in names}, VALUES)


def test_values_that_are_equal_but_not_the_same() -> None:
    assert_compiles_alike({"eq": lambda x: x * 2 == x * 2, "le": lambda x: x + 1 <= x + 1}, VALUES)


def test_what_is_not_a_number() -> None:
    computations: dict[str, Callable[[Tensor], Any]] = {
        "isfinite": torch.isfinite,
        "isnan": torch.isnan,
        "isinf": torch.isinf,
        "all finite": lambda x: torch.isfinite(x).all(),
        "masked": lambda x: torch.where(torch.isfinite(x), x, 0.0),
        "nan_to_num": torch.nan_to_num,
        "times zero": lambda x: x * 0,
        "to the power of zero": lambda x: x**0,
        "double": lambda x: x.double().isfinite(),
        "bfloat16": lambda x: x.bfloat16().isfinite(),
    }
    assert_compiles_alike(computations, VALUES)


@pytest.mark.parametrize("what", ["conj", "mH", "conj().imag", "conj().real"])
def test_a_conjugate_has_its_values_inside_a_graph_and_as_its_input(what: str) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2, 4, 4, dtype=torch.complex64)
    lazy: dict[str, Callable[[Tensor], Tensor]] = {
        "conj": torch.conj,
        "mH": lambda x: x.mH,
        "conj().imag": lambda x: x.conj().imag,
        "conj().real": lambda x: x.conj().real,
    }
    view = lazy[what]

    def inside(x: Tensor, y: Tensor) -> list[Tensor]:
        return [view(x) * 2 + y, view(x), view(x * 2)]

    on_device = x.to(DEVICE), y.to(DEVICE)
    for got, expected in zip(torch.compile(inside, backend="neuron")(*on_device), inside(x, y), strict=True):
        torch.testing.assert_close(got.cpu(), expected)
        torch.testing.assert_close((got + 1).cpu(), expected + 1)

    compiled = torch.compile(torch.add, backend="neuron")
    for device, host in (((view(on_device[0]), on_device[1]), (view(x), y)), (on_device, (x, y))):
        torch.testing.assert_close(compiled(*device).cpu(), torch.add(*host))


def test_the_gradient_through_a_conjugate() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 4, dtype=torch.complex64)
    there, here = x.to(DEVICE).requires_grad_(), x.clone().requires_grad_()

    def loss(x: Tensor) -> Tensor:
        return torch.view_as_real((x.conj() @ x).mH @ x).pow(2).sum()

    loss(here).backward()
    torch.compile(loss, backend="neuron")(there).backward()
    assert here.grad is not None and there.grad is not None
    torch.testing.assert_close(there.grad.cpu(), here.grad)


def test_an_input_without_elements_has_no_memory_to_hand_over() -> None:
    a, b = torch.randn(5, 0), torch.randn(0, 6)

    def program(a: Tensor, b: Tensor) -> Tensor:
        return a @ b + b.sum(0) + torch.cat([b, b]).sum()

    compiled = torch.compile(program, backend="neuron", fullgraph=True)
    assert torch.equal(compiled(a.to(DEVICE), b.to(DEVICE)).cpu(), program(a, b))


def test_a_part_without_elements_decides_the_dtype_of_a_concatenation_too() -> None:
    x, nothing = torch.ones(1, 3, dtype=torch.int32), torch.zeros(0, 3, dtype=torch.float64)

    def program(x: Tensor, nothing: Tensor) -> tuple[Tensor, ...]:
        return torch.cat([x, nothing]), torch.cat([nothing, nothing.float()]), torch.cat([nothing, nothing], 1)

    assert_same(torch.compile(program, backend="neuron")(x.to(DEVICE), nothing.to(DEVICE)), program(x, nothing))
