"""How far two tensors are apart."""

from __future__ import annotations

import pytest
import torch

from neuron_lab._closeness import differences, same_values

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("got", "want", "apart"),
    [
        (1.0, NAN, (INF, INF)),
        (NAN, 1.0, (INF, INF)),
        (1.0, INF, (INF, INF)),
        (INF, -INF, (INF, INF)),
        (1.0, 0.0, (1.0, INF)),
        (3.0, 2.0, (1.0, 0.5)),
        (NAN, NAN, (0.0, 0.0)),
        (INF, INF, (0.0, 0.0)),
        (0.0, -0.0, (0.0, 0.0)),
    ],
)
def test_what_is_no_number_is_never_close_to_one(got: float, want: float, apart: tuple[float, float]) -> None:
    (row,) = differences({"y": torch.tensor([got, 5.0])}, {"y": torch.tensor([want, 5.0])})
    assert (row.max_abs, row.max_rel) == apart


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint64])
def test_whole_numbers_that_one_double_stands_for(dtype: torch.dtype) -> None:
    one, other = (torch.tensor([2**60 + n, 7], dtype=dtype) for n in range(2))
    (row,) = differences({"y": one}, {"y": other})
    assert row.max_abs == 1
    assert not same_values(one, other)
    assert same_values(one, one.clone())
