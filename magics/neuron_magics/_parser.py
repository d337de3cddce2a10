"""Argument parsing for magics: errors are one line, help is text."""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
from collections.abc import Iterable
from typing import Any, NoReturn

from IPython.core.error import UsageError

# One shell-like word: quoted pieces keep their blanks.
_WORD = re.compile(r"""\s*((?:[^\s"']|"[^"]*"|'[^']*')+)""")


def meant(word: str, names: Iterable[str]) -> str:
    """The end of a sentence about a `word` that nothing is called: the nearest of `names`, when one is near."""
    bare = {name.lstrip("-"): name for name in names}
    nearest = difflib.get_close_matches(word.lstrip("-"), bare, n=1)
    return f"; did you mean {bare[nearest[0]]}?" if nearest else ""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that never exits and has `-h`/`--help` as a plain flag."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(
            prog=name,
            description=description,
            add_help=False,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_argument("-h", "--help", action="store_true", help="show this help")

    def error(self, message: str) -> NoReturn:
        """Raise UsageError: IPython shows it in one line and fails the cell."""
        raise UsageError(f"{message}; `{self.prog} --help` lists the options")

    def parse(self, text: str) -> argparse.Namespace:
        """Parse a magic line. Raises UsageError."""
        try:
            words = shlex.split(text)
        except ValueError as error:
            self.error(f"cannot read {text!r}: {str(error).lower()}")
        found, unknown = self.parse_known_args(words)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant(unknown[0], self._option_string_actions)}")
        return found

    def given(self, text: str) -> dict[str, Any]:
        """The values of a magic line by name; an option with the default SUPPRESS only when it is said. Raises UsageError."""
        said = vars(self.parse(text))
        del said["help"]
        return said

    def split(self, text: str) -> tuple[str, str]:
        """Cut `text` after its leading options: `--top 5 net(x, k=-1)` gives `--top 5` and `net(x, k=-1)`. `--` ends the options."""
        end = 0
        while (word := _WORD.match(text, end)) is not None and word[1].startswith("-"):
            if word[1] == "--":
                return text[:end], text[word.end() :].strip()
            end = word.end()
            if self._wants_value(word[1]):
                value = _WORD.match(text, end)
                end = value.end() if value else end
        return text[:end], text[end:].strip()

    def options(self) -> dict[str, argparse.Action]:
        """Every option string and what it stands for."""
        return dict(self._option_string_actions)

    def positionals(self) -> list[argparse.Action]:
        """The arguments without a dash."""
        return self._get_positional_actions()

    def _wants_value(self, word: str) -> bool:
        action = self._option_string_actions.get(word)
        return action is not None and action.nargs != 0
