"""Matrix products in groups that a tensor delimits, as mixtures of experts want them."""

from __future__ import annotations

import torch
from torch import Tensor

from .._promotion import cast, computation_dtype
from .._registry import decompose

aten = torch.ops.aten


def _members(ends: Tensor, count: int) -> Tensor:
    """For each group whether each of ``count`` rows belongs to it: the first group that ends behind the row."""
    rows = torch.arange(count, dtype=ends.dtype)
    before = torch.lt(rows, torch.unsqueeze(ends, 1))
    return torch.logical_and(before, torch.eq(torch.cumsum(cast(before, torch.int32), 0), 1))


@decompose(aten._grouped_mm.default, described=False)
def grouped_mm(
    self: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Every group's product with every row, of which each row keeps its own: sizes cannot depend on ``offs``.

    Rows behind the last group are 0; the CPU leaves them as they are in memory.
    """
    if bias is not None:
        return NotImplemented  # type: ignore[no-any-return]
    wide = computation_dtype(self.dtype)
    left, right = cast(self, wide), cast(mat2, wide)
    zero = torch.zeros([], dtype=wide)
    if offs is None:
        product = torch.bmm(left, right)
    elif self.dim() == 2 and mat2.dim() == 2:
        inside = _members(offs, self.shape[1])
        product = torch.bmm(
            torch.where(torch.unsqueeze(inside, 1), left, zero), torch.where(torch.unsqueeze(inside, 2), right, zero)
        )
    else:
        rows = self.dim() == 2
        inside = _members(offs, self.shape[0] if rows else mat2.shape[1])
        groups = offs.shape[0]
        each = torch.bmm(
            left.expand([groups, *left.shape[-2:]]),
            right.expand([groups, *right.shape[-2:]]),
        )
        product = torch.sum(torch.where(torch.unsqueeze(inside, 2 if rows else 1), each, zero), 0)
    return cast(product, out_dtype or self.dtype)
