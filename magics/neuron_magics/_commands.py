"""The commands of `%neuron`, one module each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from neuron_magics import cache, compare, explain, last, memory, neff, profile, recompiles, report, status, top
from neuron_magics._context import Context
from neuron_magics._parser import Parser, meant


class _Module(Protocol):
    __doc__: str | None

    def arguments(self, parser: Parser) -> None:
        """Declare the options."""

    def run(self, text: str, parser: Parser, context: Context) -> Any:
        """Do it; the value becomes the cell's Out."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its module's docstring and parser are its help."""

    name: str
    module: _Module

    @property
    def summary(self) -> str:
        return (self.module.__doc__ or "").strip().partition("\n")[0]

    def parser(self) -> Parser:
        parser = Parser(f"%neuron {self.name}", (self.module.__doc__ or "").strip())
        self.module.arguments(parser)
        return parser


COMMANDS = {
    name: Command(name, module)
    for name, module in (
        ("profile", profile),
        ("compare", compare),
        ("status", status),
        ("last", last),
        ("recompiles", recompiles),
        ("memory", memory),
        ("neff", neff),
        ("cache", cache),
        ("top", top),
        ("report", report),
        ("explain", explain),
    )
}


_OF_CELLS = ("profile", "compare")


def overview() -> str:
    """What `%neuron --help` prints."""
    lines = ["usage: %neuron [command] [options]      `%neuron` alone is `%neuron status`", ""]
    lines += [f"  {command.name:<12}{command.summary}" for command in COMMANDS.values()]
    return "\n".join(
        [*lines, "", "%neuron COMMAND --help tells more; `%%neuron profile` at the top of a cell profiles that cell."]
    )


def manual() -> str:
    """What `%neuron?` shows: the overview and each command's help."""
    return "\n\n\n".join([overview(), *(item.parser().format_help() for item in COMMANDS.values())])


def run(line: str, cell: str | None, shell: InteractiveShell, local_ns: dict[str, Any] | None) -> Any:
    """Find the command and hand over. Raises UsageError for what does not exist."""
    name, text = [*line.split(None, 1), "", ""][:2]
    if name in ("-h", "--help"):
        print(overview())
        return None
    if cell is not None and name not in _OF_CELLS:
        raise UsageError(
            f"%%neuron {name}".rstrip() + f" is not a cell command; %%neuron {' and '.join(_OF_CELLS)} are"
        )
    command = COMMANDS.get(name or "status")
    if command is None:
        raise UsageError(
            f"%neuron has no command {name!r}{meant(name, COMMANDS)}; there are {', '.join(COMMANDS)}; "
            "`%neuron --help` tells what they do"
        )
    parser = command.parser()
    options = parser.split(text)[0] if name in _OF_CELLS else text  # what follows them is a program's
    if any(word in ("-h", "--help") for word in options.split()):
        print(parser.format_help().rstrip())
        return None
    return command.module.run(text, parser, Context(shell, cell, local_ns))
