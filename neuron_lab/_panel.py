"""A control panel: choose, run, and look at the profile of the run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

import ipywidgets

from neuron_lab import device
from neuron_lab._compiled import compiled_anew
from neuron_lab._profile import profile
from neuron_lab._result import Profile
from neuron_lab.errors import UsageProblem

if TYPE_CHECKING:
    from neuron_lab.widgets._live import Live

_MODES = ("eager", "compiled")
_STARTS = ("warm", "cold")
_STARTS_TOLD = ("run once before, which is not measured", "measured with empty caches: everything is compiled")
_LABEL = 60


class Panel(ipywidgets.VBox):  # type: ignore[misc]  # no types
    """Controls above the explorer of the latest run, which `.result` is; None before the first."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], arguments: dict[str, Any]) -> None:
        self.result: Profile | None = None
        self._explorer: Live | None = None
        self._function = function
        self._args = args
        self._compiled: Callable[..., Any] | None = None
        self._controls = {name: _control(name, value) for name, value in arguments.items()}
        self._fixed = {name: arguments[name] for name, control in self._controls.items() if control is None}
        cores = len(device.core_memory())
        self._core = ipywidgets.Dropdown(
            options=[(f"neuron:{n}", n) for n in range(cores)] or [("neuron:0", 0)], description="core"
        )
        self._mode = ipywidgets.ToggleButtons(options=_MODES, style={"button_width": "80px"})
        self._start = ipywidgets.ToggleButtons(
            options=_STARTS, tooltips=_STARTS_TOLD, style={"button_width": "80px"}, layout={"margin": "0 0 0 16px"}
        )
        self._run = ipywidgets.Button(description="Run", button_style="primary", tooltip="run it and profile it")
        self._run.on_click(lambda _: self.run())
        self._output = ipywidgets.Output()
        own = [control for control in self._controls.values() if control is not None]
        self._top = ipywidgets.VBox([ipywidgets.HBox([self._core, self._mode, self._start]), *own, self._run])
        super().__init__([self._top, self._output])

    def run(self) -> None:
        """What the button does: run with the values of the controls, profile it, show the explorer.

        What the run prints, and an error that it raises, stands above the explorer.
        """
        self._run.disabled, self._run.description = True, "runs …"
        try:
            self._output.clear_output()
            with self._output:  # shows an error as well
                self._profile()
        finally:
            self._run.disabled, self._run.description = False, "Run"

    def _profile(self) -> None:
        chosen = {name: control.value for name, control in self._controls.items() if control is not None}
        cold = self._start.value == "cold"
        function = self._chosen_function(cold)

        def call() -> None:
            function(*self._args, **self._fixed, **chosen)

        with self._on_core(), device.fresh_caches() if cold else nullcontext():
            if not cold:
                call()
            # A run that fails has its profile too; one that cannot be profiled has none.
            with ExitStack() as after, profile(label=self._label(chosen)) as result:
                after.callback(self._show, result)
                call()

    def _chosen_function(self, cold: bool) -> Callable[..., Any]:
        if self._mode.value == "eager":
            return self._function
        if cold:
            return compiled_anew(self._function)
        if self._compiled is None:
            import torch

            self._compiled = torch.compile(self._function, backend="neuron")
        return self._compiled

    def _on_core(self) -> AbstractContextManager[Any]:
        """Core 0 is where a tensor on "neuron" goes anyway."""
        if not self._core.value:
            return nullcontext()
        import torch

        chosen: AbstractContextManager[Any] = torch.get_device_module("neuron").device(self._core.value)
        return chosen

    def _label(self, chosen: dict[str, Any]) -> str:
        name = getattr(self._function, "__name__", type(self._function).__name__)
        values = ", ".join(f"{key}={value!r}" for key, value in chosen.items())
        how = [
            word for word, usual in ((self._mode.value, _MODES[0]), (self._start.value, _STARTS[0])) if word != usual
        ]
        return " ".join([f"{name}({values})"[:_LABEL], *how])

    def _show(self, result: Profile) -> None:
        self.result = result
        if self._explorer is not None:
            self._explorer.release()
        self._explorer = result.explore()
        self.children = (self._top, self._output, self._explorer)

    def __repr__(self) -> str:
        return f"<neuron panel: live in a notebook with a kernel; result {self.result!r}>"


def panel(function: Callable[..., Any], /, *args: Any, **arguments: Any) -> Panel:
    """Explore `function` by controls: core, eager or compiled, cold or warm, and one control for each of `arguments`.

    A value makes a control as in `ipywidgets.interact`: (1, 256) and (1, 256, 8) a slider, a list or dict a choice, a bool a box, a
    str a text; a widget is taken as it is. Any other value, and `args`, are passed as they are. Nothing runs before the button.
    Raises UsageProblem when `function` does not take these arguments, or needs more.
    """
    _check(function, args, arguments)
    return Panel(function, args, arguments)


def _check(function: Callable[..., Any], args: tuple[Any, ...], arguments: dict[str, Any]) -> None:
    import torch

    if not callable(function):
        raise UsageProblem(
            f"panel calls the function itself and was given a {type(function).__name__}: panel(model, x)"
        )
    try:
        # A module is called with anything, and hands it to its forward.
        signature = inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function)
    except (TypeError, ValueError):
        return  # a function of C: the run tells
    try:
        signature.bind(*args, **arguments)
    except TypeError as problem:
        name = getattr(function, "__name__", type(function).__name__)
        raise UsageProblem(
            f"{name}{signature}: {problem}; each argument needs a control or a value, as in panel({name}, batch=(1, 64))"
        ) from None


def _control(name: str, value: Any) -> Any:
    control = ipywidgets.interactive.widget_from_abbrev(value)
    if control is not None and not control.description:
        control.description = name
    return control
