"""Margin losses, as aten/src/ATen/native/LossMultiMargin.cpp and LossMultiLabelMargin.cpp."""

# mypy: disable-error-code="no-any-return, no-untyped-call"

from __future__ import annotations

import torch
from torch import Tensor

from .._promotion import cast, computation_dtype
from .._records import Unlowerable
from .._registry import decompose

aten = torch.ops.aten

_NONE, _MEAN = 0, 1
"""Values of ``reduction``; 2 is the sum."""

_LARGEST = 1 << 24
"""Pairs of classes over all rows beyond which a loss stays on the CPU."""


def _rows(tensor: Tensor) -> Tensor:
    """[rows, classes] in the computation type."""
    wide = cast(tensor, computation_dtype(tensor.dtype)) if tensor.is_floating_point() else tensor
    return torch.reshape(wide, [-1, tensor.size(-1)]) if tensor.dim() else torch.reshape(wide, [1, 1])


def _shares(grad_output: Tensor, rows: Tensor, reduction: int) -> Tensor:
    """What one hit counts in the gradient of every row: [rows or 1, 1]."""
    count, classes = rows.shape
    grad = torch.reshape(cast(grad_output, rows.dtype), [-1, 1])
    return torch.div(grad, float(classes * count if reduction == _MEAN else classes))


class _Gaps:
    """By how much every other class comes too near to the wanted one, and where it does; [rows, classes]."""

    def __init__(self, self_: Tensor, target: Tensor, margin: float, weight: Tensor | None) -> None:
        self.rows, goal = _rows(self_), torch.reshape(target, [-1, 1])
        self.own = torch.eq(torch.arange(self.rows.size(1)), goal)
        self.gap = torch.add(torch.sub(self.rows, torch.gather(self.rows, 1, goal)), float(margin))
        self.hit = torch.logical_and(torch.gt(self.gap, 0), torch.logical_not(self.own))
        self._weight = weight
        self._goal = goal

    def weighted(self, values: Tensor) -> Tensor:
        """``values`` times the weight of each row's class, and zero where there is no hit."""
        if self._weight is not None:
            chosen = torch.index_select(cast(self._weight, self.rows.dtype), 0, torch.reshape(self._goal, [-1]))
            values = torch.mul(values, torch.reshape(chosen, [-1, 1]))
        return torch.where(self.hit, values, torch.zeros([], dtype=self.rows.dtype))


@decompose(aten.multi_margin_loss.default, described=False)
def multi_margin_loss(
    self: Tensor,
    target: Tensor,
    p: float = 1,
    margin: float = 1,
    weight: Tensor | None = None,
    reduction: int = _MEAN,
) -> Tensor:
    """PyTorch's own metadata gives one row a dim that the CPU's result does not have."""
    gaps = _Gaps(self, target, margin, weight)
    terms = gaps.weighted(gaps.gap if p == 1 else torch.mul(gaps.gap, gaps.gap))
    losses = torch.div(torch.sum(terms, [1]), float(gaps.rows.size(1)))
    if reduction == _NONE:
        loss = losses if target.dim() else torch.reshape(losses, [])
    else:
        loss = torch.div(torch.sum(losses), float(gaps.rows.size(0) if reduction == _MEAN else 1))
    return cast(loss, self.dtype)


@decompose(aten.multi_margin_loss_backward.default)
def multi_margin_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    p: float,
    margin: float,
    weight: Tensor | None = None,
    reduction: int = _MEAN,
) -> Tensor:
    gaps = _Gaps(self, target, margin, weight)
    pull = _shares(grad_output, gaps.rows, reduction)
    others = gaps.weighted(torch.mul(pull, 1.0 if p == 1 else torch.mul(gaps.gap, 2.0)))
    grad = torch.where(gaps.own, torch.neg(torch.sum(others, [1], True)), others)
    return cast(torch.reshape(grad, self.shape), self.dtype)


class _Labels:
    """The classes named in each row, up to the first -1, and by how much every other class comes too near to each."""

    def __init__(self, self_: Tensor, target: Tensor) -> None:
        self.rows, goal = _rows(self_), _rows(target)
        count, classes = self.rows.shape
        if count * classes * classes > _LARGEST:
            raise Unlowerable(f"{count} x {classes} x {classes} pairs of classes are too many")
        ended = torch.cumsum(cast(torch.lt(goal, 0), torch.int64), 1)
        named = torch.unsqueeze(torch.eq(ended, 0), -1)
        self.own = torch.logical_and(named, torch.eq(torch.unsqueeze(goal, -1), torch.arange(classes)))
        """[rows, slots, classes]: whether the slot names the class."""
        self.is_target = torch.any(self.own, 1)
        value = torch.unsqueeze(torch.gather(self.rows, 1, torch.clamp(goal, min=0)), -1)
        gap = torch.add(torch.sub(torch.unsqueeze(self.rows, 1), value), 1.0)
        rivals = torch.logical_not(torch.unsqueeze(self.is_target, 1))
        self.hit = torch.logical_and(torch.logical_and(named, rivals), torch.gt(gap, 0))
        self.gap = torch.where(self.hit, gap, torch.zeros([], dtype=gap.dtype))


@decompose(aten.multilabel_margin_loss_forward.default, described=False)
def multilabel_margin_loss_forward(self: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """PyTorch's own decomposition is wrong behind a -1, and gives one row a dim that the CPU's result does not have."""
    labels = _Labels(self, target)
    count, classes = labels.rows.shape
    losses = torch.div(torch.sum(labels.gap, [1, 2]), float(classes))
    if reduction == _NONE:
        loss = losses if target.dim() > 1 else torch.reshape(losses, [])
    else:
        loss = torch.div(torch.sum(losses), float(count if reduction == _MEAN else 1))
    return cast(loss, self.dtype), cast(torch.reshape(labels.is_target, target.shape), self.dtype)


@decompose(aten.multilabel_margin_loss_backward.default)
def multilabel_margin_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, is_target: Tensor
) -> Tensor:
    labels = _Labels(self, target)
    hits = cast(labels.hit, labels.rows.dtype)
    pulls = torch.mul(cast(labels.own, hits.dtype), torch.sum(hits, [2], True))
    counted = torch.sum(torch.sub(hits, pulls), [1])
    grad = torch.mul(counted, _shares(grad_output, labels.rows, reduction))
    return cast(torch.reshape(grad, self.shape), self.dtype)
