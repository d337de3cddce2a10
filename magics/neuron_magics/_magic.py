"""`%neuron` and `%%neuron`."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
    output_can_be_silenced,
)

from neuron_lab.errors import UsageProblem
from neuron_magics import _commands


@magics_class
class NeuronMagics(Magics):
    """One name for everything."""

    @no_var_expand
    @output_can_be_silenced
    @needs_local_scope
    @line_cell_magic
    def neuron(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """`%neuron --help` lists the commands; `%neuron?` shows the help of each."""
        assert self.shell is not None  # IPython makes a Magics object for a shell only
        if cell is None:
            line = line.rstrip().removesuffix(";")  # IPython itself shows no value of such a line
        try:
            return _commands.run(line, cell, self.shell, local_ns)
        except UsageProblem as problem:
            raise UsageError(str(problem)) from None

    # What `%neuron?` asks for instead of `__doc__`: most notebooks never do, and it takes every command's options.
    neuron.getdoc = _commands.manual  # type: ignore[union-attr]
