"""Whose code runs: which files are the user's, what a module's path is, and which frames are an optimizer's. For both recorders."""

from __future__ import annotations

import functools
import inspect
import os
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch.nn import Module

# torch.compile's wrapper holds the module under this name; the path is the one it has without.
_COMPILED = "_orig_mod"
_PACKAGE = __name__.partition(".")[0]


class FrameRules(NamedTuple):
    """What a recorder needs to judge a frame; the shim's `set_frame_rules` takes the fields in this order."""

    is_user_file: Callable[[str], bool]
    name_modules: Callable[[list[Module]], list[tuple[Module, str]]]
    module_call: CodeType
    optimizer: list[CodeType]


def frame_rules() -> FrameRules:
    """The rules for this process's torch."""
    from torch.nn import Module
    from torch.optim import Optimizer

    step = Optimizer.profile_hook_step(_nothing)  # what PyTorch puts around every optimizer's step
    return FrameRules(
        is_user_file,
        name_modules,
        Module._wrapped_call_impl.__code__,
        [step.__code__, inspect.unwrap(Optimizer.zero_grad).__code__],
    )


def _nothing() -> None:
    pass


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    ours = Path(__file__).parent
    # The magics lie beside the package in a checkout, and in site-packages otherwise.
    return tuple(f"{folder}{os.sep}" for folder in (*folders, ours, ours.parent / "magics"))


def is_user_file(name: str) -> bool:
    """Whether code of this file is the user's own, not of Python, an installed library or this package."""
    return not name.startswith(("<", *_library_folders())) or name.startswith("<ipython-input")


def name_modules(callers: list[Module]) -> list[tuple[Module, str]]:
    """The path of the first of `callers`, the running modules from the innermost outwards, and of its relatives.

    A path starts at the outermost caller that has the module among its own: "TransformerEncoder.layers.0.linear1". A module that
    a compiler made has the path of its caller.
    """
    written = [module for module in callers if not _is_generated(module)] or callers
    for root in reversed(written):
        named = list(_tree(root))
        for module, path in named:
            if module is written[0]:
                return [*named, (callers[0], path)]
    return [(callers[0], type(written[0]).__name__)]


def _is_generated(module: Module) -> bool:
    from torch.fx import GraphModule

    return isinstance(module, GraphModule) or type(module).__module__.startswith(_PACKAGE)


def _tree(root: Module) -> Iterator[tuple[Module, str]]:
    title = type(root._modules.get(_COMPILED) or root).__name__
    for path, part in root.named_modules():
        own = ".".join([title, *(name for name in path.split(".") if name not in ("", _COMPILED))])
        yield part, own.encode(errors="replace").decode()  # the shim keeps UTF-8
