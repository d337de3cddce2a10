"""The NEFF cache: where it is and which variable says so, what is in it; delete what is old, what is too much, or all.

    %neuron cache                                   list it, as `ls` does
    %neuron cache prune --older-than 7d --keep 2GB  files not used for a week, then the least recently used beyond 2 GB
    %neuron cache clear                             every file, and this process's memory: what comes next compiles again

Programs that run meanwhile are not disturbed. --dry-run deletes nothing and tells what would go.
"""

from __future__ import annotations

from IPython.core.error import UsageError

import neuron_lab
from neuron_magics import neff
from neuron_magics._context import Context
from neuron_magics._parser import Parser


def arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument(
        "action", nargs="?", choices=("ls", "prune", "clear"), default="ls", help="what to do (default ls)"
    )
    neff.listing(parser)
    parser.add_argument("--older-than", metavar="AGE", help="prune: what was not used for 7d, 12h, 90min")
    parser.add_argument("--keep", metavar="SIZE", help="prune: leave at most 2GB, 512MiB of the most recently used")
    parser.add_argument("--dry-run", action="store_true", help="prune, clear: delete nothing, tell what would go")


def run(text: str, parser: Parser, context: Context) -> neuron_lab.NeffCache | neuron_lab.CacheCleaning:
    options = parser.parse(text)
    if options.action != "prune" and (options.older_than is not None or options.keep is not None):
        raise UsageError(f"--older-than and --keep are of `%neuron cache prune`, not of {options.action}")
    if options.action == "ls" and options.dry_run:
        raise UsageError("--dry-run is of `%neuron cache prune` and `clear`; ls deletes nothing")
    found = neuron_lab.cache(sort=options.sort, top=options.top)
    if options.action == "clear":
        return found.clear(dry_run=options.dry_run)
    if options.action == "prune":
        return found.prune(older_than=options.older_than, keep=options.keep, dry_run=options.dry_run)
    return found
