"""One Trainium2 chip as a trn2.3xlarge shows it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from neuron_lab.errors import UsageProblem


@dataclass(frozen=True, slots=True)
class Chip:
    """The instance that is emulated. `hbm_bytes` is the limit of each core."""

    instance: str
    family: str
    cores: int
    hbm_bytes: int


# aws-neuron-sdk, about-neuron/arch/neuron-hardware/trainium2: 96 GiB of HBM in four banks, eight physical cores, which
# LNC=2 (the default) pairs into four logical ones, so 24 GiB each.
_TRN2_3XLARGE = Chip(instance="trn2.3xlarge", family="trn2", cores=4, hbm_bytes=24 << 30)


def chip() -> Chip:
    """The emulated chip."""
    return _TRN2_3XLARGE


def visible_cores(chip: Chip, environ: Mapping[str, str] = os.environ) -> int:
    """How many cores this process sees: a launcher's LOCAL_WORLD_SIZE, as in TorchNeuron; else, as in the Neuron runtime,
    NEURON_RT_VISIBLE_CORES, which wins over NEURON_RT_NUM_CORES, where 0 is all.

    Raises UsageProblem for what the runtime would refuse.
    """
    processes = environ.get("LOCAL_WORLD_SIZE")
    if processes:
        return _count("LOCAL_WORLD_SIZE", processes, chip)
    visible = environ.get("NEURON_RT_VISIBLE_CORES")
    if visible:
        return len(_core_list(visible, chip.cores))
    number = environ.get("NEURON_RT_NUM_CORES")
    if not number or number == "0":
        return chip.cores
    return _count("NEURON_RT_NUM_CORES", number, chip)


def _count(variable: str, text: str, chip: Chip) -> int:
    if not _is_number(text) or not 0 < int(text) <= chip.cores:
        raise UsageProblem(f"{variable}={text!r}: the emulated {chip.instance} has 1 to {chip.cores} cores")
    return int(text)


def _core_list(text: str, count: int) -> set[int]:
    """ "0-3" or "0,2" as a set of core numbers."""
    cores: set[int] = set()
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        last = last if dash else first
        if not (_is_number(first) and _is_number(last)) or int(first) > int(last):
            raise UsageProblem(f"NEURON_RT_VISIBLE_CORES={text!r} is not a list of cores such as 0-3 or 0,2")
        if int(last) >= count:
            raise UsageProblem(f"NEURON_RT_VISIBLE_CORES={text!r}: the emulated chip has cores 0 to {count - 1}")
        cores.update(range(int(first), int(last) + 1))
    return cores


def _is_number(text: str) -> bool:
    # str.isdigit alone takes digits that int refuses.
    return text.isascii() and text.isdigit()
