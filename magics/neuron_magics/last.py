"""The latest profile again: `p = %neuron last` keeps it."""

from __future__ import annotations

import neuron_lab
from neuron_magics._context import Context
from neuron_magics._parser import Parser


def arguments(parser: Parser) -> None:
    """It has no options of its own."""


def run(text: str, parser: Parser, context: Context) -> neuron_lab.Profile:
    parser.parse(text)
    return neuron_lab.last()
