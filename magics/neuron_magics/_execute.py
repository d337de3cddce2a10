"""Run a statement or a cell body from inside a magic, as IPython itself would run it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType, TracebackType
from typing import Any

from IPython.core.error import UsageError

from neuron_magics._context import Context

_OURS = ("neuron_lab", "neuron_magics")


def unreadable(error: SyntaxError, text: str) -> UsageError:
    """The error for source that is no Python, with the line; not every SyntaxError has it."""
    number = error.lineno or 1
    line = error.text or "".join(text.splitlines()[number - 1 : number])
    return UsageError(f"cannot read line {number}: {error.msg}: {line.strip()}")


def show_own_frames(error: BaseException, shell: Any, file: str) -> None:
    """Make IPython show the frames from the first one of the code in `file` on, the user's text that the magic runs.

    Where no such frame is, the program was only read, as Dynamo does: then from where it was handed over. An error of this package
    itself keeps all its frames.
    """
    frames = list(_frames(error.__traceback__))
    ours = [str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] in _OURS for trace in frames]
    handed = ours.index(False, ours.index(True)) if True in ours and not ours[-1] else None
    read = next((index for index, trace in enumerate(frames) if trace.tb_frame.f_code.co_filename == file), handed)
    if read is not None and not hasattr(error, "_render_traceback_"):
        show = shell.InteractiveTB.structured_traceback
        error._render_traceback_ = partial(show, type(error), error, frames[read], tb_offset=0)  # type: ignore[attr-defined]


def _frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


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
        user_ns, local_ns = self.context.shell.user_ns, self.context.local_ns
        names = user_ns if local_ns is None or self.context.cell is not None else local_ns
        exec(self.statements, user_ns, names)
        return None if self.expression is None else eval(self.expression, user_ns, names)
