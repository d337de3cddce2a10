"""The live view of what a command gave, below what the cell shows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from neuron_magics._context import Context
from neuron_magics._parser import Parser

if TYPE_CHECKING:
    from neuron_lab.widgets._live import Live


class Explorable(Protocol):
    """A result that has a live view."""

    def explore(self) -> Live: ...


def widget_argument(parser: Parser) -> None:
    """Declare `--no-widget`."""
    parser.add_argument(
        "--no-widget",
        dest="widget",
        action="store_false",
        help="the report only, without the live view that takes its place",
    )


def live_below(context: Context, found: Explorable) -> None:
    """When the cell has shown `found` and somebody looks, show its live view; what goes into a variable is not shown."""
    from neuron_lab import widgets

    shell = context.shell
    if not widgets.front_end_is_there(shell):
        return

    def shown(ended: Any) -> None:
        shell.events.unregister("post_run_cell", shown)
        if ended.result is found:
            widgets.show_unasked(found.explore())

    shell.events.register("post_run_cell", shown)
