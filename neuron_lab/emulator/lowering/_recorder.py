"""Records ATen calls on fake tensors into an FX graph, rewriting ops on the way.

A small replacement for ``make_fx``: same graphs, about a tenth of its time, and full control over which op is kept.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from ._island import Shaped, empty_constant, island, loop, template
from ._native import is_native, takes_bytes
from ._records import Unlowerable
from ._registry import COMPLEX, DECOMPOSITIONS, PROGRAMS, Program
from ._schema import bind, functional_form

aten = torch.ops.aten

IDENTITIES = frozenset(
    {
        aten.clone.default,
        aten.alias.default,
        aten.detach.default,
        aten.detach_.default,
        aten.lift.default,
        aten.lift_fresh.default,
        aten.lift_fresh_copy.default,
        aten.contiguous.default,
        aten.positive.default,
    }
)
"""Ops that only give a new tensor with the same values: no node is needed."""


Template = tuple[fx.Graph, list[Shaped]]
"""A graph that is called several times, and its results."""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Active between the op and the fake tensor mode; ``graph`` grows with every op that is kept."""

    def __init__(self, table: dict[Any, Callable[..., Any]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = fx.Graph()
        self.rewritten = False
        self._table = table
        self._nodes: dict[int, fx.Node] = {}
        self._alive: list[Tensor] = []
        self._storages: dict[int, set[int]] = {}
        self._depth = 0
        self._passing = False
        self._templates: dict[Any, Template] = {}
        self._copies: set[int] = set()
        """Results of rewritten view ops: writing to them would be lost."""

    def placeholder(self, name: str, tensor: Tensor) -> None:
        """Declare ``tensor`` as an input of the graph."""
        node = self.graph.placeholder(name)
        node.meta["val"] = tensor
        self._bind(tensor, node)

    def node(self, tensor: Tensor) -> fx.Node:
        """The node that computes ``tensor``."""
        found = self._nodes.get(id(tensor))
        return self._constant(tensor) if found is None else found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._passing or func.namespace == "prim":
            return func(*args, **kwargs)
        if func in IDENTITIES:
            return self._identity(func, args, kwargs)
        is_complex = any(tensor.dtype.is_complex for tensor in flatten_tensors([*args, *kwargs.values()]))
        own = COMPLEX.get(func) if is_complex else None
        own = own or DECOMPOSITIONS.get(func)
        if own is not None:
            result = self._rewrite(own, args, kwargs)
            if result is not NotImplemented:
                if isinstance(result, Tensor) and func._schema.returns[0].alias_info is not None:
                    self._copies.add(id(result))
                return result
        if func in PROGRAMS and not is_complex:
            result = self._rewrite(_without_writes(PROGRAMS[func]), args, kwargs)
            if result is not NotImplemented:
                return result
        if is_native(func) and not is_complex:
            return self._keep(func, args, kwargs)
        if func._schema.is_mutable:
            return self._mutate(func, args, kwargs)
        known = self._table.get(func)
        if known is not None:
            result = self._rewrite(known, args, kwargs)
            if result is not NotImplemented:
                return result
        if func._can_decompose():
            with self:
                return func.decompose(*args, **kwargs)
        raise Unlowerable(f"no lowering for {func._schema.name}.{func._overloadname}")

    def _rewrite(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self._depth >= _DEEPEST:
            raise Unlowerable("its decompositions lead back to themselves")
        self._depth += 1
        try:
            with self:
                result = function(*args, **kwargs)
        finally:
            self._depth -= 1
        if result is not NotImplemented:
            self.rewritten = True
        return result

    def _identity(self, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
        source = args[0]
        node = self.node(source)
        if func is aten.detach_.default:
            return source  # type: ignore[no-any-return]
        result = self._copy(func, source, kwargs)
        self._bind(result, node)
        return result

    @staticmethod
    def _copy(func: OpOverload, source: Tensor, kwargs: Any) -> Tensor:
        if not isinstance(source, FakeTensor):
            return torch.empty_strided(source.shape, source.stride(), dtype=source.dtype)
        return func(source, **kwargs)  # type: ignore[no-any-return]

    def _keep(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        if not takes_bytes(func) and any(t.dtype == torch.uint8 for t in flatten_tensors(args)):
            raise Unlowerable(f"no lowering for {func._schema.name} of uint8")
        result = func(*args, **kwargs)
        if isinstance(args[0], float) and any(t.dtype == torch.float64 for t in flatten_tensors(args)):
            # torch-mlir would round a number on the left to float32.
            with self:
                args = (torch.full([], args[0], dtype=torch.float64), *args[1:])
        if isinstance(result, Tensor) and result.numel() == 0:
            return self.island(f"%r0 = {empty_constant(result)}", [], [(tuple(result.shape), result.dtype)])[0]
        node = self.graph.call_function(func, self._to_nodes(args), self._to_nodes(kwargs))
        if isinstance(result, Tensor):
            self._bind(result, node)
        else:
            for index, item in enumerate(result):
                if isinstance(item, Tensor):
                    self._bind(item, self.graph.call_function(operator.getitem, (node, index)))
        node.meta["val"] = result
        return result

    def island(self, body: str, inputs: list[Tensor], outputs: Sequence[Shaped]) -> list[Tensor]:
        """Keep hand-written StableHLO as one node."""
        node = self.graph.call_function(island, (body, [self.node(tensor) for tensor in inputs]))
        return self._results(node, outputs)

    def _results(self, node: fx.Node, outputs: Sequence[Shaped]) -> list[Tensor]:
        self._passing = True
        try:
            results = [torch.empty(list(sizes), dtype=dtype) for sizes, dtype in outputs]
        finally:
            self._passing = False
        for index, result in enumerate(results):
            self._bind(result, self.graph.call_function(operator.getitem, (node, index)))
        node.meta["val"] = results
        self.rewritten = True
        return results

    def call_template(self, function: Callable[..., list[Tensor]], arguments: list[Tensor | None]) -> list[Tensor]:
        """``function`` of these arguments, as the call of a graph that all calls with the same shapes share."""
        key = (function, *(None if t is None else (t.dtype, tuple(t.shape), t.stride()) for t in arguments))
        if key not in self._templates:
            self._templates[key] = self._new_template(function, arguments)
        graph, outputs = self._templates[key]
        node = self.graph.call_function(template, (graph, [self.node(t) for t in arguments if t is not None]))  # type: ignore[arg-type]
        return self._results(node, outputs)

    def call_loop(self, function: Callable[..., list[Tensor]], count: Tensor, state: list[Tensor]) -> list[Tensor]:
        """``function`` again and again: see ``repeat``."""
        graph, outputs = self._new_template(function, [count, *state])
        shapes = [(tuple(tensor.shape), tensor.dtype) for tensor in state]
        assert outputs == shapes, f"a loop turns {shapes} into {outputs}"
        node = self.graph.call_function(loop, (graph, [self.node(tensor) for tensor in (count, *state)]))  # type: ignore[arg-type]
        return self._results(node, outputs)

    def _new_template(self, function: Callable[..., list[Tensor]], arguments: list[Tensor | None]) -> Template:
        inner = Recorder(self._table)
        self._passing = True
        try:
            inputs = [None if t is None else torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) for t in arguments]
            for index, tensor in enumerate(inputs):
                if tensor is not None:
                    inner.placeholder(f"in{index}", tensor)
            with inner:
                results = function(*inputs)
        finally:
            self._passing = False
        inner.graph.output(tuple(inner.node(result) for result in results))
        inner.graph.eliminate_dead_code()
        return inner.graph, [(tuple(result.shape), result.dtype) for result in results]

    def _mutate(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """Run the functional form and let the written tensors stand for its results from now on."""
        form = functional_form(func)
        if form is None:
            raise Unlowerable(f"no functional form of {func._schema.name}.{func._overloadname}")
        bound = bind(func, args, kwargs)
        targets = [bound[name] for name in form.mutated]
        if form.out_variant:
            kwargs = {name: value for name, value in kwargs.items() if name not in form.mutated}
        with self:
            results = form.functional(*args, **kwargs)
            results = list(results) if isinstance(results, (tuple, list)) else [results]
            for target, result in zip(targets, results[-len(targets) :], strict=True):
                self._overwrite(target, result)
        return targets[0] if len(targets) == 1 else tuple(targets)

    def _overwrite(self, target: Any, result: Tensor) -> None:
        if (
            not isinstance(target, Tensor)
            or id(target) in self._copies
            or len(self._storages[target.untyped_storage()._cdata]) > 1
        ):
            raise Unlowerable("a decomposition writes to a view")
        if result.shape != target.shape:
            result = result.expand(target.shape)
        if result.dtype != target.dtype:
            result = aten._to_copy.default(result, dtype=target.dtype)
        self._nodes[id(target)] = self.node(result)

    def _bind(self, tensor: Tensor, node: fx.Node) -> None:
        node.meta.setdefault("val", tensor)
        self._nodes[id(tensor)] = node
        self._alive.append(tensor)
        self._storages.setdefault(tensor.untyped_storage()._cdata, set()).add(id(tensor))

    def _to_nodes(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.node(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self._to_nodes(item) for item in value)
        if isinstance(value, dict):
            return {key: self._to_nodes(item) for key, item in value.items() if key not in _IGNORED}
        return value

    def _constant(self, tensor: Tensor) -> fx.Node:
        """A real one-element tensor made by a decomposition; longer ones would become dense resources XLA rejects."""
        if isinstance(tensor, FakeTensor) or tensor.numel() != 1:
            raise Unlowerable("a decomposition holds a constant tensor")
        with torch.utils._python_dispatch._disable_current_modes():
            value = tensor.item()
        node = self.graph.call_function(aten.full.default, (list(tensor.shape), value), {"dtype": tensor.dtype})
        node.meta["val"] = torch.empty(tensor.shape, dtype=tensor.dtype)
        self._nodes[id(tensor)] = node
        self._alive.append(tensor)
        return node


def _without_writes(function: Callable[..., Program]) -> Callable[..., Any]:
    """The program as a decomposition, where it writes nothing."""

    def results(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        return NotImplemented if made.writes else made.returns

    return results


_DEEPEST = 12
"""Nesting of decompositions beyond which they must be going in circles."""

_IGNORED = frozenset({"device", "pin_memory", "layout", "non_blocking"})


def flatten_tensors(values: Iterable[Any]) -> list[Tensor]:
    """All tensors in ``values``, nested lists and tuples flattened, in order."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(flatten_tensors(value))
    return found
