"""The result of a profile, and the latest one."""

from __future__ import annotations

import os
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, overload

from neuron_lab import _files, _notebook, _session, render, widgets
from neuron_lab._comparison import Comparison
from neuron_lab.errors import FileProblem, UsageProblem
from neuron_lab.recording import LARGEST_BYTES, Recording, dumps, loads
from neuron_lab.report import Difference, Findings, Report, Summary, View

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from neuron_lab.widgets._live import Live

# The one strong reference to a result that the library keeps: what `last()` hands out.
_last: Profile | None = None


def last() -> Profile:
    """The result of the latest profile that ended. Raises UsageProblem when there is none yet."""
    if _last is None:
        raise UsageProblem(
            "nothing was profiled yet; put `%%neuron profile` at the top of a cell, or use neuron_lab.profile()"
        )
    return _last


def load(path: str | os.PathLike[str]) -> Profile:
    """A saved profile: every table and finding is made anew from its recording, on any machine.

    Raises FileProblem when the file cannot be read, is no recording, is damaged, or is of a format this version does not read.
    """
    content = _files.read(path, LARGEST_BYTES)
    try:
        return Profile(Report(loads(content), PurePath(path).name))
    except FileProblem as problem:
        raise FileProblem(f"cannot load {os.fspath(path)}: {problem}") from None


class Profile:
    """A finished profile. In a notebook it displays as the report; `.ops` and its neighbours are pandas DataFrames.

    The end of a column's name is its unit: `_s` seconds, `_ms` milliseconds, `bytes`; `share` is a part of the wall time, 0 to 1.
    """

    def __init__(self, report: Report | None = None, view: View | None = None) -> None:
        self._view = view or View()
        self._report = report

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copy. Raises UsageProblem while the block still runs."""
        return {"_view": self._view, "_report": self.report}

    @property
    def report(self) -> Report:
        """The tables behind the DataFrames. Raises UsageProblem while the block still runs."""
        if self._report is None:
            raise UsageProblem("this profile is still running; read it after its block has ended")
        return self._report

    @property
    def recording(self) -> Recording:
        """The events and totals everything is made from."""
        return self.report.recording

    @property
    def ops(self) -> pd.DataFrame:
        """One row an op: calls, NEFFs, compile seconds by stage, cache hits, device ms, fallbacks, bytes, share of the wall."""
        return self.report.ops

    @property
    def neffs(self) -> pd.DataFrame:
        """One row a NEFF: where it came from, what it cost, how often it ran."""
        return self.report.neffs

    @property
    def lines(self) -> pd.DataFrame:
        """One row a line of your source that did something: what it compiled and loaded, device ms, fallbacks, copies, bytes, peak HBM."""
        return self.report.lines

    @property
    def modules(self) -> pd.DataFrame:
        """One row a module and phase: "Net.layers.0", what ran in it without the modules inside it, in the forward, backward, optimizer.

        The backward and optimizers run no module; modules of one class that are not part of another share their path.
        """
        return self.report.modules

    @property
    def compiles(self) -> pd.DataFrame:
        """One row a compile or a load from disk, in time order."""
        return self.report.compiles

    @property
    def recompiles(self) -> pd.DataFrame:
        """One row a compile or load: the nearest signature before it, the one thing that differs, the cost and the fix."""
        return self.report.recompiles

    @property
    def graphs(self) -> pd.DataFrame:
        """One row a function that torch.compile traced: Dynamo's number of it, the line that called, seconds, the guard that failed,
        the fix, and Dynamo's own words."""
        return self.report.graphs

    @property
    def findings(self) -> Findings:
        """What you should know, as records with `code`, `where`, `message`, `cost_ns` and `fix`; `.findings.frame` is a DataFrame."""
        return self.report.findings

    @property
    def fallbacks(self) -> pd.DataFrame:
        """One row an op and the reason for which it ran on the CPU: calls and ms."""
        return self.report.fallbacks

    @property
    def copies(self) -> pd.DataFrame:
        """One row a direction, h2d, d2h, d2d: calls, ms, bytes."""
        return self.report.copies

    @property
    def memory(self) -> pd.DataFrame:
        """HBM over time: one row a change, `at_s` from the start, `change` and `used` in bytes, and the line that took it.

        When there were too many, the newest are kept; the report's peaks are exact all the same.
        """
        return self.report.memory

    @property
    def summary(self) -> Summary:
        """Totals in one record; the split's `compile_s` … `rest_s` add up to `wall_s`."""
        return self.report.summary

    def show(self, **options: Any) -> None:
        """Display the report; `top`, `sort`, `min_ms` and `by` override what the profile was made with.

        Outside a notebook this prints the text. Raises UsageProblem for an option or value that does not exist.
        """
        display(self.viewed(**options))

    def viewed(self, **options: Any) -> Profile:
        """The same result, displayed another way: `top`, `sort`, `min_ms` and `by` as for `show`. Raises UsageProblem."""
        return Profile(self.report, self._view.changed(**options))

    def compare(self, other: Profile) -> Comparison:
        """What changed since `other`, the earlier profile: split, ops, new and lost NEFFs and fallbacks.

        Times are subtracted only where that means something: on one device, both cold or both warm, both complete. The result says
        what forbids it. Raises UsageProblem when `other` is no profile.
        """
        if not isinstance(other, Profile):
            raise UsageProblem(
                f"a profile is compared with another one, not with a {type(other).__name__}; neuron_lab.load(FILE) reads a saved one"
            )
        return Comparison(Difference(other.report, self.report))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording as versioned JSON, whole or not at all; `neuron_lab.load` reads it, also on another machine.

        Raises FileProblem when the file cannot be written.
        """
        _files.write(path, dumps(self.recording))

    def explore(self) -> Live:
        """The profile as a Jupyter widget: timeline, tables, source, memory and findings that follow each other.

        It shows every event the recording kept. Live while the notebook has its kernel; show the profile itself for what stays in a
        saved notebook.
        """
        return widgets.explorer(self.report, self._view)

    def to_text(self) -> str:
        """The report as text, 100 columns at most."""
        return render.report_text(self.report, self._view)

    @overload
    def to_html(self) -> str: ...

    @overload
    def to_html(self, path: str | os.PathLike[str]) -> None: ...

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """The report as one self-contained HTML fragment; with a `path`, write it as a page of its own.

        The page is the explorer, and the report where no script runs. It fetches nothing, opens from disk and is light or dark as the
        reader's system. Raises FileProblem.
        """
        if path is None:
            return render.report_html(self.report, self._view)
        _files.write(path, widgets.explorer_document(self.report, self._view))
        return None

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a timeline for Perfetto (ui.perfetto.dev), chrome://tracing or Holistic Trace Analysis. Raises FileProblem."""
        _files.write(path, render.chrome_trace(self.report))

    def to_speedscope(self, path: str | os.PathLike[str]) -> None:
        """Write a flame graph of your lines and their ops for speedscope.app. Raises FileProblem."""
        _files.write(path, render.speedscope(self.report))

    def to_csv(self, directory: str | os.PathLike[str]) -> None:
        """Write one CSV file a table into `directory`, made when it is not there: summary, ops, neffs, lines, modules, compiles,
        recompiles, graphs, fallbacks, copies, memory, findings. Raises FileProblem."""
        folder = _files.directory(directory)
        for name, text in render.csv_tables(self.report).items():
            _files.write(folder / f"{name}.csv", text)

    def figure(self) -> Figure:
        """The split, and HBM over time of each core that used some, as a matplotlib figure."""
        return render.report_figure(self.report)

    def __repr__(self) -> str:
        return f"<neuron profile: {'running' if self._report is None else render.report_line(self._report)}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        if self._report is None:
            return {"text/plain": repr(self)}
        return {"text/plain": self.to_text(), "text/html": self.to_html()}

    def finish(self, recording: Recording) -> None:
        """Make a running profile readable, keep it for `last()` and its row for `session()`."""
        global _last
        self._report = Report(recording)
        _last = self
        _session.keep(self._report)


def display(result: Profile | Comparison) -> None:
    """Through IPython where there is a shell, so that the front end picks text or HTML; printed otherwise."""
    if _notebook.shell() is None:
        encoding = sys.stdout.encoding or "utf-8"
        # The program goes on, whatever the terminal knows.
        print(result.to_text().encode(encoding, "replace").decode(encoding))
        return
    from IPython import display as front_end

    front_end.display(result)  # type: ignore[no-untyped-call]
