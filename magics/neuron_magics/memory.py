"""Live device tensors by name: variable, module path, optimizer state, Out[n], last traceback; HBM in use and peak."""

from __future__ import annotations

import neuron_lab
from neuron_magics._context import Context
from neuron_magics._parser import Parser
from neuron_magics._widget import live_below, widget_argument


def arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--free",
        action="store_true",
        help="first let go of what the notebook keeps alive: Out, _, _5, the last traceback; never your variables",
    )
    widget_argument(parser)


def run(text: str, parser: Parser, context: Context) -> neuron_lab.Memory:
    options = parser.parse(text)
    found = neuron_lab.memory(free=options.free)
    if options.widget:
        live_below(context, found)
    return found
