from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import struct
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuron_lab import neff

MEMBERS = {"neff.json": b'{"a": 1}', "sg00/def.json": b"{}", "info.txt": "é".encode()}


def packed(members: dict[str, bytes] = MEMBERS) -> bytes:
    return neff.pack("aten::add.Tensor", members, build_version="test 1")


def parse(data: bytes, **limits: int) -> neff.Neff:
    return neff.parse(io.BytesIO(data), limits=replace(neff.Limits(), **limits))


def with_payload(
    payload: bytes, *, pkg_version: int = 1, digest: bytes | None = None, size: int | None = None
) -> bytes:
    header = neff.Header(
        pkg_version=pkg_version,
        data_size=len(payload) if size is None else size,
        major=2,
        minor=0,
        build_version="",
        num_tpb=1,
        hash=hashlib.sha256(payload).digest() if digest is None else digest,
        uuid=b"",
        name="",
        requested_tpb_count=1,
        tpb_per_node=b"",
        feature_bits=0,
        lnc_size=1,
    )
    return header.to_bytes() + payload


def tar(*infos: tarfile.TarInfo | tuple[str, bytes], format: int = tarfile.GNU_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as archive:
        for info in infos:
            if isinstance(info, tuple):
                member = tarfile.TarInfo(info[0])
                member.size = len(info[1])
                archive.addfile(member, io.BytesIO(info[1]))
            else:
                archive.addfile(info)
    return buffer.getvalue()


def raw_header(name: str, size_field: bytes, kind: bytes = b"0") -> bytes:
    """One tar header block with any size field, and a right checksum."""
    block = bytearray(512)
    block[0 : len(name)] = name.encode()
    block[100:108] = b"0000644\0"
    block[124 : 124 + len(size_field)] = size_field
    block[148:156] = b" " * 8
    block[156:157] = kind
    block[257:265] = b"ustar\x0000"
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block)


# The offsets that the Neuron documentation gives for the header's fields.
@pytest.mark.parametrize(
    ("offset", "code", "value"),
    [
        (0, "<Q", 1),
        (8, "<Q", 1024),
        (16, "<Q", 111),
        (24, "<Q", 22),
        (32, "<Q", 33),
        (40, "128s", b"build".ljust(128, b"\0")),
        (168, "<I", 44),
        (172, "32s", bytes(range(32))),
        (204, "16s", bytes(range(16))),
        (220, "256s", b"name".ljust(256, b"\0")),
        (476, "<I", 55),
        (480, "64s", b"\7".ljust(64, b"\0")),
        (544, "<Q", 66),
        (552, "<I", 77),
        (556, "468s", bytes(468)),
    ],
)
def test_header_fields_stand_at_the_documented_offsets(offset: int, code: str, value: int | bytes) -> None:
    data = neff.Header(
        1, 111, 22, 33, "build", 44, bytes(range(32)), bytes(range(16)), "name", 55, b"\7", 66, 77
    ).to_bytes()
    assert len(data) == neff.HEADER_SIZE == 1024
    assert struct.unpack_from(code, data, offset)[0] == value


def test_header_round_trip_cuts_long_texts_at_a_character() -> None:
    header = parse(packed()).header
    long = replace(header, name="é" * 200, build_version="b" * 500)
    again = neff.Header.from_bytes(long.to_bytes())
    assert again.name == "é" * 127
    assert again.build_version == "b" * 127
    assert replace(again, name="", build_version="") == replace(long, name="", build_version="")


def test_pack_and_read(tmp_path: Path) -> None:
    path = tmp_path / "x.neff"
    path.write_bytes(packed())
    content = neff.read(path)
    assert content.verified
    assert content.ignored == ()
    assert {member.name: member.data for member in content.members} == MEMBERS
    assert content.json("neff.json") == {"a": 1}
    assert content.text("info.txt") == "é"
    assert neff.read_header(path) == content.header
    assert content.header.name == "aten::add.Tensor"


def test_pack_is_deterministic() -> None:
    assert packed() == packed()


def test_gzip_payload_with_directories_and_dot_names() -> None:
    folder = tarfile.TarInfo("./sg00")
    folder.type = tarfile.DIRTYPE
    payload = gzip.compress(tar(folder, ("./sg00/def.json", b"{}"), ("x" * 150, b"long")))
    digest = hashlib.md5(payload, usedforsecurity=False).digest()
    content = parse(with_payload(payload, pkg_version=2, digest=digest))
    assert content.verified
    assert [member.name for member in content.members] == ["sg00/def.json", "x" * 150]


def test_unknown_gzip_hash_and_absent_hash_are_read_but_not_verified() -> None:
    payload = tar(("a", b"1"))
    assert not parse(with_payload(gzip.compress(payload), pkg_version=2, digest=b"\1" * 32)).verified
    assert not parse(with_payload(payload, digest=bytes(32))).verified


def test_member_beyond_the_kept_limit_has_a_size_only() -> None:
    content = parse(with_payload(tar(("big", b"x" * 5000), ("small", b"y"))), kept=1000)
    assert [(member.name, member.size, member.data) for member in content.members] == [
        ("big", 5000, None),
        ("small", 1, b"y"),
    ]
    with pytest.raises(neff.NeffFormatError, match=r"5000 bytes.*Limits\.kept"):
        content.data("big")


def test_missing_and_unreadable_members_are_named() -> None:
    content = parse(packed({"bad.json": b"{", "bad.txt": b"\xff", "deep.json": b"[" * 100_000}))
    with pytest.raises(neff.NeffFormatError, match=r"no member 'x'; members: bad\.json"):
        content.data("x")
    with pytest.raises(neff.NeffFormatError, match="not JSON"):
        content.json("bad.json")
    with pytest.raises(neff.NeffFormatError, match="not JSON"):
        content.json("deep.json")
    with pytest.raises(neff.NeffFormatError, match="not UTF-8"):
        content.json("bad.txt")


def test_links_and_devices_are_ignored_by_name() -> None:
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    hard = tarfile.TarInfo("hard")
    hard.type, hard.linkname = tarfile.LNKTYPE, "neff.json"
    device = tarfile.TarInfo("device")
    device.type = tarfile.CHRTYPE
    content = parse(with_payload(tar(("neff.json", b"{}"), link, hard, device)))
    assert [member.name for member in content.members] == ["neff.json"]
    assert content.ignored == ("link", "hard", "device")


@pytest.mark.parametrize("size", [0, 1, 1023])
def test_short_file(size: int) -> None:
    with pytest.raises(neff.NeffFormatError, match=f"only {size}"):
        parse(packed()[:size])


def test_other_file() -> None:
    with pytest.raises(neff.NeffFormatError, match="not a NEFF"):
        parse(b"\x7fELF" + bytes(4000))


@pytest.mark.parametrize("size", [1024, 1025, 2000, 4000])
def test_truncated_payload(size: int) -> None:
    with pytest.raises(neff.NeffFormatError, match="truncated"):
        parse(packed()[:size])


def test_flipped_bit() -> None:
    data = bytearray(packed())
    data[1024 + 512] ^= 1
    with pytest.raises(neff.NeffFormatError, match="SHA-256"):
        parse(bytes(data))


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "data_size of the header": (lambda: with_payload(b"", size=1 << 62), "limit"),
    "no tar": (lambda: with_payload(b"\1" * 2000), "not a readable tar"),
    "huge member": (lambda: with_payload(raw_header("a", b"77777777777\0")), "claims"),
    "binary huge member": (lambda: with_payload(raw_header("a", b"\x80" + b"\x7f" * 11)), "claims"),
    "negative member": (lambda: with_payload(raw_header("a", b"\xff" * 12)), "claims -1 bytes"),
    "huge long name": (lambda: with_payload(raw_header("a", b"77777777777\0", b"L")), "claims"),
    "huge pax block": (lambda: with_payload(raw_header("a", b"77777777777\0", b"x")), "claims"),
    "pax size": (lambda: with_payload(pax_with_size(b"-1024") + bytes(1024)), "claims|not a readable tar"),
    "absolute": (lambda: with_payload(tar(("/etc/x", b""))), "leaves the archive"),
    "parent": (lambda: with_payload(tar(("a/../../x", b""))), "leaves the archive"),
    "backslash": (lambda: with_payload(tar(("..\\x", b""))), "leaves the archive"),
    "twice": (lambda: with_payload(tar(("a", b"1"), ("a", b"2"))), "twice"),
    "many": (lambda: with_payload(tar(*((str(i), b"") for i in range(60)))), "more than 50 members"),
    "broken gzip": (lambda: with_payload(b"\x1f\x8b" + b"\0" * 100), "not a readable tar"),
    "cut gzip": (lambda: with_payload(gzip.compress(tar(("a", b"xyz" * 9000)))[:-20]), "not a readable tar|truncated"),
    "gzip bomb": (lambda: with_payload(gzip.compress(tar(*((str(i), bytes(5 << 20)) for i in range(6))))), "expands"),
    "gzip bomb in a name": (
        lambda: with_payload(gzip.compress(raw_header("a", b"00100000000\0", b"L") + bytes(16 << 20))),
        "claims",
    ),
}


def pax_with_size(value: bytes) -> bytes:
    record = b" size=" + value + b"\n"
    record = str(len(record) + 2).encode() + record
    header = raw_header("p", f"{len(record):011o}\0".encode(), b"x")
    return header + record.ljust(512, b"\0") + raw_header("a", b"00000000010\0") + bytes(512)


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_payload(case: str) -> None:
    build, message = HOSTILE[case]
    with pytest.raises(neff.NeffFormatError, match=message):
        parse(build(), members=50, expanded=8 << 20, payload=16 << 20)


@given(st.data())
def test_any_damage_is_a_format_error(data: st.DataObject) -> None:
    intact = packed()
    damaged = bytearray(intact)
    position = data.draw(st.integers(0, len(intact) - 1))
    damaged[position] ^= data.draw(st.integers(1, 255))
    # A payload whose hash is unknown reaches the tar reader.
    damaged[0:8] = struct.pack("<Q", data.draw(st.sampled_from([1, 2])))
    with contextlib.suppress(neff.NeffFormatError):
        parse(bytes(damaged))


def test_scan_finds_only_neffs_in_the_layout(tmp_path: Path) -> None:
    key = "0123456789abcdef" * 2
    path = neff.path_of(tmp_path, key)
    assert path == tmp_path / "01" / "23" / f"{key}.neff"
    path.parent.mkdir(parents=True)
    path.write_bytes(packed())
    (path.parent / f"{'f' * 32}.neff").symlink_to(path)
    (path.parent / "other.neff").write_bytes(b"")
    (path.parent / f"{key}.tmp").write_bytes(b"")
    (tmp_path / "locks").mkdir()
    (tmp_path / "zz").write_bytes(b"")
    (found,) = neff.scan(tmp_path)
    assert (found.key, found.path, found.size) == (key, path, len(packed()))
    assert found.header().name == "aten::add.Tensor"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("absent", "zz", "loop", "n" * 300):
        assert list(neff.scan(tmp_path / name)) == [] and neff.unfinished(tmp_path / name) == []


@pytest.mark.parametrize("key", ["", "../x", "A" * 32, "0" * 31, "0" * 33, "0" * 32 + "\n"])
def test_path_of_refuses_other_keys(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match="32 lower-case hex digits"):
        neff.path_of(tmp_path, key)
