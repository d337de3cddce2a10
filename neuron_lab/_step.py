"""The program that is compared, as either side calls it; a training step is its loss with the gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from neuron_lab.errors import UsageProblem


@dataclass(frozen=True, slots=True)
class Trained:
    """What the program gave, and the gradients of its loss by name."""

    result: Any
    gradients: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """The program, called with the user's arguments by either side."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    train: bool
    names: Mapping[int, str]
    """Of parameters, by id."""

    def __call__(self, function: Callable[..., Any]) -> Any:
        result = function(*self.args, **self.kwargs)
        if not self.train:
            return result
        gradients = {
            f"{self.names.get(leaf, f'input {index}')}.grad": gradient
            for index, (leaf, gradient) in enumerate(_gradients(_loss(result)))
            if gradient is not None
        }
        return Trained(result, gradients)


def _loss(result: Any) -> Any:
    import torch

    loss = result if isinstance(result, torch.Tensor) else getattr(result, "loss", None)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.grad_fn is None:
        raise UsageProblem(
            "not comparable: train needs a loss, one differentiable number or an object with .loss; "
            f"the function gave {type(result).__name__} (a cell gives the value of its last line, an expression)"
        )
    return loss


def _gradients(loss: Any) -> list[tuple[int, Any]]:
    """By every leaf that the loss depends on, with its id, in the order of ids; nothing is added to their .grad."""
    import torch

    leaves: dict[int, Any] = {}
    open_, seen = [loss.grad_fn], set()
    while open_:
        node = open_.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves[id(node.variable)] = node.variable
        open_ += [before for before, _ in node.next_functions]
    ids = sorted(leaves)
    return list(zip(ids, torch.autograd.grad(loss, [leaves[i] for i in ids], allow_unused=True), strict=True))
