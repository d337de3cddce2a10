"""The profile of the cell that runs: begun and ended by the calls `_rewrite` puts into it, shown when IPython says it has run."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

from neuron_lab.errors import UsageProblem
from neuron_magics import profile
from neuron_magics._context import Context

if TYPE_CHECKING:
    from neuron_lab._profile import Session


_ABOVE = "put `%%neuron profile` on the first line, above the other magic"
_IN_VAIN = f"nothing was recorded: the magic above `%%neuron profile` ran the cell in its own way; {_ABOVE}"
_FIRST_ONLY = f"the cell ran {{}} times and the report tells of the first; to have all in it, {_ABOVE}"


@dataclass(slots=True)
class _Cell:
    """One `run_cell` in progress. They nest: user code may run a cell, and stand beside each other: a subshell is another thread.

    `headers` and `begun` are the profiler's counts before it.
    """

    raw: str | None
    headers: int
    begun: int
    session: Session | None = None
    options: profile.Options | None = None
    stopped: bool = False
    repeats: int = 0
    thread: int = field(default_factory=threading.get_ident)


class CellProfiler:
    """The profiles of one shell's cells."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell: ReferenceType[InteractiveShell] = ref(shell)
        self._cells: list[_Cell] = []
        self._kept: dict[int, Any] = {}  # by thread
        self._headers = 0
        self._begun = 0

    def header_read(self) -> None:
        """A header became a string, in this cell or in one that a magic is about to run."""
        self._headers += 1

    def begin(self, text: str) -> None:
        """Start to record; `text` is what follows `%%neuron profile`."""
        from neuron_lab._profile import Session

        shell, cell = self._shell(), self._innermost()
        self._begun += 1
        if cell is not None and cell.stopped:
            cell.repeats += 1
        # IPython announces no silent cell, and shows nothing for it; a header below another one measures the same span.
        if shell is None or cell is None or cell.session is not None:
            return
        cell.options = profile.cell_options(text).opened(Context(shell))
        session = Session(cell.options.view, profile.cell_label(shell), cell.raw or "")
        session.start()
        cell.session = session

    def end(self) -> None:
        """The user's last statement is done, or one has failed."""
        cell = self._innermost()
        if cell is not None and cell.session is not None:
            cell.session.stop()
            cell.stopped = True

    def keep(self, value: Any) -> None:
        """Hold the value of the last expression until it may be displayed."""
        self._kept[threading.get_ident()] = value

    def take(self) -> Any:
        """Hand it to IPython and let go of it."""
        return self._kept.pop(threading.get_ident())

    def cell_starts(self, info: ExecutionInfo) -> None:
        """`pre_run_cell`."""
        self._cells.append(_Cell(info.raw_cell, self._headers, self._begun))

    def cell_ended(self, result: ExecutionResult) -> None:
        """`post_run_cell`, which also comes for empty cells that were never announced."""
        raw = result.info.raw_cell if result.info is not None else None
        cell, shell = self._take(raw), self._shell()
        if cell is None or shell is None:
            return
        if problem := self._conclude(shell, cell, result):
            # The front end reads the result after this callback: the cell fails, for this reason and no other.
            result.error_in_exec = result.error_in_exec or result.error_before_exec or problem
            shell.showtraceback((type(problem), problem, None))

    def _conclude(self, shell: InteractiveShell, cell: _Cell, result: ExecutionResult) -> BaseException | None:
        """Show the report; why the cell fails, None when it does not."""
        if cell.session is None or cell.options is None:
            # A cell in another subshell may have had a header read as well.
            own = "%%neuron" in (cell.raw or "")
            read_in_vain = own and self._headers > cell.headers and self._begun == cell.begun
            return UsageProblem(_IN_VAIN) if result.success and read_in_vain else None
        error = result.error_in_exec or result.error_before_exec
        problem: BaseException | None
        try:
            problem = profile.conclude(shell, cell.session.finish(error, of_cell=True), cell.options)
        except KeyboardInterrupt:
            problem = KeyboardInterrupt("the cell was done, its report was not shown; `%neuron last` shows it")
        except Exception as failure:
            # IPython shows it and goes on. A cell that was to be held to a budget, or saved, has not been.
            if cell.options.budget is not None or cell.options.save is not None:
                result.error_in_exec = error or failure
            raise
        if cell.repeats:
            print(_FIRST_ONLY.format(cell.repeats + 1), file=sys.stderr)
        return problem

    def _innermost(self) -> _Cell | None:
        """The cell whose code runs in this thread."""
        thread = threading.get_ident()
        return next((cell for cell in reversed(self._cells) if cell.thread == thread), None)

    def _take(self, raw: str | None) -> _Cell | None:
        """The innermost cell with this text; cells of two subshells need not end in the order they began."""
        for index in reversed(range(len(self._cells))):
            if self._cells[index].raw is raw:
                return self._cells.pop(index)
        return None

    def abandon(self) -> None:
        """Stop whatever runs and forget it."""
        for cell in self._cells:
            if cell.session is not None:
                cell.session.stop()
                cell.session = None


_profilers: WeakKeyDictionary[InteractiveShell, CellProfiler] = WeakKeyDictionary()


def profiler_of(shell: InteractiveShell) -> CellProfiler:
    """The profiler of a shell, made when first asked for. It outlives `%unload_ext`, as the cell that unloads still ends."""
    if shell not in _profilers:
        _profilers[shell] = CellProfiler(shell)
    return _profilers[shell]
