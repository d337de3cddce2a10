"""The user's source beside what it did, kept with the recording: a cell can be edited or gone when the report is read."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePath

from neuron_lab.recording._events import Where

_CONTEXT = 1
_LINES = 2000
_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Source:
    """Lines of one file or cell: `name` is "In[12]" or the file's name, `lines` are (number, text) in order, text without its end."""

    file: str
    name: str
    lines: tuple[tuple[int, str], ...]


def sources_of(places: Iterable[Where | None], cell_name: Callable[[str], str | None]) -> tuple[Source, ...]:
    """The lines at `places`, those around them and the first line of each function; `cell_name` knows the files that are cells."""
    wanted: dict[str, set[int]] = {}
    for place in places:
        if place is not None:
            around = range(place.line - _CONTEXT, place.line + _CONTEXT + 1)
            wanted.setdefault(place.file, set()).update({place.first_line, *around})
    found, left = [], _LINES
    for file, numbers in wanted.items():
        text = linecache.getlines(file)
        kept = [
            (number, _shown(text[number - 1])) for number in sorted(numbers) if 0 < number <= len(text) and left > 0
        ][:left]
        left -= len(kept)
        found.append(Source(file, cell_name(file) or PurePath(file).name, tuple(kept)))
    return tuple(found)


def line_of_error(error: BaseException, is_user_file: Callable[[str], bool]) -> Where | None:
    """The innermost line of the user's in the traceback of `error`, None when none of them is."""
    found, trace = None, error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_user_file(code.co_filename):
            found = Where(code.co_filename, code.co_firstlineno, code.co_name, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _shown(line: str) -> str:
    text = line.rstrip()
    # The header of a profiled cell runs as a string.
    if text.startswith(("'%%neuron", '"%%neuron')):
        text = text.strip("'\"")
    return text[:_LENGTH]
