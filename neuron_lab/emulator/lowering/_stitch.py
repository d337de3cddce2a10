"""Graphs with islands: torch-mlir lowers the parts between them, ``@main`` calls parts and islands in turn."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import fx

from ._island import is_island, loop, template, type_of
from ._records import Unlowerable

LowerPart = Callable[[fx.Graph, str], tuple[str, list[str], list[str]]]
"""(graph, function name) -> (text of the function, argument types, result types)."""


def has_islands(graph: fx.Graph) -> bool:
    """Whether ``graph`` needs ``stitched``."""
    return any(is_island(node.target) for node in graph.nodes)


def _is_result(node: fx.Node) -> bool:
    """A result of an island."""
    source = node.args[0] if node.target is operator.getitem else None
    return isinstance(source, fx.Node) and is_island(source.target)


@dataclass(slots=True)
class _Stage:
    """What can run once the stages before it have: a part, then the islands that wait for nothing else."""

    part: list[fx.Node] = field(default_factory=list)
    islands: list[fx.Node] = field(default_factory=list)


def _stages(graph: fx.Graph) -> list[_Stage]:
    level: dict[fx.Node, int] = {}
    stages: list[_Stage] = []
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            level[node] = 0
            continue
        level[node] = max((level[source] for source in node.all_input_nodes), default=0)
        if _is_result(node):
            level[node] += 1
            continue
        while len(stages) <= level[node]:
            stages.append(_Stage())
        stage = stages[level[node]]
        (stage.islands if is_island(node.target) else stage.part).append(node)
    return stages


def _part(nodes: list[fx.Node]) -> tuple[fx.Graph, list[fx.Node], list[fx.Node]]:
    """A graph of its own for ``nodes``, the nodes that it reads and those that are read from it."""
    inside = set(nodes)
    sources = list(dict.fromkeys(s for node in nodes for s in node.all_input_nodes if s not in inside))
    results = [node for node in nodes if any(user not in inside for user in node.users)]
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for index, source in enumerate(sources):
        copies[source] = graph.placeholder(f"in{index}")
        copies[source].meta["val"] = source.meta["val"]
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in results))
    return graph, sources, results


class _Main:
    """The text of ``@main`` and of the functions it calls."""

    def __init__(self) -> None:
        self.values: dict[fx.Node, tuple[str, str]] = {}
        """Name and type of every value."""
        self.lines: list[str] = []
        self.functions: list[str] = []

        self.templates: dict[int, tuple[str, list[str], list[str]]] = {}
        """Name, argument types and result types of a template's function, by the identity of its graph."""

    def call(self, name: str, sources: list[fx.Node], types: list[str], results: list[str], callee: str = "") -> None:
        """Call ``@callee``, or ``@name``. The results are ``%name#0``, ``%name#1``, ..."""
        operands = [self.values[source] for source in sources]
        if [kind for _, kind in operands] != types:
            raise Unlowerable(f"parts disagree on types: {[kind for _, kind in operands]} and {types}")
        names = ", ".join(value for value, _ in operands)
        self.lines.append(
            f"%{name}:{len(results)} = call @{callee or name}({names}) : ({', '.join(types)}) -> ({', '.join(results)})"
        )

    def name_results(self, name: str, node: fx.Node, types: list[str]) -> None:
        """Name what the users of an island or a template take from it."""
        for user in node.users:
            index = user.args[1]
            self.values[user] = (f"%{name}#{index}", types[index])  # type: ignore[index]


def stitched(graph: fx.Graph, lower: LowerPart) -> str:
    """StableHLO text of a graph with islands."""
    main = _Main()
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    for index, node in enumerate(inputs):
        main.values[node] = (f"%arg{index}", type_of(node.meta["val"]))
    for number, stage in enumerate(_stages(graph)):
        if stage.part:
            _emit_part(main, f"part{number}", stage.part, lower)
        for index, node in enumerate(stage.islands):
            if node.target is loop:
                _emit_loop(main, f"loop{number}_{index}", node, lower)
            elif node.target is template:
                _emit_template(main, f"call{number}_{index}", node, lower)
            else:
                _emit_island(main, f"island{number}_{index}", node)
    outcome = next(node for node in graph.nodes if node.op == "output").args[0]
    returned = [main.values[node] for node in outcome]
    arguments = ", ".join(f"{name}: {kind}" for name, kind in (main.values[node] for node in inputs))
    kinds = ", ".join(kind for _, kind in returned)
    body = "\n    ".join([*main.lines, f"return {', '.join(name for name, _ in returned)} : {kinds}"])
    functions = "\n".join(main.functions)
    return f"module {{\n  func.func public @main({arguments}) -> ({kinds}) {{\n    {body}\n  }}\n{functions}\n}}\n"


def _emit_part(main: _Main, name: str, nodes: list[fx.Node], lower: LowerPart) -> None:
    graph, sources, results = _part(nodes)
    text, types, result_types = lower(graph, name)
    main.functions.append(text)
    main.call(name, sources, types, result_types)
    for index, (node, kind) in enumerate(zip(results, result_types, strict=True)):
        main.values[node] = (f"%{name}#{index}", kind)


def _emit_island(main: _Main, name: str, node: fx.Node) -> None:
    body, sources = node.args
    outputs = [type_of(value) for value in node.meta["val"]]
    types = [main.values[source][1] for source in sources]  # type: ignore[union-attr, index]
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(types))
    returned = ", ".join(f"%r{i}" for i in range(len(outputs)))
    kinds = ", ".join(outputs)
    main.functions.append(
        f"  func.func private @{name}({arguments}) -> ({kinds}) {{\n    {body}\n    return {returned} : {kinds}\n  }}"
    )
    main.call(name, list(sources), types, outputs)  # type: ignore[arg-type]
    main.name_results(name, node, outputs)


def _function_of(main: _Main, graph: fx.Graph, lower: LowerPart) -> tuple[str, list[str], list[str]]:
    if id(graph) not in main.templates:
        callee = f"template{len(main.templates)}"
        if has_islands(graph):
            raise Unlowerable("an island inside a loop")
        text, types, results = lower(graph, callee)
        main.functions.append(text)
        main.templates[id(graph)] = (callee, types, results)
    return main.templates[id(graph)]


def _emit_template(main: _Main, name: str, node: fx.Node, lower: LowerPart) -> None:
    graph, sources = node.args
    callee, types, results = _function_of(main, graph, lower)  # type: ignore[arg-type]
    main.call(name, list(sources), types, results, callee)  # type: ignore[arg-type]
    main.name_results(name, node, results)


def _emit_loop(main: _Main, name: str, node: fx.Node, lower: LowerPart) -> None:
    graph, sources = node.args
    callee, types, results = _function_of(main, graph, lower)  # type: ignore[arg-type]
    count, *state = types
    if state != results:
        raise Unlowerable(f"a loop turns {state} into {results}")
    held = "".join(f", %s{i} = %a{i}" for i in range(len(state)))
    now = ", ".join(["%k", *(f"%s{i}" for i in range(len(state)))])
    new = ", ".join(["%next", *(f"%n#{i}" for i in range(len(state)))])
    kinds = ", ".join(types)
    given = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(state))
    returned = ", ".join(f"%done#{i + 1}" for i in range(len(state)))
    main.functions.append(f"""  func.func private @{name}(%count: {count}, {given}) -> ({", ".join(state)}) {{
    %zero = stablehlo.constant dense<0> : {count}
    %done:{len(types)} = stablehlo.while(%k = %zero{held}) : {kinds}
    cond {{
      %more = stablehlo.compare LT, %k, %count : ({count}, {count}) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    }} do {{
      %n:{len(state)} = func.call @{callee}({now}) : ({kinds}) -> ({", ".join(state)})
      %one = stablehlo.constant dense<1> : {count}
      %next = stablehlo.add %k, %one : {count}
      stablehlo.return {new} : {kinds}
    }}
    return {returned} : {", ".join(state)}
  }}""")
    main.call(name, list(sources), types, results)  # type: ignore[arg-type]
    main.name_results(name, node, results)
