"""Physical layouts, written leaves, returns, records."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from neuron_lab.emulator.lowering import ExecPlan, Leaf, LeafRef, OpCall, Output, Unlowerable, lifts_numbers, lower

from ._runner import check

aten = torch.ops.aten


def _ramp(*sizes: int) -> torch.Tensor:
    return torch.linspace(-1, 1, steps=torch.Size(sizes).numel()).reshape(sizes)


TRANSPOSED = _ramp(8, 4).t()
ROTATED = _ramp(2, 3, 4).permute(2, 0, 1)
LAST = _ramp(2, 3, 4, 5).to(memory_format=torch.channels_last)
EXPANDED = _ramp(4, 1).expand(4, 8)

CALLS: list[tuple[Any, ...]] = [
    (aten.add.Tensor, TRANSPOSED, TRANSPOSED),
    (aten.add.Tensor, TRANSPOSED, _ramp(4, 8)),
    (aten.add_.Tensor, TRANSPOSED, _ramp(4, 8)),
    (aten.exp, ROTATED),
    (aten.sum.dim_IntList, ROTATED, [1]),
    (aten.relu, LAST),
    (aten.add.Tensor, LAST, _ramp(3, 1, 1)),
    (aten.mul.Tensor, EXPANDED, _ramp(4, 8)),
    (aten.mul.Tensor, EXPANDED, EXPANDED),
    (aten._softmax, TRANSPOSED, -1, False),
    (aten.cat, [TRANSPOSED, TRANSPOSED], 0),
    (aten.cat, [LAST, LAST], 1),
    (aten.native_layer_norm, TRANSPOSED, [8], None, None, 1e-5),
    (aten.mm, TRANSPOSED, _ramp(4, 8).t()),
    (aten.native_batch_norm, LAST, None, None, torch.zeros(3), torch.ones(3), True, 0.1, 1e-5),
    (aten.clone, ROTATED),
    (aten._to_copy, TRANSPOSED),
    (aten.add.Tensor, _ramp(4, 1, 8).permute(2, 1, 0), _ramp(8, 1, 4)),
    (aten.max_pool2d_with_indices, LAST, [2, 2]),
    (aten.avg_pool2d, LAST, [2, 2]),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: str(call[0]))
def test_strides_are_those_of_the_cpu(call: tuple[Any, ...]) -> None:
    check(*call)


def test_out_is_written_in_its_own_dtype() -> None:
    x = _ramp(4, 8)
    lowered = check(aten.add.out, x, x, out=torch.empty(4, 8, dtype=torch.float64))
    assert lowered.plan.returns == (("leaf", 2),)
    assert lowered.plan.writes == ((0, 2),)
    check(aten.max.dim_max, x, 1, max=torch.empty(4), max_values=torch.empty(4, dtype=torch.long))


def test_written_leaf_that_is_not_read_is_no_input() -> None:
    lowered = check(aten.zero_, _ramp(3))
    assert lowered.plan.inputs == ()


def test_plan_survives_json() -> None:
    plan = ExecPlan(
        (0, 2), (Output("float32", (2, 3), (1, 2)),), ((0, 1),), (("list", (("out", 0), ("leaf", 1))), ("none",))
    )
    assert ExecPlan.from_json(plan.to_json()) == plan


def test_lifted_numbers_are_told_by_argument() -> None:
    assert lifts_numbers(aten.add.Tensor) == (False, False, True)
    assert lifts_numbers(aten.add_.Scalar) == (False, True, True)
    assert lifts_numbers(aten.pow.Tensor_Scalar) == (False, False)
    assert lifts_numbers(aten.sum.dim_IntList) == (False,) * 4


def _call(op: torch._ops.OpOverload, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> OpCall:
    leaves = tuple(Leaf(dtype, shape, torch.empty(shape).stride(), None) for shape in shapes)
    return OpCall(op, tuple(LeafRef(i) for i in range(len(shapes))), {}, leaves, torch.float32)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (_call(aten.linalg_eig.default, (3, 3)), "no lowering for aten::linalg_eig"),
        (_call(aten.mm.default, (3, 4), (3, 4)), "aten::mm: "),
        (_call(aten.add_.Tensor, (3, 1), (3, 4)), "does not fit"),
        (_call(aten.gelu.default, (3,), dtype=torch.int64), "takes floats"),
        (_call(aten.abs.default, (3,), dtype=torch.uint64), "uint64"),
        (_call(aten.bitwise_left_shift.Tensor, (3,), (3,)), "shifts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusal_names_op_and_cause(call: OpCall, reason: str) -> None:
    with pytest.raises(Unlowerable, match=reason) as caught:
        lower(call)
    assert str(caught.value).startswith(call.op._schema.name)
    assert "\n" not in str(caught.value)


def test_refusal_leaves_no_mode_behind() -> None:
    with pytest.raises(Unlowerable):
        lower(_call(aten.copysign.Tensor, (3, 4), (5,)))
    assert type(torch.zeros(2)) is torch.Tensor
    check(aten.relu, _ramp(3))
