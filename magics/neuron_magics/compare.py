"""Is torch.compile worth it? The same program eager and compiled: compile time, warm latency, HBM, differences, break-even.

    %neuron compare [options] model(x)     compare one expression or statement
    %%neuron compare [options]             compare the cell

The program runs many times, each time from the same tensors and random numbers; afterwards parameters, gradients, optimizer state
and random numbers are as before. With --train the value, a loss or an object with .loss, is differentiated too.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError

import neuron_lab
from neuron_magics._context import Context
from neuron_magics._execute import unreadable
from neuron_magics._parser import Parser
from neuron_magics._traceback import show_own_frames
from neuron_magics.profile import cell_label, checked_variable

_NAME = "compared"


def arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("--train", action="store_true", help="run backward from the value and compare the gradients")
    parser.add_argument(
        "--rounds", type=int, default=20, metavar="N", help="warm calls of each, at least (default 20; 5 or more)"
    )
    parser.add_argument("-o", "--output", metavar="VAR", help="keep the result in this variable")


def run(text: str, parser: Parser, context: Context) -> neuron_lab.CompileTrial:
    flags, source = parser.split(text) if context.cell is None else (text, context.cell)
    options = parser.parse(flags)
    variable = checked_variable(options.output)
    label = cell_label(context.shell)
    function = _function(context, source)
    try:
        found = neuron_lab.compare(function, train=options.train, rounds=options.rounds, label=label)
    except BaseException as error:
        show_own_frames(error, context.shell, function.__code__.co_filename)
        raise
    if variable is not None:
        context.shell.user_ns[variable] = found
    return found


class _Bare(ast.NodeTransformer):
    """Takes the annotation off the cell's own names: they become global in the function, where Python allows none."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name):
            return node
        bare = ast.Pass() if node.value is None else ast.Assign([node.target], node.value)
        return ast.copy_location(bare, node)

    def _own_scope(self, node: ast.stmt) -> ast.stmt:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _own_scope


def _function(context: Context, source: str) -> Callable[[], Any]:
    """The source as a function that Dynamo can read: its names are the notebook's, its value that of the last expression."""
    shell: Any = context.shell  # IPython is typed in part
    # A cell body begins on the line below the magic: keep the line numbers of the whole cell.
    text = "\n" * (context.cell is not None) + shell.transform_cell(source)
    name = shell.compile.cache(text, shell.displayhook.prompt_count)
    try:
        tree = shell.transform_ast(shell.compile.ast_parse(text, filename=name))
        symbols = symtable.symtable(text, name, "exec").get_symbols()
        body: list[ast.stmt] = list(_Bare().visit(tree).body)
        if not body:  # nothing, or only a comment
            raise UsageError(
                "what shall be compared? `%neuron compare model(x)`, or `%%neuron compare` at the top of a cell"
            )
        if isinstance(body[-1], ast.Expr):
            body[-1] = ast.copy_location(ast.Return(body[-1].value), body[-1])
        written = [symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()]
        program = ast.parse(f"def {_NAME}(): pass")
        (function,) = program.body
        assert isinstance(function, ast.FunctionDef)
        function.body = [*([ast.Global(written)] if written else []), *body]
        code = compile(ast.fix_missing_locations(program), name, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise unreadable(error, text) from None
    own: dict[str, Callable[[], Any]] = {}
    exec(code, context.names, own)
    return own[_NAME]
