"""Why NEFFs were made and functions traced again: what differs from the nearest, the guard that failed, cost and fix.

Without a variable it is about the latest profile: `%neuron recompiles`, `%neuron recompiles first`.
"""

from __future__ import annotations

import neuron_lab
from neuron_magics._context import Context, profile_named
from neuron_magics._parser import Parser


def arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument(
        "profile", nargs="?", metavar="VAR", help="a variable that holds a profile (default: the latest)"
    )


def run(text: str, parser: Parser, context: Context) -> neuron_lab.Page:
    name = parser.parse(text).profile
    return neuron_lab.recompiles(None if name is None else profile_named(context, name))
