"""`python -m neuron_lab.emulator` builds the device now, so that the first notebook need not wait."""

from __future__ import annotations

import sys

from neuron_lab.emulator.build import BuildProblem, ensure_built

if __name__ == "__main__":
    try:
        print(f"the emulated device is built: {ensure_built()}")
    except BuildProblem as problem:
        sys.exit(f"neuron_lab: {problem}")
