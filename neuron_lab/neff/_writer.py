from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping

from neuron_lab.neff._header import PLAIN_TAR, Header


def pack(
    name: str, members: Mapping[str, bytes], *, build_version: str, major: int = 2, minor: int = 0, lnc_size: int = 1
) -> bytes:
    """A whole NEFF file: header, then a plain tar of `members` in their order, with its SHA-256 in the header.

    The same arguments give the same bytes: there is no time stamp and no owner in it.
    """
    payload = _tar(members)
    digest = hashlib.sha256(payload).digest()
    header = Header(
        pkg_version=PLAIN_TAR,
        data_size=len(payload),
        major=major,
        minor=minor,
        build_version=build_version,
        num_tpb=1,
        hash=digest,
        uuid=digest[:16],
        name=name,
        requested_tpb_count=1,
        tpb_per_node=b"\1",
        feature_bits=0,
        lnc_size=lnc_size,
    )
    return header.to_bytes() + payload


def _tar(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()
