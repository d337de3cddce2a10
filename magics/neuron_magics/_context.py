"""Where a command runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.text import DollarFormatter

if TYPE_CHECKING:
    from neuron_lab import Profile


@dataclass(frozen=True, slots=True)
class Context:
    """The shell, the body below a `%%neuron` line, and the locals of the function a line magic stands in."""

    shell: InteractiveShell
    cell: str | None = None
    local_ns: dict[str, Any] | None = None

    @property
    def names(self) -> dict[str, Any]:
        """The globals of a statement: the notebook's, and for a line magic in a function a copy that has the function's too.

        Inner scopes of the statement, such as a comprehension's, see its globals but not its locals.
        """
        user_ns: dict[str, Any] = self.shell.user_ns
        inside = self.cell is None and self.local_ns is not None and self.local_ns is not user_ns
        return {**user_ns, **(self.local_ns or {})} if inside else user_ns


def expanded(context: Context, path: str) -> str:
    """A path with `{name}` and `$name` in it, as IPython's own commands read them. Raises UsageError for what is no expression."""
    try:
        found: str = DollarFormatter().vformat(path, (), _variables(context))
    except Exception as error:  # an expression can raise anything
        raise UsageError(f"cannot read {path!r}: {type(error).__name__}: {error}; {{{{ stands for a brace") from None
    return found


def profile_named(context: Context, name: str) -> Profile:
    """The profile in a variable of the user's. Raises UsageError."""
    from neuron_lab import Profile

    value = _variable(context, name)
    if not isinstance(value, Profile):
        raise UsageError(f"{name} is not a profile; keep one with `%%neuron profile -o {name}`")
    return value


def profile_or_file(context: Context, name: str) -> Profile:
    """The profile in a variable of the user's, else the one saved in a file of that name. Raises UsageError, FileProblem."""
    from neuron_lab import Profile, load

    value = _variable(context, name)
    if isinstance(value, Profile):
        return value
    if name.isidentifier() and not os.path.exists(name):
        raise UsageError(f"{name} is neither a variable that holds a profile nor a saved file")
    return load(expanded(context, name))


def _variable(context: Context, name: str) -> Any:
    return _variables(context).get(name)


def _variables(context: Context) -> dict[str, Any]:
    return {**context.shell.user_ns, **(context.local_ns or {})}
