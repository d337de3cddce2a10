"""Every profiled cell of the session in one table: wall, compile, device, fallbacks, NEFFs, findings, and the total."""

from __future__ import annotations

import neuron_lab
from neuron_magics._context import Context, expanded
from neuron_magics._parser import Parser
from neuron_magics._widget import live_below, widget_argument


def arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("--save", metavar="FILE", help="write the table as JSON")
    parser.add_argument("--html", metavar="FILE", help="write the table as a page of its own")
    widget_argument(parser)


def run(text: str, parser: Parser, context: Context) -> neuron_lab.SessionReport:
    options = parser.parse(text)
    found = neuron_lab.session()
    if options.save is not None:
        found.save(expanded(context, options.save))
    if options.html is not None:
        found.to_html(expanded(context, options.html))
    if options.widget:
        live_below(context, found)
    return found
