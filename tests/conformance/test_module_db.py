"""PyTorch's own module and optimizer samples on the device: outputs, gradients and steps are the CPU's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

from tests.emulated import DEVICE

from .op_samples import difference, moved, tensors

pytestmark = pytest.mark.filterwarnings("ignore")

SAMPLES = 2
STEPS = 3


class _Frozen:
    """The state of one module on one device after a call."""

    def __init__(self, module: torch.nn.Module, arguments: tuple[list[Any], dict[str, Any]]) -> None:
        torch.manual_seed(0)
        positional, keywords = arguments
        self.output: Any = module(*positional, **keywords)
        outputs = [t for t in tensors(self.output) if t.requires_grad]
        sources = [t for t in tensors([positional, keywords]) if t.requires_grad]
        sources += [p for p in module.parameters() if p.requires_grad]
        torch.manual_seed(1)
        cotangents = [torch.randn(t.shape, dtype=t.dtype).to(t.device) for t in outputs]
        self.gradients = (
            list(torch.autograd.grad(outputs, sources, cotangents, allow_unused=True)) if outputs and sources else []
        )
        self.buffers = [b.clone() for b in module.buffers()]


def _samples(info: Any, training: bool) -> Iterator[Any]:
    torch.manual_seed(0)
    found = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
    return itertools.islice((s for s in found if s.forward_input is not None), SAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("info", module_db, ids=[info.name for info in module_db])
def test_a_module_equals_the_cpus(info: Any, training: bool) -> None:
    if torch.float32 not in info.dtypes:
        pytest.skip("takes no float32")
    if info.is_lazy:
        pytest.skip("is the sample of another module behind a shape that comes late")
    for sample in _samples(info, training):
        results = []
        for device in ("cpu", DEVICE):
            torch.manual_seed(0)
            build = sample.constructor_input
            module = info.module_cls(*moved(build.args, device, True), **moved(build.kwargs, device, True))
            module = module.to(device, torch.float32).train(training)
            forward = sample.forward_input
            arguments = moved(list(forward.args), device, True), moved(forward.kwargs, device, True)
            results.append(_Frozen(module, arguments))
        cpus, ours = results
        for part in ("output", "gradients", "buffers"):
            found = difference(getattr(ours, part), getattr(cpus, part), values=True)
            assert not found, f"{part}: {found} ({sample.desc})"


def _optimizers() -> Iterator[Any]:
    for info in optim_db:
        if info.optim_cls is torch.optim.SparseAdam:
            continue  # takes sparse gradients only
        ways: list[dict[str, bool]] = [{}]
        if "foreach" in info.supported_impls:
            ways = [{"foreach": False}, {"foreach": True}]
        if "fused" in info.supported_impls and "cpu" in info.supports_fused_on:
            ways.append({"fused": True})
        for way in ways:
            name = info.optim_cls.__name__
            yield pytest.param(info, way, id="-".join([name, *(f"{k}={v}" for k, v in way.items())]))


def _steps(info: Any, options: dict[str, Any], device: str) -> list[Tensor]:
    """Parameters and state after some steps on a small least-squares problem.

    In float64: RMSprop and LBFGS divide by small numbers, which makes much of a last bit. LBFGS iterates within a step.
    """
    torch.manual_seed(0)
    parameters = [
        torch.randn(4, 3, dtype=torch.float64).to(device).requires_grad_(),
        torch.randn(5, 4, dtype=torch.float64).to(device).requires_grad_(),
    ]
    x, y = torch.randn(6, 3, dtype=torch.float64).to(device), torch.randn(6, 5, dtype=torch.float64).to(device)
    optimizer = info.optim_cls(parameters, **options)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = ((x @ parameters[0].T).tanh() @ parameters[1].T - y).square().mean()
        loss.backward()
        return loss

    losses = []
    for _ in range(1 if info.step_requires_closure else STEPS):
        loss = closure()
        if info.step_requires_closure:
            optimizer.step(closure)
        else:
            optimizer.step()
        losses.append(loss.detach())
    state = [value for p in parameters for value in optimizer.state[p].values() if isinstance(value, Tensor)]
    return [*(p.detach() for p in parameters), *losses, *state]


@pytest.mark.parametrize(("info", "way"), list(_optimizers()))
def test_an_optimizer_steps_as_the_cpus(info: Any, way: dict[str, bool]) -> None:
    for sample in info.optim_inputs_func(device="cpu"):
        options = {**sample.kwargs, **way}
        found = difference(_steps(info, options, DEVICE), _steps(info, options, "cpu"), values=True)
        assert not found, f"{sample.desc}: {found}"
