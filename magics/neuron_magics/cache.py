"""The NEFF cache: where it is and which variable says so, what is in it; delete what is old, what is too much, or all.

    %neuron cache                                   list it, as `ls` does
    %neuron cache prune --older-than 7d --keep 2GB  files not used for a week, then the least recently used beyond 2 GB
    %neuron cache clear                             every file, and this process's memory: what comes next compiles again

Programs that run meanwhile are not disturbed. --dry-run deletes nothing and tells what would go.
"""

from __future__ import annotations

from argparse import SUPPRESS

from IPython.core.error import UsageError

import neuron_lab
from neuron_magics import neff
from neuron_magics._context import Context
from neuron_magics._parser import Parser

_ACTIONS_OF = {
    "sort": ("ls",),
    "top": ("ls",),
    "older_than": ("prune",),
    "keep": ("prune",),
    "dry_run": ("prune", "clear"),
}


def arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument(
        "action", nargs="?", choices=("ls", "prune", "clear"), default="ls", help="what to do (default ls)"
    )
    neff.listing(parser)
    parser.add_argument(
        "--older-than", default=SUPPRESS, metavar="AGE", help="prune: what was not used for 7d, 12h, 90min"
    )
    parser.add_argument(
        "--keep", default=SUPPRESS, metavar="SIZE", help="prune: leave at most 2GB, 512MiB of the most recently used"
    )
    parser.add_argument(
        "--dry-run", action="store_true", default=SUPPRESS, help="prune, clear: delete nothing, tell what would go"
    )


def run(text: str, parser: Parser, context: Context) -> neuron_lab.NeffCache | neuron_lab.CacheCleaning:
    given = parser.given(text)
    action = given.pop("action")
    for name in given:
        if action not in _ACTIONS_OF[name]:
            raise UsageError(
                f"--{name.replace('_', '-')} is of `%neuron cache {' and '.join(_ACTIONS_OF[name])}`, not of {action}"
            )
    if action == "prune" and given.keys() <= {"dry_run"}:
        raise UsageError(
            "prune what? --older-than 7d: what was not used for a week; --keep 2GB: the least recently used beyond a size"
        )
    if action == "ls":
        return neuron_lab.cache(**given)
    found = neuron_lab.cache()
    return found.prune(**given) if action == "prune" else found.clear(**given)
