"""Signatures read back: `aten::add.Tensor(float32[8, 8]{1, 0}, int64~, alpha=1) default=float32`.

The device writes them (`signature_of` of its dispatcher): `~` marks a Python number that became a 0-d tensor, `#` one that became an
input, `{1, 0}` a buffer order. Whatever does not look like that is kept as a static argument, so that any text can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TENSOR = re.compile(r"([a-z]\w*)\[((?:\d{1,18}(?:, ?\d{1,18})*)?)\](\{[\d, ]*\})?")
_NUMBER = re.compile(r"([a-z]\w*)([~#])")
_NAMED = re.compile(r"([A-Za-z_]\w*)=(?!=)")
_DEPTH = 8  # lists in lists; no operator takes more


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor argument; `layout` is the buffer order as written, "" for contiguous."""

    dtype: str
    sizes: tuple[int, ...]
    layout: str = ""


@dataclass(frozen=True, slots=True)
class Number:
    """A Python number that is an input: its value makes no new NEFF, its dtype does."""

    dtype: str


@dataclass(frozen=True, slots=True)
class Static:
    """An argument that is part of the signature by its value."""

    text: str


@dataclass(frozen=True, slots=True)
class Signature:
    """Arguments by name: "input 0", "input 1" for tensors by position, "argument 2" for static ones, else the keyword."""

    op: str
    arguments: tuple[tuple[str, Tensor | Number | Static], ...]
    default: str

    @property
    def tensors(self) -> tuple[tuple[str, Tensor], ...]:
        """The tensor arguments."""
        return tuple((name, item) for name, item in self.arguments if isinstance(item, Tensor))


def short_signature(text: str) -> str:
    """Without the usual default dtype, as people are shown it."""
    return text.removesuffix(" default=float32")


def named_signature(op: str, text: str) -> str:
    """The same; a graph's begins with its name in place of "graph"."""
    short = short_signature(text)
    return op.removeprefix("graph::") + short.removeprefix("graph") if op.startswith("graph::") else short


def parse(text: str) -> Signature:
    """Read any text; what is not a signature becomes an op without arguments."""
    op, opened, rest = text.partition("(")
    body, closed, tail = rest.rpartition(")")
    if not opened or not closed:
        return Signature(text.strip(), (), "")
    arguments: list[tuple[str, Tensor | Number | Static]] = []
    for position, item in enumerate(_split(body)):
        named = _NAMED.match(item)
        name = named[1] if named else ""
        value = item[named.end() :] if named else item
        arguments += _read(value, name, position)
    return Signature(op.strip(), tuple(arguments), tail.strip().removeprefix("default="))


def _read(text: str, name: str, position: int, depth: int = _DEPTH) -> Iterator[tuple[str, Tensor | Number | Static]]:
    text = text.strip()
    if tensor := _TENSOR.fullmatch(text):
        sizes = tuple(int(size) for size in tensor[2].split(",") if size.strip())
        yield name or f"input {position}", Tensor(tensor[1], sizes, tensor[3] or "")
    elif number := _NUMBER.fullmatch(text):
        yield name or f"argument {position}", Number(number[1])
    elif depth and text.startswith("[") and text.endswith("]") and (_TENSOR.search(text) or _NUMBER.search(text)):
        for index, item in enumerate(_split(text[1:-1])):
            yield from _read(item, f"{name or f'input {position}'}[{index}]", position, depth - 1)
    else:
        yield name or f"argument {position}", Static(text)


def _split(text: str) -> list[str]:
    """Cut at the commas outside of brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "[({":
            depth += 1
        elif character in "])}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []
