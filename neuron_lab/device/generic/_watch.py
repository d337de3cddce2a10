"""See every op of the device as it passes PyTorch's dispatcher, one at a time, and tell by the counters what became of it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode

from neuron_lab.device.generic._log import Move, Run, Tally
from neuron_lab.device.generic._surface import Counts, Entries, Entry, Surface, used

_DEVICE = "neuron"
_ALWAYS_COPIES = frozenset({"aten::_copy_from", "aten::_copy_from_and_resize"})
_COPIES = _ALWAYS_COPIES | {"aten::_to_copy", "aten::copy_"}
_READ = "aten::_local_scalar_dense"
_REMEMBERED = 1 << 14  # calls whose NEFF is known; an optimizer's numbers make new ones at each step


@dataclass(slots=True)
class _Call:
    """An op that runs. `inner`: what the counters moved by in the ops inside it, which count for themselves."""

    name: str
    core: int
    tensors: Sequence[Tensor]
    written: Sequence[Tensor]
    taken_bytes: int
    inner: Counts = field(default_factory=Counts)
    ops: int = 0
    events: int = 0
    start_ns: int = 0
    end_ns: int = 0
    spent_on_inner_ns: int = 0


class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands the device's ops to a Watcher, everything else on."""

    supports_higher_order_operators = True

    def __init__(self, watcher: Watcher) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watcher = watcher

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind.__torch_dispatch__ != Tensor.__torch_dispatch__ for kind in types):
            return NotImplemented  # a subclass takes its ops apart before they are the device's
        kwargs = kwargs or {}
        key = self._watcher.key_of(func, args, kwargs)
        if key is None:
            return func(*args, **kwargs)
        return self._watcher.watch(self, func, key, args, kwargs)

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """torch.compile works as it does without this mode."""
        return True


class Watcher:
    """Tells the open sessions of every op. One for the process: a mode for each session would hide the ops inside an op."""

    def __init__(self, surface: Surface) -> None:
        self.sessions: list[Tally] = []
        self._surface = surface
        # Counters do not tell threads apart.
        self._lock = threading.RLock()
        self._local = threading.local()
        self._entries: dict[object, Entry | None] = {}
        self._launched: set[tuple[str, str]] = set()

    @property
    def is_inside_an_op(self) -> bool:
        """Whether this thread runs one."""
        return getattr(self._local, "call", None) is not None

    def key_of(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> torch.DispatchKey | None:
        """Under which key the device runs this call; None for a call that is not the device's, or a view, which does nothing."""
        if not self.sessions or not isinstance(func, OpOverload) or _is_view(func):
            return None
        tensors = list(_tensors((*args, *kwargs.values())))
        if any(tensor.layout is not torch.strided or is_lazy(tensor) for tensor in tensors):
            return None
        kinds = {tensor.device.type for tensor in tensors}
        if not kinds <= {_DEVICE, "cpu"}:
            return None
        if _DEVICE in kinds:
            return torch._C.DispatchKey.PrivateUse1
        target = kwargs.get("device")
        if target is None or target.type != _DEVICE:
            return None
        return torch._C.DispatchKey.CPU if kinds else torch._C.DispatchKey.PrivateUse1

    def watch(self, mode: Mode, func: OpOverload, key: torch.DispatchKey, args: Any, kwargs: Any) -> Any:
        """Run the op and wait for it. The ops inside it come here too."""
        entered = time.perf_counter_ns()
        tensors = list(_tensors((*args, *kwargs.values())))
        call = _Call(
            name=func.name(),  # type: ignore[no-untyped-call]
            core=self._core(tensors, kwargs),
            tensors=tensors,
            written=_written(func, args, kwargs),
            taken_bytes=_device_bytes(tensors),
        )
        parent: _Call | None = getattr(self._local, "call", None)
        own_op = func.namespace == "aten"
        # A library's op may wait for another thread's.
        with self._lock if own_op else contextlib.nullcontext():
            signature = (call.name, torch.get_default_dtype(), *map(_described, (args, kwargs)))
            entries = None if signature in self._entries else self._surface.entries()
            before = self._surface.counts()
            self._local.call = call
            results: list[Tensor] | None = None
            call.start_ns = time.perf_counter_ns()
            try:
                if _has_numbers_for_tensors(func, args):
                    result = func(*args, **kwargs)
                else:
                    with mode:
                        result = func.redispatch(torch._C.DispatchKeySet(key), *args, **kwargs)
                self._surface.neuron.synchronize(call.core)
                results = list(_tensors((result,)))
            finally:
                call.end_ns = time.perf_counter_ns() - call.spent_on_inner_ns
                self._local.call = parent
                moved = self._surface.counts() - before
                # Where others may run meanwhile, the counters are the op's when it holds no other.
                own = moved - call.inner if own_op or not call.ops else Counts()
                entry = self._entry(signature, own, entries)
                happened = self._note(call, own, entry, results)
                if parent is not None:
                    parent.inner = parent.inner.plus(moved)
                    parent.ops += 1
                    parent.events += call.events + happened
                self._charge(time.perf_counter_ns() - entered - (call.end_ns - call.start_ns), parent)
        return result

    def launched(self, launch: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a compiled graph and wait for it."""
        entered = time.perf_counter_ns()
        with self._lock:
            before = self._surface.entries()
            start_ns = time.perf_counter_ns()
            result = launch(*args, **kwargs)
            self._surface.neuron.synchronize()
            end_ns = time.perf_counter_ns()
            entry = used(before, self._surface.entries())
            tensors = list(_tensors((args, kwargs, result)))
            # Made, and used once.
            first = entry is not None and entry.uses <= 2 and (entry.neff, entry.op) not in self._launched
            if entry is not None:
                self._launched.add((entry.neff, entry.op))
            run = Run(
                op=self._graph_name(entry),
                kind="compiled",
                neff=entry and entry.neff,
                core=self._core(tensors, {}),
                thread=threading.get_ident(),
                start_ns=start_ns,
                end_ns=end_ns,
                device_ns=end_ns - start_ns,
                bytes=_device_bytes(tensors),
                cold=first,
            )
            for session in self.sessions:
                session.ran(run)
            self._charge(time.perf_counter_ns() - entered - (end_ns - start_ns), None)
        return result

    def _graph_name(self, entry: Entry | None) -> str:
        if entry is not None and entry.op:
            return entry.op
        names = [graph.name for graph in self._surface.graphs() if entry is not None and graph.neff == entry.neff]
        return f"graph::{names[-1] if names else 'unknown'}"

    def _core(self, tensors: Sequence[Tensor], kwargs: dict[str, Any]) -> int:
        for tensor in tensors:
            if tensor.device.type == _DEVICE:
                return tensor.get_device()
        target = kwargs.get("device")
        index = None if target is None else target.index
        return int(self._surface.neuron.current_device()) if index is None else int(index)

    def _entry(self, signature: object, own: Counts, before: Entries | None) -> Entry | None:
        """The NEFF of a call that moved the counters by `own`. A warm call's is the one that the same call had before."""
        if len(self._entries) > _REMEMBERED:
            self._entries.clear()
        known = self._entries.get(signature)
        if not any(own):
            self._entries.setdefault(signature, None)
        elif before is not None:
            known = self._entries[signature] = used(before, self._surface.entries())
        elif known is None:
            self._entries.pop(signature, None)  # looked for at the next call
        elif own.compiled or own.loaded:
            # Made again: the same one after the cache was cleared, another one when the compiler's flags have changed.
            again = self._surface.entries().get((known.neff, known.op))
            known = again if again is not None and again.uses <= 1 else None
            self._entries.pop(signature, None)
        return known if any(own) else None

    def _note(self, call: _Call, own: Counts, entry: Entry | None, results: list[Tensor] | None) -> int:
        """Tell the sessions; the number of calls and copies told. `results` is None for a call that failed."""
        spent = call.end_ns - call.start_ns
        cold = bool(own.compiled or own.loaded)
        if cold:
            # A call that read its NEFF is taken for the reading: its parts are not told.
            source, compile_ns = ("compiled", self._surface.newest_compile_ns()) if own.compiled else ("disk", spent)
            neff, text = (entry.neff, entry.signature) if entry else ("", "")
            for session in self.sessions:
                session.compiles.append((call.name, neff, source, call.start_ns, 0, 0, compile_ns, text))
        if results is None:
            return 0
        if (move := _move(call, results)) is not None and not any(own):
            for session in self.sessions:
                session.moved(move)
            return 1
        if (kind := self._kind(call, own, results)) is None:
            return 0
        made = [tensor for tensor in results if all(tensor is not item for item in call.written)]
        run = Run(
            op=call.name,
            kind=kind,
            neff=entry.neff if entry else None,
            core=call.core,
            thread=threading.get_ident(),
            start_ns=call.start_ns,
            end_ns=call.end_ns,
            device_ns=0 if cold else spent,
            bytes=call.taken_bytes + _device_bytes([*call.written, *made]) * (kind == "compiled"),
            cold=cold,
        )
        for session in self.sessions:
            session.ran(run)
        return 1

    def _kind(self, call: _Call, own: Counts, results: Sequence[Tensor]) -> str | None:
        """None for a call that only moved or described memory, or was done by the ops inside it."""
        if any(own):
            return "compiled"
        if call.events:
            return None
        if _is_among(call.name, self._surface.fallback_ops()):
            return "fallback"
        if _is_among(call.name, self._surface.executed_ops()):
            empty = any(t.numel() == 0 for t in call.tensors) or (results and all(t.numel() == 0 for t in results))
            return "empty" if empty else "host"
        return None

    def _charge(self, spent_ns: int, parent: _Call | None) -> None:
        for session in self.sessions:
            session.overhead_ns += spent_ns
        if parent is not None:
            parent.spent_on_inner_ns += spent_ns


def _move(call: _Call, results: Sequence[Tensor]) -> Move | None:
    """The copy that a call was; None for any other call. One that holds other ops has copied by them."""
    if call.name == _READ:
        return Move("d2h", call.core, call.start_ns, call.end_ns, call.tensors[0].element_size())
    if call.name not in _COPIES:
        return None
    source, target = {
        "aten::_to_copy": (call.tensors[0], results[0]),
        "aten::copy_": (call.tensors[-1], call.tensors[0]),
    }.get(call.name, (call.tensors[0], call.tensors[-1]))
    leaves, arrives = source.device.type == _DEVICE, target.device.type == _DEVICE
    if call.name not in _ALWAYS_COPIES and (call.ops or leaves == arrives):
        return None
    direction = "d2d" if leaves and arrives else "d2h" if leaves else "h2d"
    return Move(direction, call.core, call.start_ns, call.end_ns, target.nbytes)


def _device_bytes(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors if tensor.device.type == _DEVICE)


def _is_among(name: str, names: frozenset[str]) -> bool:
    # Some are told without their library's name.
    return name in names or name.removeprefix("aten::") in names


def _is_view(func: OpOverload) -> bool:
    return func.is_view or torch.Tag.inplace_view in func.tags


def _has_numbers_for_tensors(func: OpOverload, args: Sequence[Any]) -> bool:
    """`x * 2`, which only an op's ordinary call takes. What is inside such an op stays unseen."""
    given = zip(func._schema.arguments, args, strict=False)
    return any(
        isinstance(value, (int, float, complex)) and argument.type.kind() == "TensorType" for argument, value in given
    )


def _written(func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Tensor]:
    """What the op writes to, one tensor once."""
    names = [argument.name for argument in func._schema.arguments if argument.is_write]
    given = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
    return list({id(tensor): tensor for tensor in _tensors([given.get(name) for name in names])}.values())


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _described(value: Any) -> object:
    """What a NEFF depends on, and can be a key."""
    if isinstance(value, Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.device
    if isinstance(value, (list, tuple)):
        return tuple(map(_described, value))
    if isinstance(value, dict):
        return tuple((name, _described(item)) for name, item in value.items())
    if isinstance(value, torch.UntypedStorage):
        return value.nbytes()  # its text would be its content
    return repr(value)
