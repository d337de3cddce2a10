"""The 1,024 bytes before the payload of a NEFF.

Layout from the AWS Neuron documentation, "Work with NEFF files" (runtime guides).  There is no magic number.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

from neuron_lab.neff._errors import NeffFormatError

_STRUCT = struct.Struct("<5Q128sI32s16s256sI64sQI468s")
HEADER_SIZE = _STRUCT.size

PLAIN_TAR = 1
"""pkg_version of a plain tar whose SHA-256 is in `hash`."""
GZIP_TAR = 2
"""pkg_version of a gzip tar whose MD5 is in the first 16 bytes of `hash`."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header's fields; texts are NUL-padded UTF-8 in the file, `data_size` is the payload's size in bytes."""

    pkg_version: int
    data_size: int
    major: int
    minor: int
    build_version: str
    num_tpb: int
    hash: bytes
    uuid: bytes
    name: str
    requested_tpb_count: int
    tpb_per_node: bytes
    feature_bits: int
    lnc_size: int

    def to_bytes(self) -> bytes:
        """The header as it stands in a file; texts too long for their field are cut at a character boundary."""
        return _STRUCT.pack(
            self.pkg_version,
            HEADER_SIZE,
            self.data_size,
            self.major,
            self.minor,
            _field(self.build_version, 128),
            self.num_tpb,
            self.hash,
            self.uuid,
            _field(self.name, 256),
            self.requested_tpb_count,
            self.tpb_per_node,
            self.feature_bits,
            self.lnc_size,
            b"",
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the first 1,024 bytes of a file.

        Raises NeffFormatError when they are fewer or give another header size.  Unknown versions are read: the
        payload shows by itself whether it can be.
        """
        if len(data) < HEADER_SIZE:
            msg = f"a NEFF starts with a header of {HEADER_SIZE} bytes; there are only {len(data)}"
            raise NeffFormatError(msg)
        pkg_version, header_size, data_size, major, minor, build, tpb, digest, uuid, name, *rest = _STRUCT.unpack_from(
            data
        )
        if header_size != HEADER_SIZE:
            msg = f"header_size is {header_size}, a NEFF has {HEADER_SIZE}: not a NEFF file"
            raise NeffFormatError(msg)
        requested, per_node, features, lnc_size, _padding = rest
        return cls(
            pkg_version=pkg_version,
            data_size=data_size,
            major=major,
            minor=minor,
            build_version=_text(build),
            num_tpb=tpb,
            hash=digest,
            uuid=uuid,
            name=_text(name),
            requested_tpb_count=requested,
            tpb_per_node=per_node,
            feature_bits=features,
            lnc_size=lnc_size,
        )


def _field(text: str, size: int) -> bytes:
    # One byte stays NUL: the runtime's own reader is C.
    return text.encode()[: size - 1].decode(errors="ignore").encode()


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode(errors="replace")
