"""The report to look into: the explorer in a notebook, and the same in a page of its own.

The browser's side is hand-written and stands in `esm/`: it draws on canvas, fetches nothing and needs no library.
"""

from __future__ import annotations

from neuron_lab.widgets._front_end import front_end_is_there
from neuron_lab.widgets._page import explorer_document
from neuron_lab.widgets._payload import Payload, payload
from neuron_lab.widgets._show import explorer, holdings_view, pair, session_view, show_unasked, top_view

__all__ = [
    "Payload",
    "explorer",
    "explorer_document",
    "front_end_is_there",
    "holdings_view",
    "pair",
    "payload",
    "session_view",
    "show_unasked",
    "top_view",
]
