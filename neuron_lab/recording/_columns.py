"""Records as JSON and back, by their type annotations: a record is an object, many of one kind are an object of columns.

Fields have names, so that a reader meets a newer writer's extra field and leaves it, and an older one's missing field has its default.
Values are checked, never coerced: 1.0 is no int, True is none either. Inside columns a text stands once, as does a `Where`, and
cells hold its number.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union, get_args, get_origin, get_type_hints

from neuron_lab.recording._events import Where

# The difference of two such times fits 64 bits.
_LARGEST = (1 << 62) - 1


class Mismatch(Exception):
    """A value that is not what the record's field says."""


@dataclass(slots=True)
class Pool:
    """Texts and places that cells point to."""

    words: list[str] = field(default_factory=list)
    places: list[Where] = field(default_factory=list)
    _index: dict[str | Where, int] = field(default_factory=dict)

    def word(self, text: str) -> int:
        """The number of a text, new or known."""
        return self._number(text, self.words)

    def place(self, where: Where) -> int:
        """The number of a place, new or known."""
        return self._number(where, self.places)

    def _number(self, item: Any, kept: list[Any]) -> int:
        number = self._index.get(item)
        if number is None:
            number = self._index[item] = len(kept)
            kept.append(item)
        return number


@dataclass(frozen=True, slots=True)
class _Codec:
    pack: Callable[[Any, Pool], Any]
    unpack: Callable[[Any, Pool], Any]


def pack(record: Any, pool: Pool) -> dict[str, Any]:
    """A record as what `json.dumps` takes; its columns point into `pool`."""
    kind: Any = type(record)
    packed: dict[str, Any] = _codec(kind, False).pack(record, pool)
    return packed


def unpack(kind: Any, data: Any, pool: Pool) -> Any:
    """The record of type `kind` that `data` describes. Raises Mismatch with the field's name."""
    return _codec(kind, False).unpack(data, pool)


def pack_many(kind: Any, records: Sequence[Any], pool: Pool) -> dict[str, list[Any]]:
    """Records of one type as columns."""
    packed: dict[str, list[Any]] = _table(kind).pack(records, pool)
    return packed


def unpack_many(kind: Any, data: Any, pool: Pool) -> tuple[Any, ...]:
    """The records in columns. Raises Mismatch."""
    records: tuple[Any, ...] = _table(kind).unpack(data, pool)
    return records


@functools.cache
def _codec(hint: Any, shared: bool) -> _Codec:
    """How values of one annotation are written and read; `shared`: inside columns."""
    if hint in _PLAIN:
        check = _PLAIN[hint]
        return _word if hint is str and shared else _Codec(lambda value, pool: value, lambda data, pool: check(data))
    if get_origin(hint) in (Union, types.UnionType):
        (inner,) = (item for item in get_args(hint) if item is not type(None))
        return _optional(_codec(inner, shared))
    if get_origin(hint) is tuple:
        return _tuple(get_args(hint), shared)
    if get_origin(hint) is Mapping:
        return _Codec(lambda value, pool: dict(value), lambda data, pool: _words_by_word(data))
    if hint is Where:
        return _place
    return _record(hint)


def _whole(data: Any) -> int:
    if type(data) is not int or abs(data) > _LARGEST:
        raise Mismatch(f"{_brief(data)} is not a whole number within ±2^62")
    return data


def _exactly(kind: type) -> Callable[[Any], Any]:
    def check(data: Any) -> Any:
        if type(data) is not kind:
            raise Mismatch(f"{_brief(data)} is not a {kind.__name__}")
        return data

    return check


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    int: _whole,
    str: _exactly(str),
    bool: _exactly(bool),
    float: _exactly(float),
}


def _pointed(data: Any, kept: list[Any], what: str) -> Any:
    if type(data) is not int or not 0 <= data < len(kept):
        raise Mismatch(f"{_brief(data)} is not the number of one of {len(kept)} {what}")
    return kept[data]


_word = _Codec(lambda value, pool: pool.word(value), lambda data, pool: _pointed(data, pool.words, "words"))
_place = _Codec(lambda value, pool: pool.place(value), lambda data, pool: _pointed(data, pool.places, "places"))


def _optional(inner: _Codec) -> _Codec:
    return _Codec(
        lambda value, pool: None if value is None else inner.pack(value, pool),
        lambda data, pool: None if data is None else inner.unpack(data, pool),
    )


def _tuple(items: tuple[Any, ...], shared: bool) -> _Codec:
    if items[-1] is Ellipsis:
        if _is_record(items[0]):
            return _table(items[0])
        inner = _codec(items[0], shared)
        return _Codec(
            lambda value, pool: [inner.pack(item, pool) for item in value],
            lambda data, pool: tuple(inner.unpack(item, pool) for item in _listed(data)),
        )
    parts = [_codec(item, shared) for item in items]

    def unpack_parts(data: Any, pool: Pool) -> tuple[Any, ...]:
        if len(_listed(data)) != len(parts):
            raise Mismatch(f"{_brief(data)} has not {len(parts)} items")
        return tuple(part.unpack(item, pool) for part, item in zip(parts, data, strict=True))

    return _Codec(
        lambda value, pool: [part.pack(item, pool) for part, item in zip(parts, value, strict=True)], unpack_parts
    )


def _is_record(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint) or hasattr(hint, "_field_defaults")


def _fields(kind: Any) -> dict[str, Any]:
    return {name: hint for name, hint in get_type_hints(kind).items() if not name.startswith("_")}


def _defaults(kind: Any) -> dict[str, Callable[[], Any]]:
    if not dataclasses.is_dataclass(kind):
        return {name: functools.partial(_itself, value) for name, value in kind._field_defaults.items()}
    found: dict[str, Callable[[], Any]] = {}
    for item in dataclasses.fields(kind):
        if item.default is not dataclasses.MISSING:
            found[item.name] = functools.partial(_itself, item.default)
        elif item.default_factory is not dataclasses.MISSING:
            found[item.name] = item.default_factory
    return found


def _itself(value: Any) -> Any:
    return value


def _record(kind: Any) -> _Codec:
    codecs = {name: _codec(hint, False) for name, hint in _fields(kind).items()}
    defaults = _defaults(kind)

    def unpack_record(data: Any, pool: Pool) -> Any:
        values = {}
        for name, codec in codecs.items():
            if name in _object(data):
                with_name = functools.partial(codec.unpack, data[name], pool)
                values[name] = _named(name, with_name)
            elif name in defaults:
                values[name] = defaults[name]()
            else:
                raise Mismatch(f"{name} is missing")
        return kind(**values)

    return _Codec(
        lambda value, pool: {name: codec.pack(getattr(value, name), pool) for name, codec in codecs.items()},
        unpack_record,
    )


@functools.cache
def _table(kind: Any) -> _Codec:
    codecs = {name: _codec(hint, True) for name, hint in _fields(kind).items()}
    defaults = _defaults(kind)

    def unpack_table(data: Any, pool: Pool) -> tuple[Any, ...]:
        lengths = {len(_listed(column)) for name, column in _object(data).items() if name in codecs}
        if len(lengths) != 1:
            raise Mismatch(f"{len(lengths)} different lengths of columns" if lengths else "no columns")
        (length,) = lengths
        columns: list[Any] = []
        for name, codec in codecs.items():
            if name in data:
                columns.append(_named(name, functools.partial(_column, codec, data[name], pool)))
            elif name in defaults:
                columns.append([defaults[name]() for _ in range(length)])
            else:
                raise Mismatch(f"{name} is missing")
        return tuple(map(kind, *columns))

    return _Codec(
        lambda value, pool: {
            name: [codec.pack(getattr(item, name), pool) for item in value] for name, codec in codecs.items()
        },
        unpack_table,
    )


def _column(codec: _Codec, cells: list[Any], pool: Pool) -> list[Any]:
    return [codec.unpack(cell, pool) for cell in cells]


def _named(name: str, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Mismatch as problem:
        raise Mismatch(f"{name}: {problem}") from None


def _listed(data: Any) -> list[Any]:
    checked: list[Any] = _exactly(list)(data)
    return checked


def _object(data: Any) -> dict[str, Any]:
    checked: dict[str, Any] = _exactly(dict)(data)
    return checked


def _words_by_word(data: Any) -> dict[str, str]:
    if any(type(value) is not str for value in _object(data).values()):
        raise Mismatch(f"{_brief(data)} holds something else than texts")
    return dict(data)


def _brief(data: Any) -> str:
    if isinstance(data, (list, dict)):
        return f"a {type(data).__name__} of {len(data)}"
    text = repr(data) if not isinstance(data, int) or abs(data) < 1 << 64 else "a huge number"
    return text if len(text) <= 40 else f"{text[:39]}…"
