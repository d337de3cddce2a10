"""The browser's side as one text: its parts stand in `esm/`, one concern a file, and share one scope when they run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("esm")
# What a part uses of another one when it is read, and not only when it runs, stands before it.
_PARTS = (
    "format",
    "data",
    "sort",
    "totals",
    "store",
    "theme",
    "lanes",
    "navigate",
    "timeline",
    "memory",
    "table",
    "tables",
    "source",
    "findings",
    "mount",
    "pair",
    "holdings",
    "session",
    "top",
)


@cache
def module() -> str:
    """The explorer as an ES module that exports the views, each `mount…(el, meta, columns, act)`."""
    style = (_FOLDER / "explorer.css").read_text("utf-8")
    parts = [(_FOLDER / f"{name}.js").read_text("utf-8") for name in _PARTS]
    return "\n".join(
        [
            *parts,
            f"const STYLE = {_literal(style)};",
            "export { mount, mountHoldings, mountPair, mountSession, mountTop };",
            "",
        ]
    )


@cache
def loader() -> str:
    """The few lines that every widget carries: they ask the kernel for the rest."""
    return (_FOLDER / "loader.js").read_text("utf-8")


@cache
def page() -> str:
    """What starts the explorer in a page that holds its own data."""
    return module() + (_FOLDER / "page.js").read_text("utf-8")


def _literal(text: str) -> str:
    return "`" + text.replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${") + "`"
