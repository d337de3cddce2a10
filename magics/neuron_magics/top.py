"""The cores now: how busy each was since the last look, HBM by category. In a live front end the view goes on while cells run."""

from __future__ import annotations

import neuron_lab
from neuron_magics._context import Context
from neuron_magics._parser import Parser
from neuron_magics._widget import live_below, widget_argument


def arguments(parser: Parser) -> None:
    """Declare the options."""
    widget_argument(parser)


def run(text: str, parser: Parser, context: Context) -> neuron_lab.Top:
    options = parser.parse(text)
    found = neuron_lab.top()
    if options.widget:
        live_below(context, found)
    return found
