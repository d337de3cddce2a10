"""`python -m benchmarks [name …]`: run the benchmarks, all of them by default."""

from __future__ import annotations

import importlib
import sys

NAMES = ("warm_ops", "cold_compile", "memory", "shim")

if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        if name not in NAMES:
            sys.exit(f"no benchmark {name!r}; there are {', '.join(NAMES)}")
        importlib.import_module(f"benchmarks.{name}").run()
