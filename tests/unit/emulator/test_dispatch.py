"""The slow half of the eager road: signatures, layouts and what happens when lowering fails."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
import torch_neuronx

from neuron_lab.emulator import _calls, dispatch, lowering, shim
from neuron_lab.emulator.lowering import Unlowerable
from tests.emulated import DEVICE

aten: Any = torch.ops.aten


def keys_of(work: Any) -> list[str]:
    """Signatures of what a piece of work compiles."""
    torch_neuronx._C._clear_compilation_memory_cache()
    work()
    return sorted(torch_neuronx._C._get_all_cache_keys())


def zeros(*sizes: int) -> torch.Tensor:
    return torch.empty(sizes, device=DEVICE)


SIGNATURES: dict[str, tuple[Any, str]] = {
    "tensors": (lambda: zeros(2, 3) + zeros(3), "aten::add.Tensor(float32[2, 3], float32[3], alpha=1) default=float32"),
    "number": (lambda: zeros(2) * 2.5, "aten::mul.Tensor(float32[2], float64~) default=float32"),
    "integer": (lambda: zeros(2) * 2, "aten::mul.Tensor(float32[2], int64~) default=float32"),
    "lifted": (
        lambda: torch.add(zeros(2), zeros(2), alpha=3),
        "aten::add.Tensor(float32[2], float32[2], alpha=int64#) default=float32",
    ),
    "layout": (lambda: zeros(2, 3).t().exp(), "aten::exp(float32[3, 2]{1, 0}) default=float32"),
    "list": (lambda: torch.cat([zeros(2), zeros(3)]), "aten::cat([float32[2], float32[3]], 0) default=float32"),
    "dtype": (lambda: zeros(2).sum(dtype=torch.float64), "aten::sum(float32[2], dtype=float64) default=float32"),
    "dimensions": (lambda: zeros(2, 3).sum(1), "aten::sum.dim_IntList(float32[2, 3], [1], False) default=float32"),
    "steps": (lambda: zeros(6)[::2].exp(), "aten::exp(float32[3]) default=float32"),
    "expanded": (lambda: zeros(1, 3).expand(4, 3).exp(), "aten::exp(float32[4, 3]{1}) default=float32"),
    "0-d": (lambda: zeros().exp(), "aten::exp(float32[]) default=float32"),
}


@pytest.mark.parametrize(("work", "signature"), SIGNATURES.values(), ids=SIGNATURES)
def test_signature(work: Any, signature: str) -> None:
    assert keys_of(work) == [signature]


def test_a_number_by_another_value_is_the_same_op() -> None:
    x = zeros(2)
    assert len(keys_of(lambda: [x * value for value in (2.0, 3.0, 1e9, float("inf"))])) == 1


def test_values_offsets_and_cores_make_no_other_op() -> None:
    x, y = zeros(2, 5), torch.empty(2, 5, device="neuron:1")
    assert len(keys_of(lambda: [x[0].exp(), x[1].exp(), y[0].exp()])) == 1


def test_the_default_dtype_makes_another_op() -> None:
    x = torch.ones(2, dtype=torch.int64, device=DEVICE)

    def work() -> None:
        try:
            torch.set_default_dtype(torch.float64)
            x / 2
        finally:
            torch.set_default_dtype(torch.float32)
        x / 2

    assert len(keys_of(work)) == 2


@pytest.mark.parametrize(
    ("sizes", "layout", "strides"),
    [
        ((2, 3), None, (3, 1)),
        ((), None, ()),
        ((3, 2), (1, 0), (1, 3)),
        ((2, 3, 4), (1, 0, 2), (4, 8, 1)),
        ((4, 3), (1,), (0, 1)),
        ((4, 3), (0,), (1, 0)),
        ((4, 3), (), (0, 0)),
        ((1,), None, (1,)),
    ],
)
def test_strides_of_a_layout(sizes: tuple[int, ...], layout: tuple[int, ...] | None, strides: tuple[int, ...]) -> None:
    assert _calls._strides(sizes, layout) == strides


def test_strides_of_a_layout_without_its_dimension_of_one() -> None:
    first, _, last = _calls._strides((3, 1, 2), (2, 0))
    assert (first, last) == (1, 3)


@pytest.mark.parametrize(
    ("name", "overload", "route"),
    [
        ("aten::add", "Tensor", dispatch.COMPILE),
        ("aten::normal_", "", dispatch.FALLBACK),
        ("aten::bernoulli_", "float", dispatch.FALLBACK),
        ("aten::nonzero", "", dispatch.HOST),
        ("aten::masked_select", "", dispatch.HOST),
        ("aten::_unique2", "", dispatch.FALLBACK),
        ("aten::equal", "", dispatch.FALLBACK),
        ("aten::index", "Tensor", dispatch.COMPILE),
        ("aten::native_dropout", "", dispatch.COMPILE),
    ],
)
def test_route(name: str, overload: str, route: int) -> None:
    assert dispatch.describe_op(name, overload)[0] == route


def test_every_op_of_the_device_can_be_described() -> None:
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"):
        base, _, overload = name.partition(".")
        if base.startswith("aten::"):
            op = dispatch.overload(base, overload)
            assert len(dispatch.describe_op(base, overload)[2]) == len(op._schema.arguments)


class Lower:
    """Stands in for `lower`: fails as told and counts."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.calls = 0

    def __call__(self, call: object) -> Any:
        self.calls += 1
        raise self.error


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Lower:
    stand_in = Lower(error)
    monkeypatch.setattr(lowering, "lower", stand_in)
    torch_neuronx._C._clear_compilation_cache()
    return stand_in


@pytest.fixture
def x() -> Any:
    tensor = torch.tensor([[0.0, 1.0, 2.0]], device=DEVICE)
    yield tensor
    shim().clear_plans()


def test_an_op_that_does_not_lower_falls_back_for_good(monkeypatch: pytest.MonkeyPatch, x: torch.Tensor) -> None:
    lower = failing(monkeypatch, Unlowerable("no such thing"))
    assert [x.neg().tolist() for _ in range(3)] == [[[0, -1, -2]]] * 3
    assert lower.calls == 1
    assert [(plan[0], plan[1], plan[4]) for plan in shim().plans()] == [("aten::neg", "fallback", "no such thing")]


@pytest.mark.parametrize("error", [OSError("disk full"), MemoryError("no memory")], ids=repr)
def test_a_passing_failure_is_not_remembered(
    monkeypatch: pytest.MonkeyPatch, x: torch.Tensor, error: Exception
) -> None:
    lower = failing(monkeypatch, error)
    assert [x.neg().tolist() for _ in range(2)] == [[[0, -1, -2]]] * 2
    assert lower.calls == 2 and shim().plans() == []


def test_a_passed_failure_compiles(monkeypatch: pytest.MonkeyPatch, x: torch.Tensor) -> None:
    with monkeypatch.context() as patch:
        failing(patch, OSError("disk full"))
        x.neg()
    x.neg()
    assert [plan[:2] for plan in shim().plans()] == [("aten::neg", "compiled")]


def test_a_fault_in_the_lowering_reaches_the_user(monkeypatch: pytest.MonkeyPatch, x: torch.Tensor) -> None:
    failing(monkeypatch, ZeroDivisionError("a fault"))
    with pytest.raises(ZeroDivisionError, match="a fault"):
        x.neg()


def test_an_op_works_after_a_fault_in_the_lowering(monkeypatch: pytest.MonkeyPatch, x: torch.Tensor) -> None:
    with monkeypatch.context() as patch:
        failing(patch, ZeroDivisionError("a fault"))
        with pytest.raises(ZeroDivisionError):
            x.neg()
    assert x.neg().tolist() == [[0, -1, -2]]


@pytest.mark.parametrize("op", ["add", "mul"])
def test_a_composite_op_that_does_not_lower_runs_as_its_parts(
    monkeypatch: pytest.MonkeyPatch, x: torch.Tensor, op: str
) -> None:
    failing(monkeypatch, Unlowerable("no such thing"))
    y = getattr(torch, f"_foreach_{op}")([x, x], 2)
    assert [part.tolist() for part in y] == [getattr(torch, op)(x.cpu(), 2).tolist()] * 2


@pytest.mark.parametrize(("elements", "tier"), [((1 << 17) - 1, "eager"), (1 << 17, "large")])
def test_an_op_on_many_elements_is_optimised(monkeypatch: pytest.MonkeyPatch, elements: int, tier: str) -> None:
    tiers: list[str] = []

    def obtain(unit: Any) -> Any:
        tiers.append(unit.tier)
        raise Unlowerable("only its tier matters")

    monkeypatch.setattr(dispatch, "_obtain", obtain)
    x = torch.empty(elements, device=DEVICE)
    torch.hypot(x, x)
    assert tiers == [tier]


def test_a_compile_tells_nothing_to_the_programs_own_log(caplog: pytest.LogCaptureFixture) -> None:
    """torch-mlir would, three lines for each graph, to who has set the root logger to DEBUG."""
    with caplog.at_level(logging.DEBUG):
        assert torch.ones(3, 1, 41, device=DEVICE).mul(2).sum().item() == 246
    assert [record.message for record in caplog.records if record.name == "root"] == []
