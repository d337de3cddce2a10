"""Whether an op that could not be compiled may run on the CPU: the two variables of TorchNeuron that forbid it, and its texts."""

from __future__ import annotations

import os
import traceback

from neuron_lab.emulator.lowering import Unlowerable

__all__ = ["allow"]

_ONLY_UNIMPLEMENTED = "TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS"
_ENABLED = "NEURON_FALLBACK_ENABLED"
_STACK = "TORCH_NEURONX_ENABLE_STACK_TRACE"


def allow(op: str, arguments: str, error: BaseException) -> None:
    """Return when `op` may run on the CPU instead. Raises RuntimeError, in TorchNeuron's words, when the user forbade it.

    An op without a lowering is unimplemented and may always fall back; what is forbidden is to hide the failure of a
    compiler behind a slow result.
    """
    if not _is_failure(error):
        return
    if os.environ.get(_ONLY_UNIMPLEMENTED) == "1":
        raise RuntimeError(
            f"CPU fallback disabled because {_ONLY_UNIMPLEMENTED}=1. Operation {op} failed to execute on Neuron (last "
            f"implementation: emulated, StableHLO and XLA). Details: {error} Args: [{arguments}]. Kwargs: []"
        ) from error
    if os.environ.get(_ENABLED, "").lower() in ("0", "false"):
        stack = "".join(traceback.format_stack()) if os.environ.get(_STACK) == "1" else ""
        raise RuntimeError(
            f"stream_id=0; Compilation error occurred on Neuron for operation={op};\n"
            f'error message="COMPILATION FAILED: {error}"\npython stack trace={stack}'
        ) from error


def _is_failure(error: BaseException | None) -> bool:
    """Whether a compiler failed. A reason that lowering gives by itself is not one; it chains what it only passes on."""
    while error is not None:
        if not isinstance(error, Unlowerable):
            return True
        error = error.__cause__
    return False
