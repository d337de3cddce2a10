"""Tab completion of commands, options and their values."""

from __future__ import annotations

import re

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from neuron_magics._commands import COMMANDS

_LINE = re.compile(r"\s*(?:\w+\s*=\s*)?%{1,2}neuron\s+(.*)$")
_WITH_VALUE = re.compile(r"(--[\w-]+)=(.*)")


@context_matcher()  # type: ignore[untyped-decorator]  # IPython is typed in part
def neuron_matcher(context: CompletionContext) -> SimpleMatcherResult:
    """Complete the words of a `%neuron` line; Python in a statement is left to the others."""
    line = _LINE.match(context.text_until_cursor)
    *before, begun = [""] if line is None else re.split(r"\s+", line[1])
    if option := _WITH_VALUE.match(begun):  # as `--sort ti`
        before, begun = [*before, option[1]], option[2]
    found = [] if line is None else [word for word in _candidates(before) if word.startswith(begun)]
    return {
        "completions": [SimpleCompletion(word, type="param") for word in found],
        "matched_fragment": begun,
        "suppress": bool(found),
    }


def _candidates(before: list[str]) -> list[str]:
    if not before:
        return [*COMMANDS, "--help"]
    command = COMMANDS.get(before[0])
    if command is None:
        return []
    parser = command.parser()
    options = parser.options()
    action = options.get(before[-1])
    if action is not None and action.nargs != 0:
        return list(action.choices or ())
    values = [word for item in parser.positionals() for word in item.choices or ()]
    return [*values, *sorted(options, key=lambda word: (word.lstrip("-"), word))]
