"""The one Jupyter widget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anywidget
import ipywidgets
import traitlets

from neuron_lab.widgets import _code


@dataclass(frozen=True, slots=True)
class Content:
    """What a view is made of when somebody looks: `meta` is JSON, `columns` go as bytes."""

    meta: dict[str, Any]
    columns: tuple[bytes, ...] = ()


class Live(anywidget.AnyWidget):
    """A live view in a notebook.

    Its state is a loader of two kilobytes and nothing else: code and content are sent when a front end draws it and asks, so that a
    saved notebook stays small, a run that nobody watches pays nothing, and nothing is sent while a cell is measured.

    anywidget drops all messages to a widget whose code was not there within two seconds, as in a page or on a machine that is busy. A
    plain model has no code to wait for: what the kernel says goes through one.

    `mount` names the function of the browser's side that draws it, `make` its content, `act` does what it asks for later: the answer is news for it, None has it drawn again.
    """

    _esm = _code.loader()
    _channel = traitlets.Instance(ipywidgets.Widget).tag(sync=True, **ipywidgets.widget_serialization)

    def __init__(
        self,
        label: str,
        mount: str,
        make: Callable[[], Content],
        act: Callable[[str], dict[str, Any] | None] | None = None,
    ) -> None:
        super().__init__(_channel=ipywidgets.Widget())
        self._label = label
        self._mount = mount
        self._make: Callable[[], Content] | None = make
        self._act = act
        self.replaces = False  # the static output above it in the same cell
        self.place: tuple[str, str] | None = None  # the cell that showed it unasked, and the run of it
        self.on_msg(self._answer)

    def send(self, content: dict[str, Any], buffers: Sequence[bytes] | None = None) -> None:
        """To all views of it."""
        self._channel.send(content, buffers)

    def close(self) -> None:
        """Take it away, in the browser too."""
        super().close()
        self._channel.close()

    def release(self) -> None:
        """Let go of what it shows, and give the place back to the static report."""
        self._make = self._act = None
        self.send({"end": True})

    def _answer(self, _: Any, content: dict[str, Any], __: Any) -> None:
        if self._make is None:
            self.send({"end": True})
        elif "ask" in content:
            self._reply(content["ask"], self._make)
        elif "act" in content and self._act is not None:
            with self._failure_told({}):
                news = self._act(content["act"])
            self.send({"again": True} if news is None else {"news": news})

    def _reply(self, view: str, make: Callable[[], Content]) -> None:
        """To the view that asked: the widget may be drawn in several places."""
        with self._failure_told({"to": view}):
            found = make()
        reply = {
            "to": view,
            "code": _code.module(),
            "mount": self._mount,
            "meta": found.meta,
            "replaces": self.replaces,
        }
        self.send(reply, list(found.columns))

    @contextmanager
    def _failure_told(self, to: dict[str, str]) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.send({**to, "error": f"{type(error).__name__}: {error}"})
            raise

    def __repr__(self) -> str:
        return f"<{self._label}: live in a notebook with a kernel>"
