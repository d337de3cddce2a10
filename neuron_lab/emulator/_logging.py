"""The emulator's log, as TorchNeuron's two variables ask for it. Without them Python's own logging settings hold."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

__all__ = ["configure"]

_LEVEL, _FILE = "TORCH_NEURONX_LOG_LEVEL", "TORCH_NEURONX_LOG_FILE"
_LEVELS = {"0": logging.ERROR, "1": logging.WARNING, "2": logging.INFO, "3": logging.DEBUG}
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def configure(environ: Mapping[str, str] = os.environ) -> None:
    """Send the emulator's messages to TORCH_NEURONX_LOG_FILE, else to stderr, from TORCH_NEURONX_LOG_LEVEL (0 to 3) up."""
    wanted, path = environ.get(_LEVEL), environ.get(_FILE)
    if not wanted and not path:
        return
    log = logging.getLogger("neuron_lab.emulator")
    level = _LEVELS.get(wanted or "1")
    if level is None:
        log.warning("%s=%r is not one of 0 (errors), 1 (warnings), 2 (infos) and 3 (all): 1 it is", _LEVEL, wanted)
        level = logging.WARNING
    handler: logging.Handler = logging.StreamHandler()
    if path:
        try:
            handler = logging.FileHandler(path)
        except OSError as error:
            log.warning("%s=%r cannot be written, the log goes to stderr: %s", _FILE, path, error)
    handler.setFormatter(logging.Formatter(_FORMAT))
    log.addHandler(handler)
    log.setLevel(level)
    log.propagate = False
