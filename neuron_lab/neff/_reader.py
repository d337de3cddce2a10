"""A reader that survives any file: bounded in bytes and members, and never writing to disk."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any, Protocol, Self, cast

from neuron_lab.neff._errors import NeffFormatError
from neuron_lab.neff._header import GZIP_TAR, HEADER_SIZE, PLAIN_TAR, Header

_CHUNK = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_NAME_BLOCK = 1 << 16  # a long file name or a block of pax records; tarfile reads it whole
_NAME_TYPES = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader accepts, in bytes and members.

    NEFFs of large models reach some hundred megabytes; the text members that a person reads are far smaller.
    """

    payload: int = 2 << 30
    expanded: int = 8 << 30
    members: int = 50_000
    kept: int = 256 << 20
    """Members' contents are kept in memory, in file order, up to this sum; a member that does not fit has data None."""


DEFAULT_LIMITS = Limits()
_LOOKED_AT, _LOOKED_AT_MEMBERS = 64 << 20, 1_000  # for one member


class _BeyondLimits(NeffFormatError):
    """A limit ends the reading; the file may be sound."""


@dataclass(frozen=True, slots=True)
class Member:
    """One regular file of the payload: its name, its size in bytes, and its content unless it was too large to keep."""

    name: str
    size: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Neff:
    """A NEFF's header and members."""

    header: Header
    members: tuple[Member, ...]
    ignored: tuple[str, ...]
    """Names of links and devices in the payload: never followed."""
    verified: bool
    """The payload's hash is the one in the header.  False where the header has no hash that this reader knows."""

    def data(self, name: str) -> bytes:
        """The content of member `name`; raises NeffFormatError when it is absent or was too large to keep."""
        for member in self.members:
            if member.name == name:
                if member.data is None:
                    msg = f"member {name!r} of {member.size} bytes is beyond the reader's limit; raise Limits.kept"
                    raise NeffFormatError(msg)
                return member.data
        msg = f"no member {name!r}; members: {', '.join(member.name for member in self.members[:20])}"
        raise NeffFormatError(msg)

    def text(self, name: str) -> str:
        """The content of member `name` as UTF-8 text."""
        try:
            return self.data(name).decode()
        except UnicodeDecodeError as error:
            msg = f"member {name!r} is not UTF-8 text: {error}"
            raise NeffFormatError(msg) from error

    def json(self, name: str) -> Any:
        """The content of member `name`, a JSON document."""
        try:
            return json.loads(self.text(name))
        except NeffFormatError:
            raise
        except (ValueError, RecursionError) as error:
            msg = f"member {name!r} is not JSON: {error}"
            raise NeffFormatError(msg) from error


def read(path: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS) -> Neff:
    """Read a NEFF file, real or emulated.

    Raises OSError when the file cannot be read, NeffFormatError when it is no NEFF, is damaged (its SHA-256 is
    checked where the header has one) or exceeds `limits`.
    """
    with open(path, "rb") as file:
        return parse(file, limits=limits)


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read only the header of a NEFF file: 1,024 bytes."""
    with open(path, "rb") as file:
        return Header.from_bytes(file.read(HEADER_SIZE))


def read_member(path: str | os.PathLike[str], name: str, *, largest: int) -> tuple[Header, bytes | None]:
    """The header, and the content of one member, of a file that is read no further than that and not verified.

    None when no such member is within the first 64 MiB of the archive, or it has more than `largest` bytes: a list reads every
    file, and a few megabytes can expand to gigabytes. Raises OSError or NeffFormatError.
    """
    with open(path, "rb") as file:
        header = Header.from_bytes(file.read(HEADER_SIZE))
        payload, most = _payload(file, header, DEFAULT_LIMITS)
        with (
            contextlib.suppress(_BeyondLimits),
            _damage_told(),
            _archive(_Budget(payload, _LOOKED_AT), most) as archive,
        ):
            for info in _bounded(archive, _LOOKED_AT_MEMBERS, most):
                if info.isreg() and info.name == name:
                    return header, _content(archive, info) if info.size <= largest else None
    return header, None


def parse(file: IO[bytes], *, limits: Limits = DEFAULT_LIMITS) -> Neff:
    """Read a NEFF from an open, seekable file; see `read`."""
    header = Header.from_bytes(file.read(HEADER_SIZE))
    if header.data_size > limits.payload:
        msg = f"the payload has {header.data_size} bytes, the limit is {limits.payload}; raise Limits.payload"
        raise NeffFormatError(msg)
    verified = _verify(file, header)
    members, ignored = _members(*_payload(file, header, limits), limits)
    return Neff(header=header, members=members, ignored=ignored, verified=verified)


def _payload(file: IO[bytes], header: Header, limits: Limits) -> tuple[_Source, int]:
    """The tar archive as a file, and the bytes that can be in it."""
    file.seek(HEADER_SIZE)
    gzipped = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    file.seek(HEADER_SIZE)
    window = _Window(file, header.data_size)
    if not gzipped:
        return window, header.data_size
    return _Budget(gzip.GzipFile(fileobj=cast("IO[bytes]", window)), limits.expanded), limits.expanded


def _verify(file: IO[bytes], header: Header) -> bool:
    digest = hashlib.md5(usedforsecurity=False) if header.pkg_version == GZIP_TAR else hashlib.sha256()
    left = header.data_size
    while left:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            msg = f"truncated: the header promises {header.data_size} bytes after it, {left} are missing"
            raise NeffFormatError(msg)
        digest.update(chunk)
        left -= len(chunk)
    matches = digest.digest() == header.hash[: digest.digest_size]
    # The MD5 of gzip payloads is known from third-party notes only: a difference proves nothing.
    if not matches and header.pkg_version == PLAIN_TAR and any(header.hash):
        msg = "the SHA-256 of the payload is not the one in the header: the file is damaged"
        raise NeffFormatError(msg)
    return matches


def _members(payload: _Source, most: int, limits: Limits) -> tuple[tuple[Member, ...], tuple[str, ...]]:
    members: dict[str, Member] = {}
    ignored: list[str] = []
    room = limits.kept
    with _damage_told(), _archive(payload, most) as archive:
        for info in _bounded(archive, limits.members, most):
            if info.isdir():
                continue
            name = _safe_name(info.name)
            if not info.isreg() or info.issparse():
                ignored.append(name)
                continue
            if name in members:
                msg = f"member {name!r} occurs twice"
                raise NeffFormatError(msg)
            data = _content(archive, info) if info.size <= room else None
            room -= len(data or b"")
            members[name] = Member(name, info.size, data)
    return tuple(members.values()), tuple(ignored)


def _archive(payload: _Source, most: int) -> tarfile.TarFile:
    return tarfile.open(fileobj=cast("IO[bytes]", payload), mode="r|", tarinfo=_checked(most))


@contextlib.contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except NeffFormatError:
        raise
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        msg = f"the payload is not a readable tar archive: {error}"
        raise NeffFormatError(msg) from error


def _bounded(archive: tarfile.TarFile, count: int, most: int) -> Iterator[tarfile.TarInfo]:
    for number, info in enumerate(archive):
        if number >= count:
            msg = f"more than {count} members; raise Limits.members"
            raise _BeyondLimits(msg)
        _check_size(info, most)  # pax records may have changed it
        yield info


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(info)
    data = file.read() if file else b""
    if len(data) != info.size:
        msg = f"member {info.name!r} is truncated: {len(data)} of {info.size} bytes"
        raise NeffFormatError(msg)
    return data


def _safe_name(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not path.parts:
        msg = f"member name {name!r} leaves the archive"
        raise NeffFormatError(msg)
    return str(path)


def _checked(most: int) -> type[tarfile.TarInfo]:
    """Tar headers whose sizes are checked before tarfile acts on them: it would skip 2**88 bytes one by one."""

    class CheckedInfo(tarfile.TarInfo):
        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> Self:
            info = super().frombuf(buf, encoding, errors)  # type: ignore[arg-type]
            _check_size(info, _NAME_BLOCK if info.type in _NAME_TYPES else most)
            return info

    return CheckedInfo


def _check_size(info: tarfile.TarInfo, most: int) -> None:
    if not 0 <= info.size <= most:
        msg = f"a tar header of type {info.type!r} claims {info.size} bytes; there can be {most} at most"
        raise NeffFormatError(msg)


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Window:
    """The next `size` bytes of a file, as a file that ends there."""

    def __init__(self, file: _Source, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int, /) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


class _Budget:
    """A file of which at most `size` bytes may be read; one more is an error."""

    def __init__(self, file: _Source, size: int) -> None:
        self._file = file
        self._size = size
        self._left = size

    def read(self, size: int, /) -> bytes:
        data = self._file.read(min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            msg = f"the payload expands to more than {self._size} bytes; raise Limits.expanded"
            raise _BeyondLimits(msg)
        return data
