"""Which device serves `neuron` and why: HBM of each core, versions, the NEFF cache, variables that are set but not read."""

from __future__ import annotations

import neuron_lab
from neuron_magics._context import Context
from neuron_magics._parser import Parser


def arguments(parser: Parser) -> None:
    """It has no options of its own."""


def run(text: str, parser: Parser, context: Context) -> neuron_lab.Status:
    parser.parse(text)
    return neuron_lab.status()
