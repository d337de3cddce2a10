"""List the NEFFs of the cache, or open one: op, signature, cost, static memory, tensors, header, members, StableHLO.

%neuron neff                 every NEFF on disk and in memory, the last used first
%neuron neff 3fa2            the one whose key begins so
%neuron neff ./model.neff    any NEFF file, real or emulated

hits are calls in this process after the one that made or loaded it, `–` where it is on disk only; `01_what_happens_when_an_op_runs`
tells how a signature is read.
"""

from __future__ import annotations

import neuron_lab
from neuron_lab.report import NEFF_SORTS
from neuron_magics._context import Context
from neuron_magics._parser import Parser


def arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("key", nargs="?", metavar="KEY|FILE", help="the beginning of a key, or the path of a file")
    listing(parser)


def listing(parser: Parser) -> None:
    """The options of a list."""
    parser.add_argument("--sort", choices=NEFF_SORTS, default="used", help="order of the list (default used)")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="rows of the list (default 20)")


def run(text: str, parser: Parser, context: Context) -> neuron_lab.NeffCache | neuron_lab.OpenedNeff:
    options = parser.parse(text)
    if options.key is not None:
        return neuron_lab.open_neff(options.key)
    return neuron_lab.cache(sort=options.sort, top=options.top)
