"""A recording as versioned JSON, and back.

    {"format": "neuron_lab recording", "version": [1, 0], "written_by": "neuron_lab 0.1.0",
     "words": [...], "places": {...}, "recording": {...}}

A reader takes every minor version of its major one: what it does not know it leaves, what is not there has its default. Reading is
data to data: nothing is executed, imported or looked up by a name in the file, and its size is bounded before anything is built.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from neuron_lab._version import __version__
from neuron_lab.errors import FileProblem
from neuron_lab.recording._collector import uncollected
from neuron_lab.recording._columns import Mismatch, Pool, pack, pack_many, unpack, unpack_many
from neuron_lab.recording._events import Where
from neuron_lab.recording._recording import Recording

FORMAT = "neuron_lab recording"
VERSION = (1, 1)
# A full ring of events takes about 12 MB and 2 million values.
LARGEST_BYTES = 64 << 20
_LARGEST_VALUES = 8_000_000


def dumps(recording: Recording) -> bytes:
    """The file's content. Raises FileProblem when it would be larger than what `loads` accepts."""
    pool = Pool()
    with uncollected():
        body = pack(recording, pool)
        places = pack_many(Where, pool.places, pool)
    data = {
        "format": FORMAT,
        "version": list(VERSION),
        "written_by": f"neuron_lab {__version__}",
        "words": pool.words,
        "places": places,
        "recording": body,
    }
    content = json.dumps(data, separators=(",", ":"), allow_nan=False).encode("ascii")
    if problem := _too_large(content):
        raise FileProblem(f"this recording cannot be saved: {problem}; profile a shorter span")
    return content


def loads(content: bytes) -> Recording:
    """The recording in a file's content. Raises FileProblem that says what is wrong with it."""
    if problem := _too_large(content):
        raise FileProblem(f"it is not a recording of neuron_lab: {problem}")
    try:
        with uncollected():
            return _recording(_parsed(content))
    except Mismatch as problem:
        raise FileProblem(f"the recording is damaged: {problem}") from None


def _too_large(content: bytes) -> str:
    if len(content) > LARGEST_BYTES:
        return f"it has more than {LARGEST_BYTES >> 20} MiB"
    if content.count(b",") > _LARGEST_VALUES:
        return f"it has more than {_LARGEST_VALUES:,} values"
    return ""


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        data = json.loads(content, parse_constant=_refuse)
    except RecursionError:
        raise FileProblem("it is not a recording of neuron_lab: it is nested too deeply") from None
    except ValueError as error:
        raise FileProblem(f"it is not JSON, or cut short: {error}") from None
    if type(data) is not dict or type(data.get("format")) is not str:
        raise FileProblem('it is not a recording of neuron_lab: it has no "format"')
    if data["format"] != FORMAT:
        raise FileProblem(f"it is not a recording: it is a {data['format'][:60]}")
    return data


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _recording(data: dict[str, Any]) -> Recording:
    version = data.get("version")
    if type(version) is not list or len(version) != 2 or any(type(part) is not int or part < 0 for part in version):
        raise Mismatch("version is not two whole numbers")
    if version[0] != VERSION[0]:
        writer = data.get("written_by")
        by = f", written by {writer[:60]}" if type(writer) is str else ""
        raise FileProblem(
            f"it has version {version[0]}.{version[1]} of the format{by}; this neuron_lab {__version__} reads {VERSION[0]}.x: "
            "load it with that version"
        )
    words = data.get("words")
    if type(words) is not list or any(type(word) is not str for word in words):
        raise Mismatch("words is not a list of texts")
    pool = Pool(words)
    pool.places.extend(unpack_many(Where, data.get("places"), pool))
    recording: Recording = unpack(Recording, data.get("recording"), pool)
    if recording.end_ns < recording.start_ns:
        raise Mismatch("it ends before it starts")
    return recording
