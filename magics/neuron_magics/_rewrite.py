"""`%%neuron profile` at the top of a cell, without a second run of anything.

The cell's text becomes ordinary Python before IPython runs it: the header turns into a string on the same line, which is what
tracebacks show, and the parsed cell gets calls around the user's statements. The cell stays the cell: its own line numbers, `await`,
`Out`, `;`, other magics. A string may stand before a `__future__` import, and the first call goes behind it.

    "%%neuron profile --top 5"        begin("--top 5")
    y = net(x)                        try: y = net(x)
                                      except BaseException: end(); raise
    y.sum()                           try: keep(y.sum())
                                      finally: end()
                                      take()

So the profile ends with the last statement or with the error, before a traceback or a value is printed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from weakref import ReferenceType, ref

from IPython.core import inputtransformer2
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from neuron_magics import profile

_HEADER = re.compile(r"%%neuron[ \t]+profile(?=\s|$)(.*)$")
_HELP = re.compile(r"%%?neuron[ \t]+(\w+)\?{1,2}\s*$")
_MARK = "%%neuron profile"


class HeaderTransformer:
    """Turn the header line into a string, and tell `read`. IPython calls it several times a cell, also to highlight and to complete."""

    # Tells IPython's "is this input complete?" to leave us out: a `%%` cell is complete after a blank line, Python earlier.
    has_side_effects = True

    def __init__(self, read: Callable[[], None]) -> None:
        self._read = read

    def __call__(self, lines: list[str]) -> list[str]:
        if not lines:
            return lines
        if question := _HELP.match(lines[0]):
            return [f"get_ipython().run_line_magic('neuron', '{question[1]} --help')\n"]
        header = _HEADER.match(lines[0].rstrip())
        if header is None:
            return lines
        text = header[1].strip()
        if not _is_valid(text):
            return [_magic_call(f"profile {text}", "".join(lines[1:]))]
        self._read()
        return [f"{_marked(text)!r}\n", *_rest(lines[1:])]


class BodyTransformer(ast.NodeTransformer):
    """Put the calls around the statements of a marked cell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell: ReferenceType[InteractiveShell] = ref(shell)

    def visit(self, tree: ast.AST) -> ast.AST:
        """IPython calls it with the whole cell; it must not raise, or IPython drops the transformer.

        What a new node does not say about its place IPython takes from the node around it.
        """
        if not isinstance(tree, ast.Module) or not tree.body:
            return tree
        text = _marker(tree.body[0])
        if text is None:
            return tree
        start = _after_future_imports(tree.body)
        begin = _call("begin", tree.body[0], ast.Constant(text))
        body = tree.body[start:]
        shell = self._shell()
        # Other modes of interactivity look at the last statement itself, so it has to stay; the profile then ends with the cell.
        if body and shell is not None and shell.ast_node_interactivity == "last_expr":
            body = [*map(_guarded, body[:-1]), *_final(body[-1])]
        tree.body = [*tree.body[1:start], begin, *body]
        return tree


def _is_valid(text: str) -> bool:
    try:
        profile.cell_options(text)
    except UsageError:
        return False
    return not {"-h", "--help"} & set(text.split())


def _magic_call(line: str, body: str) -> str:
    """The call IPython makes of a cell magic; help and mistakes go that way, and the body does not run."""
    return f"get_ipython().run_cell_magic('neuron', {line!r}, {body or chr(10)!r})\n"


def _rest(lines: list[str]) -> list[str]:
    """The body, as if it were the whole cell: what is indented as a whole is not, and another cell magic is the call IPython makes of it."""
    start = next((index for index, line in enumerate(lines) if line.strip()), 0)
    rest: list[str] = inputtransformer2.leading_indent(lines[start:])  # type: ignore[no-untyped-call]
    rest = inputtransformer2.cell_magic(rest) if lines else []  # type: ignore[no-untyped-call]
    return [*lines[:start], *rest]


def _marked(text: str) -> str:
    return f"{_MARK} {text}".rstrip()


def _marker(node: ast.stmt) -> str | None:
    """The options of a marked cell, None for any other first statement."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        text = node.value.value
        if text == _MARK or text.startswith(_MARK + " "):
            return text[len(_MARK) :].strip()
    return None


def _after_future_imports(body: list[ast.stmt]) -> int:
    """Where the first call may stand: behind the future imports, before which Python allows one more string."""
    position = 1
    for index, node in enumerate(body[1:], 1):
        if _is_future(node):
            position = index + 1
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            break
    return position


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _guarded(node: ast.stmt) -> ast.stmt:
    """End the profile when the statement fails; a future import has to stay bare."""
    if _is_future(node):
        return node
    handler = ast.ExceptHandler(type=None, name=None, body=[_call("end", node), ast.Raise(exc=None, cause=None)])
    return ast.copy_location(ast.Try(body=[node], handlers=[handler], orelse=[], finalbody=[]), node)


def _final(node: ast.stmt) -> list[ast.stmt]:
    """End the profile after the last statement, before its value is displayed."""
    if _is_future(node):
        return [node]
    work: ast.stmt = node
    show: list[ast.stmt] = []
    if isinstance(node, ast.Expr):
        work, show = _call("keep", node, node.value), [_call("take", node)]
    guarded = ast.Try(body=[work], handlers=[], orelse=[], finalbody=[_call("end", node)])
    return [ast.copy_location(guarded, node), *show]


def _call(method: str, near: ast.stmt, *arguments: ast.expr) -> ast.Expr:
    """A statement that calls this shell's profiler, standing where `near` stands; it needs no name of the user's but get_ipython.

    Built and not parsed, since a long cell has one for each statement:
    `__import__("neuron_magics._cell", fromlist=["profiler_of"]).profiler_of(get_ipython()).method(arguments)`.
    """
    load = ast.Load()
    names = ast.keyword("fromlist", ast.List([ast.Constant("profiler_of")], load))
    module = ast.Call(ast.Name("__import__", load), [ast.Constant("neuron_magics._cell")], [names])
    shell = ast.Call(ast.Name("get_ipython", load), [], [])
    profiler = ast.Call(ast.Attribute(module, "profiler_of", load), [shell], [])
    call = ast.Call(ast.Attribute(profiler, method, load), list(arguments), [])
    return ast.copy_location(ast.Expr(call), near)
