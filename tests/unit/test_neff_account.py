"""What a NEFF tells about itself, and how it is shown: emulated, real, hostile."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuron_lab
from neuron_lab import neff, render
from neuron_lab.errors import FileProblem, UsageProblem
from neuron_lab.neff import Memory

DESCRIPTION = {
    "emulated": True,
    "key": "ab" * 16,
    "op": "aten::mm",
    "signature": "aten::mm(float32[2, 3], float32[3, 4]) default=float32",
    "tier": "eager",
    "created": 1_790_000_000.0,
    "trace_s": 0.001,
    "lower_s": 0.002,
    "compile_s": 0.03,
    "versions": {"torch": "2.13.0"},
}
INFO = {
    "inputs": [
        {"dtype": "float32", "shape": [2, 3], "bytes": 24},
        {"dtype": "float32", "shape": [3, 4], "bytes": 48},
    ],
    "outputs": [{"dtype": "float32", "shape": [2, 4], "bytes": 32}],
}
STATISTICS = {"source": "XLA", "flops": 48.0, "bytes_accessed": 104.0, "temporary_bytes": 16}
# As the AWS Neuron documentation describes a table of variables.
DEFINITION = {
    "var": {
        "x": {"type": "input", "var_id": 0, "size": 4096},
        "y": {"type": "output", "var_id": 1, "size": 2048},
        "w": {"type": "file", "var_id": 2, "size": 1000, "file_name": "w.npy"},
        "a": {"type": "virtual", "var_id": 3, "size": 512, "backing_variable_off": 0},
        "b": {"type": "virtual", "var_id": 4, "size": 256, "backing_variable_off": 1024},
        "q": {"type": "state-buffer", "var_id": 5, "size": 7},
    }
}


def packed(members: dict[str, Any], name: str = "aten::mm") -> bytes:
    content = {key: value if isinstance(value, bytes) else json.dumps(value).encode() for key, value in members.items()}
    return neff.pack(name, content, build_version="test")


def emulated(**changes: Any) -> bytes:
    members: dict[str, Any] = {
        "neff.json": DESCRIPTION,
        "info.json": INFO,
        "hlo_stats.json": STATISTICS,
        "emulator/module.stablehlo.mlir": b"module {\n  func.func @main() -> tensor<4xf32>\n}\n",
        "emulator/executable.bin": b"\0" * 500,
    }
    return packed(members | changes)


def opened(tmp_path: Path, data: bytes) -> neuron_lab.OpenedNeff:
    path = tmp_path / "made.neff"
    path.write_bytes(data)
    return neuron_lab.open_neff(path)


def test_an_emulated_neff_tells_everything(tmp_path: Path) -> None:
    found = opened(tmp_path, emulated())
    told = found.account
    assert (told.op, told.signature, told.tier) == ("aten::mm", DESCRIPTION["signature"], "eager")
    assert (told.trace_s, told.lower_s, told.compile_s) == (0.001, 0.002, 0.03)
    assert (told.flops, told.bytes_accessed) == (48.0, 104.0)
    assert told.memory == Memory(inputs=72, outputs=32, scratch=16, constants=None, code=500)
    assert found.stablehlo.startswith("module {")
    assert list(found.tensors.bytes) == [24, 48, 32] and found.tensors["shape"][2] == (2, 4)
    assert list(found.frame.name)[:2] == ["neff.json", "info.json"]
    assert told.notes == ()


def test_a_real_neff_tells_its_static_memory_summed_over_its_cores(tmp_path: Path) -> None:
    found = opened(
        tmp_path, packed({"kelf-a.json": {}, "sg00/def.json": DEFINITION, "sg01/def.json": DEFINITION}, "net")
    )
    assert not found.account.emulated and found.account.op == "net"
    # Scratch is one block a core in which the variables lie at their offsets, not the sum of their sizes.
    assert found.account.memory == Memory(inputs=8192, outputs=4096, scratch=2560, constants=2000, code=None)
    assert [(port.direction, port.name) for port in found.account.ports[:2]] == [("in", "x"), ("in", "x")]
    with pytest.raises(UsageProblem, match="only emulated NEFFs do"):
        found.stablehlo  # noqa: B018
    assert "constants 2.00 kB" in found.to_text()


@pytest.mark.parametrize("entry", [{"type": "input"}, {"type": "file", "size": -1}, {"type": "virtual", "size": "9"}])
def test_a_table_not_as_documented_gives_no_figure_and_a_note(tmp_path: Path, entry: dict[str, Any]) -> None:
    found = opened(tmp_path, packed({"sg00/def.json": {"var": {**DEFINITION["var"], "odd": entry}}}))
    assert found.account.memory is None and found.account.ports == ()
    (note,) = found.account.notes
    assert "'odd' has no size as documented" in note and "no static memory" in found.to_text()


@pytest.mark.parametrize(
    "changes",
    [
        {"neff.json": {**DESCRIPTION, "compile_s": "long", "versions": [1], "created": 1e400}},
        {"info.json": [1, 2], "hlo_stats.json": {"flops": True, "bytes_accessed": None}},
        {"info.json": {"inputs": [7, {"shape": "x", "bytes": -3}], "outputs": None}},
        {"neff.json": b"[" * 100_000},
        {"emulator/module.stablehlo.mlir": b"\xff\xfe"},
    ],
)
def test_members_of_another_type_are_left_out(tmp_path: Path, changes: dict[str, Any]) -> None:
    found = opened(tmp_path, emulated(**changes))
    assert found.to_text() and found.to_html()


def test_shown_within_its_bounds_and_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('&')</script>" * 200
    description = {**DESCRIPTION, "op": evil, "signature": evil, "versions": {evil: evil}}
    members = {f"{index:03d}/{'&' * 90}": b"" for index in range(300)}
    module = ("&<" * 4000 + "\n").encode() * 200
    found = opened(
        tmp_path, emulated(**{"neff.json": description, "emulator/module.stablehlo.mlir": module, **members})
    )
    text, html = found.to_text(), found.to_html()
    assert max(map(len, text.splitlines())) <= 100 and len(text.splitlines()) <= 40
    assert "<script" not in html and len(html.encode()) <= 80_000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "size", "shape", "bytes", "dtype", "var"]) | st.text(max_size=4), inner
        )
    ),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(st.sampled_from(sorted(DESCRIPTION)), json_values),
    st.fixed_dictionaries({"inputs": json_values, "outputs": json_values}) | json_values,
    st.dictionaries(st.sampled_from(sorted(STATISTICS)), json_values) | json_values,
    st.fixed_dictionaries({"var": st.dictionaries(st.text(max_size=3), json_values)}) | json_values,
)
def test_whatever_the_members_hold_it_is_shown(description: Any, info: Any, statistics: Any, definition: Any) -> None:
    members = {"info.json": info, "hlo_stats.json": statistics, "sg00/def.json": definition}
    for described in (DESCRIPTION | description, description):
        content = neff.parse(io.BytesIO(packed({"neff.json": described, **members})))
        told = neff.account(content)
        assert max(map(len, render.neff_text("a", content, told).splitlines())) <= 100
        assert "<script" not in render.neff_html("a", content, told)


def test_what_is_no_neff_says_what_it_is(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    short, wrong, cut = tmp_path / "short", tmp_path / "wrong", tmp_path / "cut"
    short.write_bytes(b"x")
    wrong.write_bytes(b"\xff" * 5000)
    cut.write_bytes(emulated()[:-2000])
    for path, message in (
        (tmp_path, "it is a directory"),
        (tmp_path / "none", "there is no such file"),
        (fifo, "not a regular file"),
        (short, "a NEFF starts with a header of 1024 bytes"),
        (wrong, "not a NEFF file"),
        (cut, "truncated"),
    ):
        with pytest.raises(FileProblem, match=message):
            neuron_lab.open_neff(path)


def test_a_hash_is_shown_as_it_is(tmp_path: Path) -> None:
    data = emulated()
    content = neff.parse(io.BytesIO(data))
    shown = render.neff_text("a", content, neff.account(content))
    assert f"hash        {content.header.hash.hex()[:32]}… · it is that of the payload" in shown
    zeros = dataclasses.replace(content, header=dataclasses.replace(content.header, hash=b"\0\x10" + bytes(30)))
    assert f"hash        0010{'0' * 28} · " in render.neff_text("a", zeros, neff.account(zeros))
    empty = neff.parse(io.BytesIO(packed({})))
    assert "members     none" in render.neff_text("a", empty, neff.account(empty))


def test_one_member_is_read_without_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "made.neff"
    path.write_bytes(emulated()[:4000])  # what follows is gone, and nobody looks
    header, content = neff.read_member(path, "neff.json", largest=10_000)
    assert header.name == "aten::mm" and content is not None and json.loads(content) == DESCRIPTION
    assert neff.read_member(path, "neff.json", largest=10)[1] is None


@pytest.mark.parametrize("members", [{"weights": bytes(80 << 20)}, {f"m{index}": b"" for index in range(1_100)}])
def test_a_member_is_not_looked_for_without_end(tmp_path: Path, members: dict[str, bytes]) -> None:
    made = packed({**members, "neff.json": b"{}"})
    payload = gzip.compress(made[neff.HEADER_SIZE :], 1)
    header = dataclasses.replace(
        neff.Header.from_bytes(made[: neff.HEADER_SIZE]), pkg_version=2, data_size=len(payload)
    )
    path = tmp_path / "made.neff"
    path.write_bytes(header.to_bytes() + payload)
    assert neff.read_member(path, "neff.json", largest=10_000) == (neff.read_header(path), None)
    assert neff.read(path).json("neff.json") == {}


def test_texts_that_cannot_be_encoded_are_shown(tmp_path: Path) -> None:
    found = opened(tmp_path, emulated(**{"neff.json": {**DESCRIPTION, "function": "\ud800\x1b[2J", "place": "\u202e"}}))
    for shown in (found.to_text(), found.to_html()):
        assert shown.encode() and "\x1b" not in shown and "\u202e" not in shown


def test_a_long_module_is_cut_with_a_note(tmp_path: Path) -> None:
    found = opened(tmp_path, emulated(**{"emulator/module.stablehlo.mlir": b"line\n" * 10_000}))
    assert "more, see .stablehlo" in found.to_text()
    html = render.neff_html("made", found.content, found.account)
    assert "more, see <code>.stablehlo</code>" in html and len(html) < 80_000
