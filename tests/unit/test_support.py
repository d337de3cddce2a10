"""TorchNeuron's table as it is shipped."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import torch

from neuron_lab.preflight import Status, support


def test_the_whole_table_is_there() -> None:
    counts = Counter(support().values())
    assert counts.keys() == set(get_args(Status))
    assert (counts["native"], counts["cpu_fallback"], counts["composite"], counts["unsupported"]) == (
        383,
        784,
        1727,
        180,
    )


def test_what_is_known_of_some() -> None:
    table = support()
    assert table["aten::mm"] == "native"
    assert table["aten::argmax.out"] == "cpu_fallback"
    assert table["aten::argmax"] == "cpu_fallback"
    assert table["aten::view"] == "view"
    assert table["aten::sqrt_"] == "composite"


def test_nearly_every_op_of_this_torch_is_in_it() -> None:
    """A name that is spelled another way is never found, and nothing is said about it."""
    names = {
        name.removesuffix(".default") for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")
    }
    known = support().keys()
    assert len(names & known) > 0.95 * len(known)
