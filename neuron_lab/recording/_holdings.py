"""Live device tensors and who holds them."""

from __future__ import annotations

import gc
import types
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Deep enough for a dict of lists in an object; a graph of objects without end is not followed.
_DEPTH = 4
_ITEMS = 2000
# Of a core's HBM, what the notebook's own history has to keep alive before it is worth a word.
WORTH_TELLING = 0.01
_KEPT = 16
_GRAPH = "graph of "
_KINDS = ("parameters", "gradients", "optimizer state", "activations", "other")
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType, types.BuiltinFunctionType)


@dataclass(frozen=True, slots=True)
class Holding:
    """One block of HBM in use. `names` are the ways to it, the user's own first; empty when only a temporary or PyTorch holds it.

    "graph of loss": kept for the backward of `loss`.
    `kind` is "parameters", "gradients", "optimizer state", "activations" (a result of autograd) or "other". `history`: an activation
    or other tensor that only the notebook's own history leads to.
    """

    names: tuple[str, ...]
    kind: str
    core: int
    bytes: int
    shape: tuple[int, ...]
    dtype: str
    history: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """HBM that only the notebook's own history keeps alive: `name` is "Out[3]" or "last traceback: x of f()"."""

    name: str
    core: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Root:
    """Where a search for names starts: `name` is what the user would type, or says who holds the value.

    `history`: the notebook keeps it, no variable of the user's.
    """

    name: str
    value: Any
    history: bool = False


def holdings(roots: list[Root]) -> tuple[Holding, ...]:
    """Every block of HBM that a Python tensor uses, the largest first; views of one block are one holding."""
    blocks = _blocks()
    names = _Names(roots, [tensor for tensors in blocks.values() for tensor in tensors])
    found = [_holding(tensors, place[0], names) for place, tensors in blocks.items()]
    return tuple(sorted(found, key=lambda item: (-item.bytes, item.names)))


def kept(roots: list[Root]) -> tuple[Kept, ...]:
    """What only roots with `history` keep alive, also for a backward that nobody will ask for; the largest first."""
    sizes: Counter[tuple[str, int]] = Counter()
    for item in holdings(roots):
        if item.history:
            sizes[item.names[0].removeprefix(_GRAPH), item.core] += item.bytes
    return tuple(Kept(name, core, nbytes) for (name, core), nbytes in sizes.most_common(_KEPT))


def _blocks() -> dict[tuple[int, int], list[Any]]:
    """The tensors of each block of HBM, by core and address."""
    import torch

    blocks: dict[tuple[int, int], list[torch.Tensor]] = {}
    for item in gc.get_objects():
        # type() rather than isinstance(): a lazy proxy must not wake up because it was looked at.
        if issubclass(type(item), torch.Tensor) and (place := _block(item)) is not None:
            blocks.setdefault(place, []).append(item)
    return blocks


def _block(tensor: Any) -> tuple[int, int] | None:
    """Core and address; None for a tensor that has no HBM of its own."""
    if tensor.device.type != "neuron" or type(tensor).__name__ in ("FakeTensor", "FunctionalTensor"):
        return None
    storage = tensor.untyped_storage()
    return (int(tensor.device.index or 0), int(storage.data_ptr())) if storage.nbytes() else None


def _holding(tensors: list[Any], core: int, names: _Names) -> Holding:
    known = [entry for tensor in tensors for entry in names.of(tensor)]
    users = any(names.users(tensor) for tensor in tensors)
    kinds = [kind for _, kind in known if kind] + [
        "activations" if tensor.grad_fn is not None else "other" for tensor in tensors
    ]
    kind = min(kinds, key=_KINDS.index)
    largest = max(tensors, key=lambda tensor: int(tensor.numel()))
    return Holding(
        names=tuple(dict.fromkeys(name for name, _ in known)),
        kind=kind,
        core=core,
        bytes=int(largest.untyped_storage().nbytes()),
        shape=tuple(largest.shape),
        dtype=str(largest.dtype).removeprefix("torch."),
        # A module that lies too deep for a name is the user's all the same, so that weights and what belongs to them never count.
        history=bool(known) and not users and kind in _KINDS[-2:],
    )


class _Names:
    """Names of tensors, found by walking from the roots; the first root that reaches an object names it."""

    def __init__(self, roots: list[Root], tensors: list[Any]) -> None:
        self._names: dict[int, list[tuple[str, str]]] = {}
        self._users: set[int] = set()
        self._seen: dict[int, Any] = {}
        self._history = False
        for root in sorted(roots, key=lambda root: root.history):
            self._history = root.history
            self._walk(root.value, root.name, _DEPTH)
        self._name_graphs(tensors)

    def _name_graphs(self, tensors: list[Any]) -> None:
        """A tensor without a name is kept for the backward of one that has a name, if it is a result on the way there."""
        nodes: dict[Any, tuple[str, bool]] = {}
        named = [tensor for tensor in tensors if tensor.grad_fn is not None and self.of(tensor)]
        for tensor in sorted(named, key=self.users, reverse=True):
            owner, left = (self.of(tensor)[0][0], self.users(tensor)), [tensor.grad_fn]
            while left:
                node = left.pop()
                if node is not None and node not in nodes:  # what follows a known node is known
                    nodes[node] = owner
                    left += [following for following, _ in node.next_functions]
        for tensor in tensors:
            if not self.of(tensor) and tensor.grad_fn in nodes:
                name, users = nodes[tensor.grad_fn]
                self._history = not users
                self._note(tensor, f"{_GRAPH}{name}", "")

    def of(self, tensor: Any) -> list[tuple[str, str]]:
        """(name, kind) of a tensor."""
        return self._names.get(id(tensor), [])

    def users(self, tensor: Any) -> bool:
        """Whether a name is the user's."""
        return id(tensor) in self._users

    def _walk(self, value: Any, name: str, depth: int) -> None:
        """Name every tensor that `value` leads to."""
        import torch

        kind = type(value)
        if issubclass(kind, torch.Tensor):
            self._add(value, name, "parameters" if issubclass(kind, torch.nn.Parameter) else "")
            return
        if depth == 0 or issubclass(kind, _PLAIN) or id(value) in self._seen:
            return
        self._seen[id(value)] = value  # kept: an id is true for a living object only
        if issubclass(kind, torch.optim.Optimizer):
            self._optimizer(value, name)
            return
        for label, item in _children(value):
            self._walk(item, f"{name}{label}", depth if issubclass(kind, torch.nn.Module) else depth - 1)

    def _add(self, tensor: Any, name: str, kind: str) -> None:
        self._note(tensor, name, kind)
        if tensor.is_leaf and tensor.grad is not None:
            self._note(tensor.grad, f"{name}.grad", "gradients")

    def _note(self, tensor: Any, name: str, kind: str) -> None:
        self._names.setdefault(id(tensor), []).append((name, kind))
        if not self._history:
            self._users.add(id(tensor))

    def _optimizer(self, optimizer: Any, name: str) -> None:
        for position, (parameter, state) in enumerate(optimizer.state.items()):
            known = self.of(parameter)
            owner = known[0][0] if known else str(position)
            for key, value in state.items():
                if hasattr(value, "untyped_storage"):
                    self._add(value, f"{name}.state[{owner}][{key!r}]", "optimizer state")


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """(what to append to the name, object) for what a container, module, closure or plain object holds."""
    import torch

    kind = type(value)
    if issubclass(kind, torch.nn.Module):
        for group in (value._parameters, value._buffers, value._modules):
            yield from ((f".{key}", item) for key, item in group.items())
        own = vars(value)
        yield from ((f".{key}", item) for key, item in own.items() if not key.startswith("_"))
    elif issubclass(kind, dict):
        yield from (
            (f"[{key!r}]" if isinstance(key, (str, int)) else "[…]", item)
            for key, item in _first(dict.items(value))  # not what a subclass makes of it: its code may fail
        )
    elif issubclass(kind, (list, tuple, set, frozenset)):
        yield from ((f"[{index}]", item) for index, item in enumerate(_first(value)))
    elif issubclass(kind, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        for free, cell in cells:
            try:
                yield f".{free}", cell.cell_contents
            except ValueError:
                continue  # not assigned yet
    elif issubclass(kind, types.MethodType):
        yield "", value.__self__
    elif isinstance(getattr(kind, "__dict__", {}).get("__dict__"), types.GetSetDescriptorType):
        yield from ((f".{key}", item) for key, item in _first(vars(value).items()))


def _first(items: Any) -> Iterator[Any]:
    for count, item in enumerate(tuple(items)):
        if count == _ITEMS:
            return
        yield item


def frames_of(error: BaseException | None) -> Iterator[Root]:
    """The local variables that an exception keeps alive, through its causes as well."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield from traceback_roots(error.__traceback__)
        error = error.__cause__ or error.__context__


def traceback_roots(trace: types.TracebackType | None) -> Iterator[Root]:
    """The local variables of a traceback's functions; a module's variables are nobody's locals."""
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_locals is not frame.f_globals:
            local: Mapping[str, Any] = frame.f_locals
            yield from (
                Root(f"last traceback: {name} of {frame.f_code.co_name}()", value, history=True)
                for name, value in local.items()
            )
        trace = trace.tb_next
