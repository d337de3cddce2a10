"""Everything that is hung into a shell, and taken out again, in one place."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from IPython.core.interactiveshell import InteractiveShell

from neuron_lab.device import watch_compiles
from neuron_magics._cell import CellProfiler, profiler_of
from neuron_magics._complete import neuron_matcher
from neuron_magics._magic import NeuronMagics
from neuron_magics._progress import Drawer, Progress, line_of
from neuron_magics._rewrite import BodyTransformer, HeaderTransformer
from neuron_magics._traceback import CompileFrames


class Hooks:
    """The hooks of one shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._profiler: CellProfiler = profiler_of(shell)
        self._header = HeaderTransformer(self._profiler.header_read)
        self._body = BodyTransformer(shell)
        self._frames = CompileFrames(shell)
        new_line = line_of(shell)
        self._drawer = None if new_line is None else Drawer(Progress(), new_line)
        self._unwatch: Callable[[], None] | None = None

    def install(self, shell: InteractiveShell) -> None:
        shell.register_magics(NeuronMagics)
        shell.input_transformers_cleanup.append(self._header)
        shell.ast_transformers.append(self._body)
        shell.events.register("pre_run_cell", self._profiler.cell_starts)
        shell.events.register("post_run_cell", self._profiler.cell_ended)
        shell.Completer.custom_matchers.append(neuron_matcher)
        self._frames.install()
        if self._drawer is not None:
            shell.events.register("pre_run_cell", self._drawer.cell_starts)
            shell.events.register("post_run_cell", self._drawer.cell_ended)
            self._unwatch = watch_compiles(self._drawer.begins, self._drawer.ends)

    def remove(self, shell: InteractiveShell) -> None:
        self._profiler.abandon()
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop("neuron", None)
        shell.magics_manager.registry.pop(NeuronMagics.__name__, None)
        shell.input_transformers_cleanup.remove(self._header)
        # IPython drops an AST transformer of its own accord when one raises.
        if self._body in shell.ast_transformers:
            shell.ast_transformers.remove(self._body)
        shell.events.unregister("pre_run_cell", self._profiler.cell_starts)
        shell.events.unregister("post_run_cell", self._profiler.cell_ended)
        shell.Completer.custom_matchers.remove(neuron_matcher)
        self._frames.remove()
        if self._drawer is not None and self._unwatch is not None:
            self._unwatch()
            shell.events.unregister("pre_run_cell", self._drawer.cell_starts)
            shell.events.unregister("post_run_cell", self._drawer.cell_ended)
            self._drawer.cell_ended()  # a line that stands in this very cell
            self._drawer.stop()


_installed: WeakKeyDictionary[InteractiveShell, Hooks] = WeakKeyDictionary()


def load(shell: InteractiveShell) -> None:
    """Add `%neuron` to `shell`; loading again changes nothing."""
    if shell not in _installed:
        _installed[shell] = Hooks(shell)
        _installed[shell].install(shell)


def unload(shell: InteractiveShell) -> None:
    """Take everything back; a profile that still runs in `shell` is dropped."""
    hooks = _installed.pop(shell, None)
    if hooks is not None:
        hooks.remove(shell)
