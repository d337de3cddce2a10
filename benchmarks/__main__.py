"""`python -m benchmarks [name …]`: run the benchmarks, all of them by default."""

from __future__ import annotations

import importlib
import sys

NAMES = ("warm_ops", "recording", "cold_compile", "memory", "shim", "compiled", "explorer")
ON_REQUEST = ("compare", "peers")

if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        if name not in (*NAMES, *ON_REQUEST):
            sys.exit(f"no benchmark {name!r}; there are {', '.join((*NAMES, *ON_REQUEST))}")
        importlib.import_module(f"benchmarks.{name}").run()
