"""The latest profile again: `p = %neuron last` keeps it, `%neuron last --by line` shows it another way."""

from __future__ import annotations

import neuron_lab
from neuron_magics._context import Context
from neuron_magics._parser import Parser
from neuron_magics._widget import live_below, widget_argument
from neuron_magics.profile import view_arguments, view_options, worth_exploring


def arguments(parser: Parser) -> None:
    """Declare the options."""
    view_arguments(parser)
    widget_argument(parser)


def run(text: str, parser: Parser, context: Context) -> neuron_lab.Profile:
    args = parser.parse(text)
    options = view_options(args)
    found = neuron_lab.last().viewed(**options) if options else neuron_lab.last()
    if args.widget and worth_exploring(found):
        live_below(context, found)
    return found
