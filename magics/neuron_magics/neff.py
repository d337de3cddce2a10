"""List the NEFFs of the cache, or open one: op, signature, cost, static memory, tensors, header, members, StableHLO.

%neuron neff                 every NEFF on disk and in memory, the last used first
%neuron neff 3fa2            the one whose key begins so
%neuron neff ./model.neff    any NEFF file, real or emulated

hits are calls in this process after the one that made or loaded it, `–` where it is on disk only; `01_what_happens_when_an_op_runs`
tells how a signature is read.
"""

from __future__ import annotations

from argparse import SUPPRESS

from IPython.core.error import UsageError

import neuron_lab
from neuron_magics._context import Context, expanded
from neuron_magics._parser import Parser


def arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("key", nargs="?", metavar="KEY|FILE", help="the beginning of a key, or the path of a file")
    listing(parser)


def listing(parser: Parser) -> None:
    """The options of a list; what the user does not say is not in the parsed namespace."""
    from neuron_lab.report import NEFF_SORTS

    parser.add_argument("--sort", choices=NEFF_SORTS, default=SUPPRESS, help="order of the list (default used)")
    parser.add_argument("--top", type=int, default=SUPPRESS, metavar="N", help="rows of the list (default 20)")


def run(text: str, parser: Parser, context: Context) -> neuron_lab.NeffCache | neuron_lab.OpenedNeff:
    given = parser.given(text)
    key = given.pop("key")
    if key is None:
        return neuron_lab.cache(**given)
    if given:
        raise UsageError(f"--{next(iter(given))} is of the list that `%neuron neff` alone shows, not of one NEFF")
    return neuron_lab.open_neff(expanded(context, key))
