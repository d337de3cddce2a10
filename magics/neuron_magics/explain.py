"""What a finding's code means, with an example and its fixes: `%neuron explain NRN012`."""

from __future__ import annotations

import neuron_lab
from neuron_magics._context import Context
from neuron_magics._parser import Parser


def arguments(parser: Parser) -> None:
    """Declare the options."""
    from neuron_lab.report import EXPLANATIONS

    codes = "\n".join(f"  {item.code}  {item.title}" for item in EXPLANATIONS.values())
    parser.description = f"{parser.description}\n\n{codes}"
    parser.add_argument(
        "code",
        metavar="CODE",
        nargs="?",
        type=str.upper,
        choices=list(EXPLANATIONS),
        help="the finding's code; without it, this list",
    )


def run(text: str, parser: Parser, context: Context) -> neuron_lab.Page | None:
    code = parser.parse(text).code
    if code is None:
        print(parser.format_help().rstrip())
        return None
    return neuron_lab.explain(code)
