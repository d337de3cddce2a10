"""The latest profile again: `p = %neuron last` keeps it."""

from __future__ import annotations

from neuron_lab import _result
from neuron_magics._context import Context
from neuron_magics._parser import Parser


def arguments(parser: Parser) -> None:
    """It has no options of its own."""


def run(text: str, parser: Parser, context: Context) -> _result.Profile:
    parser.parse(text)
    return _result.last()
