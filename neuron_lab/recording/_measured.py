"""Whether something is being measured now: what only looks on waits until that is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_spans: set[object] = set()


@contextmanager
def measured() -> Iterator[None]:
    """A span in which nothing but the program shall run."""
    span = object()
    _spans.add(span)
    try:
        yield
    finally:
        _spans.remove(span)


def is_measuring() -> bool:
    """Whether such a span is open, in any thread."""
    return bool(_spans)
