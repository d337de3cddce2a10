"""Give the process a `neuron` device: the name at once, the C++ shim when it is first needed."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from neuron_lab._scopes import frame_rules
from neuron_lab.emulator import _logging, build
from neuron_lab.errors import NeuronLabError

DEVICE = "neuron"
FORKED = "Cannot re-initialize Neuron runtime in forked subprocess. To use Neuron with multiprocessing, use the 'spawn' start method"
_SITE = Path(__file__).parent / "api" / "site"

_lock = threading.RLock()
_attached = False
_used = False
_shim: ModuleType | None = None


def stands_aside() -> str | None:
    """Why the emulator leaves the name `neuron` to another backend, or None when it is free."""
    import torch

    spec = importlib.util.find_spec("torch_neuronx")
    if spec is not None and spec.origin is not None and not Path(spec.origin).is_relative_to(_SITE):
        return f"torch_neuronx is installed at {Path(spec.origin).parent}"
    name = torch._C._get_privateuse1_backend_name()
    if name not in ("privateuseone", DEVICE) or (name == DEVICE and not _attached and hasattr(torch, DEVICE)):
        return f"PyTorch's private device is already taken by the backend {name!r}"
    return None


def is_attached() -> bool:
    """Whether the emulator serves `neuron` in this process."""
    return _attached


def attach() -> bool:
    """Register the device; False when a real backend has the name. Never compiles anything: an unbuilt shim waits for first use."""
    global _attached
    import torch  # which calls this function, through its autoload, before it returns

    with _lock:
        if _attached:
            return True
        if stands_aside() is not None:
            return False
        from torch.utils.backend_registration import (
            generate_methods_for_privateuse1_backend,
            rename_privateuse1_backend,
        )

        rename_privateuse1_backend(DEVICE)
        from neuron_lab.emulator import _compile_default, _fake_layouts, _flops
        from neuron_lab.emulator.api import absent, interchange, metrics, neuron  # noqa: F401  # metrics count from here on if they are asked to

        torch._register_device_module(DEVICE, neuron)  # type: ignore[no-untyped-call]
        sys.modules[f"torch.{DEVICE}.memory"] = neuron.memory
        generate_methods_for_privateuse1_backend(for_storage=True)
        interchange.install()
        absent.install()
        _compile_default.install()
        _fake_layouts.install()
        _flops.install()
        _attached = True
        if not _load_if_built():
            _hold_the_place(torch)
        return True


def _load_if_built() -> bool:
    """Load the shim when that takes no compiler. What is wrong with it is told at first use: a program that never touches the
    device must not fail for it."""
    try:
        if not build.is_built():
            return False
        shim()
    except (NeuronLabError, OSError):
        return False
    return True


def shim() -> ModuleType:
    """The C++ shim, started; builds it at the first call on this machine. Raises BuildProblem."""
    global _shim
    if _shim is not None:
        return _shim
    with _lock:
        import torch  # noqa: F401  # its autoload may attach the device, which comes back here

        if _shim is None:
            module = build.load()
            _start(module)
            _shim = module
        return _shim


def use() -> None:
    """Called when the program first touches the device. Raises RuntimeError in a forked child."""
    global _used
    if _forked:
        raise RuntimeError(FORKED)
    shim()
    _used = True


def is_used() -> bool:
    """Whether the program has touched the device."""
    return _used


def is_started() -> bool:
    """Whether the shim is loaded."""
    return _shim is not None


def _start(module: ModuleType) -> None:
    from neuron_lab.emulator.driver import chip, visible_cores

    unit = chip()
    module.start(visible_cores(unit), unit.hbm_bytes)
    rules = frame_rules()
    _hide_from_dynamo(_describe_op, _make_plan, rules.is_user_file, rules.name_modules)
    module.set_callbacks(_describe_op, _make_plan)
    _logging.configure()
    module.set_frame_rules(*rules)
    os.register_at_fork(after_in_child=functools.partial(_after_fork, module))
    atexit.register(_let_autograd_finish)


def _let_autograd_finish() -> None:
    """At the end of the process, let go of the GIL for a moment.

    A backward on a device has a thread of its own, which gives back the program's callbacks after `backward()` has returned. When it
    asks for the GIL of an interpreter that is going, Python ends the thread, and with it the process: "terminate called".
    """
    time.sleep(0.005)


def _hide_from_dynamo(*functions: Callable[..., Any]) -> None:
    """An op between two of Dynamo's graphs calls them in a frame that Dynamo watches: it must not trace them, nor what they call.

    What `torch._dynamo.disable` does, without the second that importing Dynamo takes.
    """
    from torch._C._dynamo import eval_frame

    skip = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)
    for function in functions:
        eval_frame.set_code_exec_strategy(function.__code__, skip)


def _describe_op(*args: Any) -> Any:
    from neuron_lab.emulator import dispatch

    return dispatch.describe_op(*args)


def _make_plan(*args: Any) -> Any:
    from neuron_lab.emulator import dispatch

    return dispatch.make_plan(*args)


_forked = False


def _after_fork(module: ModuleType) -> None:
    global _forked
    if _used:
        _forked = True
        module.forbid_after_fork()


def is_forked() -> bool:
    """Whether this is a forked child of a process that had started the device."""
    return _forked


def _hold_the_place(torch: Any) -> None:
    """Give autograd one core to count until the shim is built.

    It sizes its thread pool at the first backward of the process, which may well be the CPU's, before the real device guard
    exists. PyTorch's Python guard says one core: in the process that builds the shim after such a backward, only `neuron:0`
    can run a backward of its own.
    """

    class Placeholder(torch._C._acc.DeviceGuard):  # type: ignore[misc]  # a pybind class
        def type_(self) -> Any:
            return torch._C._autograd.DeviceType.PrivateUse1

    guard = Placeholder()
    _placeholders.append(guard)
    torch._C._acc.register_python_privateuseone_device_guard(guard)


_placeholders: list[Any] = []  # PyTorch keeps a bare pointer
