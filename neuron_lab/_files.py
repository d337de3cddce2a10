"""Files a person names: checked before anything is done, written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from neuron_lab.errors import FileProblem

_LONGEST_NAME = 100  # that an error repeats


def writable(path: str | os.PathLike[str]) -> Path:
    """Where a file will be written, links followed. Raises FileProblem for what cannot be."""
    found = _resolved(path)
    if found.is_dir():
        raise FileProblem(f"cannot write {found}: it is a directory; name a file in it")
    if not found.parent.is_dir():
        raise FileProblem(f"cannot write {found}: there is no directory {found.parent}; make it first")
    if found.exists() and not found.is_file():
        raise FileProblem(f"cannot write {found}: it is not a regular file")
    if not os.access(found if found.exists() else found.parent, os.W_OK):
        raise FileProblem(f"cannot write {found}: permission denied")
    return found


def write(path: str | os.PathLike[str], content: bytes | str) -> Path:
    """Replace the file in one step: a reader sees the old content or the new one. Text becomes UTF-8. Raises FileProblem."""
    target = writable(path)
    made = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        with open(made, "xb") as file:
            # A file name that is no UTF-8 holds characters that cannot be encoded.
            file.write(content.encode(errors="replace") if isinstance(content, str) else content)
        os.replace(made, target)
    except OSError as error:
        raise FileProblem(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        made.unlink(missing_ok=True)
    return target


def directory(path: str | os.PathLike[str]) -> Path:
    """A directory to write into, made when it is not there. Raises FileProblem."""
    found = _resolved(path)
    try:
        found.mkdir(exist_ok=True)
    except FileExistsError:
        raise FileProblem(f"cannot write into {found}: it is not a directory") from None
    except FileNotFoundError:
        raise FileProblem(f"cannot make {found}: there is no directory {found.parent}; make it first") from None
    except OSError as error:
        raise FileProblem(f"cannot make {found}: {error.strerror or error}") from None
    return found


def readable(path: str | os.PathLike[str]) -> Path:
    """A regular file, links followed: what waits for a writer or never ends is none. Raises FileProblem."""
    found = _resolved(path)
    if found.is_dir():
        raise FileProblem(f"cannot read {found}: it is a directory")
    if not found.exists():
        raise FileProblem(f"cannot read {found}: there is no such file")
    if not found.is_file():
        raise FileProblem(f"cannot read {found}: it is not a regular file")
    return found


def read(path: str | os.PathLike[str], largest: int) -> bytes:
    """The content of a regular file of at most `largest` bytes. Raises FileProblem."""
    found = readable(path)
    try:
        with open(found, "rb") as file:
            content = file.read(largest + 1)
    except OSError as error:
        raise FileProblem(f"cannot read {found}: {error.strerror or error}") from None
    if len(content) > largest:
        raise FileProblem(f"cannot read {found}: it has more than {largest >> 20} MiB")
    return content


def _resolved(path: str | os.PathLike[str]) -> Path:
    if os.fspath(path) == "":  # pathlib takes it for the working directory
        raise FileProblem("'' is not a path of a file: it is empty")
    try:
        found = Path(path).expanduser().resolve()
        found.exists()  # a name that is too long is only refused when the file system is asked
        return found
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise FileProblem(f"{_named(os.fspath(path))} is not a path of a file: {why}") from None


def _named(path: str | bytes) -> str:
    text = repr(path)
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"
