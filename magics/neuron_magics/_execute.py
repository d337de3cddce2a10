"""Run a statement or a cell body from inside a magic, as IPython itself would run it."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from types import CodeType
from typing import Any

from IPython.core.error import UsageError

from neuron_magics._context import Context


def unreadable(error: SyntaxError, text: str) -> UsageError:
    """The error for source that is no Python, with the line; not every SyntaxError has it."""
    number = error.lineno or 1
    line = error.text or "".join(text.splitlines()[number - 1 : number])
    return UsageError(f"cannot read line {number}: {error.msg}: {line.strip()}")


@dataclass(frozen=True, slots=True)
class Snippet:
    """Compiled source. `expression` is the value of the last line when that is an expression."""

    context: Context
    statements: CodeType
    expression: CodeType | None

    @staticmethod
    def compile(context: Context, source: str) -> Snippet:
        """Transform, parse and compile. Raises UsageError for what is no Python, so that no frame of ours is shown."""
        shell: Any = context.shell  # IPython is typed in part
        # A cell body begins on the line below the magic: keep the line numbers of the whole cell.
        text = "\n" * (context.cell is not None) + shell.transform_cell(source)
        name = shell.compile.cache(text, shell.displayhook.prompt_count)
        flags = shell.compile.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        try:
            tree = shell.transform_ast(shell.compile.ast_parse(text, filename=name))
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            statements = compile(tree, name, "exec", flags=flags, dont_inherit=True)
            expression = (
                None
                if last is None
                else compile(ast.Expression(last.value), name, "eval", flags=flags, dont_inherit=True)
            )
        except SyntaxError as error:
            raise unreadable(error, text) from None
        if any(code is not None and code.co_flags & inspect.CO_COROUTINE for code in (statements, expression)):
            raise UsageError("`await` needs `%%neuron profile` at the top of the cell")
        return Snippet(context, statements, expression)

    def run(self) -> Any:
        """Execute in the user's namespace; the value of the last expression."""
        names, local_ns = self.context.names, self.context.local_ns
        own = names if local_ns is None or self.context.cell is not None else local_ns
        exec(self.statements, names, own)
        return None if self.expression is None else eval(self.expression, names, own)
