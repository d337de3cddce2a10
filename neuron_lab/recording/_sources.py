"""The user's source beside what it did, kept with the recording: a cell can be edited or gone when the report is read."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePath

from neuron_lab.recording._events import Where

_CONTEXT = 1
_LINES = 2000
_LENGTH = 200
# The calls that IPython makes of magics, and the marks that a user writes instead.
_MARKS = {"run_line_magic": "%", "run_cell_magic": "%%", "system": "!", "getoutput": "!"}
_MAGIC = re.compile(rf"(?P<before>.*?)get_ipython\(\)\.(?P<method>{'|'.join(_MARKS)})\((?P<arguments>.*)\)")


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
        linecache.checkcache(file)  # it was edited and imported again
        text = linecache.getlines(file)
        cell = cell_name(file)
        kept = [(number, text[number - 1].rstrip()) for number in sorted(numbers) if 0 < number <= len(text)][:left]
        left -= len(kept)
        lines = tuple((number, _as_written(line, cell is not None)[:_LENGTH]) for number, line in kept)
        found.append(Source(file, cell or PurePath(file).name, lines))
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


def _as_written(line: str, of_cell: bool) -> str:
    """A line of a cell without what became of its magics: `%time f()`, `files = !ls`, the header of a profiled cell.

    A cell that `%run notebook.ipynb` runs is no cell to IPython, but may have a header.
    """
    if line.startswith(("'%%neuron", '"%%neuron')):
        return line.strip("'\"")
    called = _MAGIC.fullmatch(line) if of_cell else None
    if called is None:
        return line
    try:
        name, *rest = ast.literal_eval(f"({called['arguments']},)")
    except (ValueError, SyntaxError):  # written by the user, with more than texts in it
        return line
    return f"{called['before']}{_MARKS[called['method']]}{' '.join([name, *rest[:1]])}".rstrip()
