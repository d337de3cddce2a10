"""Saved recordings: the same again after a round trip, one clear error for everything that is not one."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuron_lab
from neuron_lab import FileProblem, Profile, _files
from neuron_lab.device import LateVariable
from neuron_lab.recording import (
    Compile,
    Copy,
    CopyTotal,
    CorePeak,
    Environment,
    Fallback,
    OpCall,
    OpTotal,
    Recording,
    Source,
    Where,
    dumps,
    loads,
)
from neuron_lab.render import (
    chrome_trace,
    recompiles_html,
    recompiles_text,
    session_html,
    session_text,
    speedscope,
)
from neuron_lab.report import GROUPS, Report, View, session_row
from neuron_lab.widgets import payload
from tests.fakes.device import FakeDevice
from tests.unit.any_recording import recordings, text, whole
from tests.unit.test_render import crowded, recorded

SAVED = Path(__file__).parent / "recordings"


@settings(max_examples=40, deadline=None)
@given(recordings)
def test_round_trip_gives_an_equal_recording(recording: Recording) -> None:
    assert loads(dumps(recording)) == recording


@settings(max_examples=60, deadline=None)
@given(recordings)
def test_any_recording_can_be_shown(recording: Recording) -> None:
    """A file may hold what no device records."""
    p = Profile(Report(recording, "file.json"))
    for by in GROUPS:
        shown = Profile(p.report, View(by=by))
        assert max(map(len, shown.to_text().splitlines())) <= 100
        assert shown.to_html()
    again = neuron_lab.recompiles(p)
    assert max(map(len, again.text.splitlines())) <= 100 and again.html
    assert len(p.graphs) == len(recording.graphs)
    assert p.compare(p).to_text()
    assert session_row(p.report).wall_ns == recording.wall_ns
    for export in (chrome_trace, speedscope):
        assert json.loads(export(p.report))


def test_strategy_makes_every_field() -> None:
    drawn = {item.name for item in dataclasses.fields(Recording)}
    assert drawn == set(recordings.wrapped_strategy.kwargs)  # type: ignore[attr-defined]


def profile_of(fake: FakeDevice) -> Profile:
    with neuron_lab.profile(label="In[1]") as p:
        fake.at(4)
        fake.run("aten::mm", compile_ms=(1, 2, 3), neff="k", nbytes=8)
        fake.run("aten::mm", neff="k")
        fake.fall_back("aten::nonzero", 2, "its size depends on the data")
        fake.copy("h2d", 1, 100)
    return p


def test_loaded_profile_has_the_same_tables_and_says_where_it_is_from(fake: FakeDevice, tmp_path: Path) -> None:
    p = profile_of(fake)
    p.save(tmp_path / "base.json")
    assert os.listdir(tmp_path) == ["base.json"]
    again = neuron_lab.load(str(tmp_path / "base.json"))
    assert again.recording == p.recording
    assert again.summary == p.summary
    assert again.findings == p.findings
    for name in ("ops", "neffs", "lines", "compiles", "recompiles", "fallbacks", "copies"):
        assert getattr(again, name).equals(getattr(p, name))
    line = again.to_text().splitlines()[1]
    assert line.startswith("LOADED from base.json, recorded 20")
    assert line.endswith("UTC on emulated trn2.3xlarge")
    assert "LOADED from base.json" in again.to_html()
    assert "LOADED" not in p.to_text()
    assert neuron_lab.last() is p


def test_show_of_a_loaded_profile_still_says_it(
    fake: FakeDevice, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile_of(fake).save(tmp_path / "base.json")
    neuron_lab.load(tmp_path / "base.json").show(top=1)
    assert "LOADED from base.json" in capsys.readouterr().out


_LINE = Where("/project/train.py", 3, "step", 4)
FORMAT_1_0 = Recording(
    label="In[12]",
    start_ns=1_000,
    end_ns=9_000_000,
    error="ValueError",
    environment=Environment("emulated trn2.3xlarge", True, "no Trainium here", 4, {"torch": "2.13.0"}),
    ops=(
        OpCall("aten::mm", "compiled", "abc", 0, 7, 2_000, 5_000_000, 1_000_000, 64, True, _LINE),
        OpCall("aten::nonzero", "fallback", None, 1, 7, 5_000_000, 6_000_000, 1_000_000, 8, False),
    ),
    copies=(Copy("h2d", 0, 6_000_000, 7_000_000, 100, _LINE),),
    op_totals=(
        OpTotal("aten::mm", "compiled", "abc", 0, 1, 1, 4_998_000, 1_000_000, 64, _LINE),
        OpTotal("aten::nonzero", "fallback", None, 1, 1, 0, 1_000_000, 1_000_000, 8),
    ),
    copy_totals=(CopyTotal("h2d", 1, 1_000_000, 100, _LINE),),
    compiles=(Compile("aten::mm", "abc", "compiled", 2_000, 10, 20, 30, "aten::mm(float32[8, 4])"),),
    fallbacks=(Fallback("aten::nonzero", "its size depends on the data", 1, 1_000_000),),
    startups=((1_500, 1_700),),
    syncs=1,
    dropped=2,
    overhead_ns=3,
    earlier=(Compile("aten::mm", "def", "disk", 10, 0, 0, 30, "aten::mm(float32[64, 4])"),),
    sources=(Source("/project/train.py", "train.py", ((3, "def step(x):"), (4, "    return x @ w  # ×"))),),
    memory=(CorePeak(0, 10, 20, 30, 1 << 30),),
    late_variables=(LateVariable("NEURON_RT_NUM_CORES", "2", "the device had started with 4 cores"),),
    reads_clock=True,
    unix_ns=1_790_000_000_000_000_000,
)


@pytest.mark.parametrize(
    ("file", "recording"),
    [
        ("format_1_0.json", FORMAT_1_0),
        ("format_1_1.json", dataclasses.replace(FORMAT_1_0, synchronised=True)),
    ],
)
def test_older_formats_stay_readable(file: str, recording: Recording) -> None:
    """The files are never written anew: each was made by the first version that wrote its format."""
    found = neuron_lab.load(SAVED / file)
    assert found.recording == recording
    assert found.to_text().splitlines()[1].startswith(f"LOADED from {file}, recorded 2026-09-21 14:13 UTC on")


ORIGINAL = dataclasses.replace(recorded().recording, unix_ns=0)


def saved() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(dumps(ORIGINAL))
    return data


def problem(data: Any) -> str:
    with pytest.raises(FileProblem) as caught:
        loads(json.dumps(data).encode())
    return str(caught.value)


def test_newer_minor_version_loads_without_what_is_not_known() -> None:
    data = saved()
    data["version"] = [1, 7]
    data["later"] = {"anything": [1]}
    data["recording"]["later"] = 1
    data["recording"]["ops"]["later"] = ["?"] * 5
    data["recording"]["environment"]["later"] = None
    assert loads(json.dumps(data).encode()) == ORIGINAL


def test_older_minor_version_has_defaults_for_what_is_missing() -> None:
    data = saved()
    for name in ("memory", "unix_ns", "reads_clock"):
        del data["recording"][name]
    del data["recording"]["op_totals"]["where"]
    del data["recording"]["environment"]["why"]
    assert loads(json.dumps(data).encode()) == ORIGINAL


def test_other_major_version_says_so() -> None:
    assert "version 2.1 of the format, written by neuron_lab 9.0" in problem(
        saved() | {"version": [2, 1], "written_by": "neuron_lab 9.0"}
    )


def changed(path: str, value: Any) -> dict[str, Any]:
    data = saved()
    *outer, last = path.split(".")
    inner: Any = data
    for name in outer:
        inner = inner[int(name)] if isinstance(inner, list) else inner[name]
    if value is ...:
        del inner[last]
    else:
        inner[int(last) if isinstance(inner, list) else last] = value
    return data


DAMAGE = {
    "version": ([1], "version is not two whole numbers"),
    "words": ({}, "words is not a list of texts"),
    "places": (7, "7 is not a dict"),
    "recording": ([], "a list of 0 is not a dict"),
    "recording.start_ns": (1.5, "start_ns: 1.5 is not a whole number"),
    "recording.end_ns": (0, "it ends before it starts"),
    "recording.syncs": (True, "syncs: True is not a whole number"),
    "recording.dropped": (1 << 62, "dropped: 4611686018427387904 is not a whole number within"),
    "recording.label": (None, "label: None is not a str"),
    "recording.op_totals": (..., "op_totals is missing"),
    "recording.reads_clock": (0, "reads_clock: 0 is not a bool"),
    "recording.environment.versions": ({"torch": 2}, "environment: versions: a dict of 1 holds something else"),
    "recording.ops.op": ([0], "ops: 2 different lengths"),
    "recording.ops.op.0": (99, "ops: op: 99 is not the number of one of"),
    "recording.ops.neff.0": (-1, "ops: neff: -1 is not the number of one of"),
    "recording.ops.where.0": (5, "ops: where: 5 is not the number of one of 0 places"),
    "recording.ops.core": (..., "ops: core is missing"),
    "recording.ops": ({}, "ops: no columns"),
    "recording.startups": ([[1]], "startups: a list of 1 has not 2 items"),
}


@pytest.mark.parametrize("path", DAMAGE, ids=DAMAGE.keys())
def test_damage_is_named(path: str) -> None:
    value, message = DAMAGE[path]
    assert message in problem(changed(path, value))


CONTENT = {
    "empty": (b"", "not JSON, or cut short"),
    "cut": (dumps(recorded().recording)[:-40], "not JSON, or cut short"),
    "bytes": (b"\x80\x04\x95pickle", "not JSON, or cut short"),
    "nan": (b'{"format": NaN}', "NaN is not a number of JSON"),
    "digits": (b"9" * 10_000, "not JSON, or cut short"),
    "deep list": (b"[" * 200_000, "nested too deeply"),
    "deep object": (b'{"a":' * 200_000, "nested too deeply"),
    "values": (b"[" + b"[],[]," * 4_000_001 + b"[]]", "more than 8,000,000 values"),
    "list": (b"[]", 'has no "format"'),
    "other": (b'{"format": "speedscope"}', "it is a speedscope"),
}


@pytest.mark.parametrize("name", CONTENT, ids=CONTENT.keys())
def test_what_is_no_recording_is_refused(name: str, tmp_path: Path) -> None:
    content, message = CONTENT[name]
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(FileProblem, match=r"cannot load .*bad\.json: ") as caught:
        neuron_lab.load(tmp_path / "bad.json")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


leaves = st.none() | st.booleans() | whole | st.floats(allow_nan=False) | st.text(max_size=5)
anything = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3))


def test_text_of_a_file_cannot_steer_a_terminal(tmp_path: Path) -> None:
    data = saved()
    data["words"] = [f"{word}\x1b[2J\x9b\ud800" for word in data["words"]]
    p = Profile(Report(loads(json.dumps(data).encode())))
    changes = p.compare(p)
    pages = [p.to_text(), p.to_html(), changes.to_text(), changes.to_html()]
    pages += [recompiles_text(p.report), recompiles_html(p.report)]
    pages.append(session_html([session_row(p.report)], 0))
    for page in pages:
        page.encode()
        assert "\x1b" not in page
        assert "\x9b" not in page
    p.to_html(tmp_path / "page.html")
    p.to_csv(tmp_path)
    p.to_chrome_trace(tmp_path / "trace.json")
    p.to_speedscope(tmp_path / "flame.json")


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value that can be put something else into."""
    if not isinstance(value, (dict, list)):
        return []
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    return [(value, key) for key in keys] + [spot for key in keys for spot in spots(value[key])]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_changed_file_is_refused_or_gives_a_report(data: st.DataObject) -> None:
    content = saved()
    found = spots(content)
    holder, key = found[data.draw(st.integers(0, len(found) - 1))]
    holder[key] = data.draw(anything)
    try:
        recording = loads(json.dumps(content).encode())
    except FileProblem:
        return
    p = Profile(Report(recording))
    shown = (p.to_text(), p.compare(Profile(Report(ORIGINAL))).to_text())
    assert not {"Cc", "Cs"} & {unicodedata.category(letter) for letter in "".join(shown) if letter not in "\t\n"}
    assert p.to_html()
    assert payload(p.report, View()).columns
    assert math.isfinite(p.summary.wall_s)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_cut_file_is_refused(data: st.DataObject) -> None:
    content = dumps(recorded().recording)
    with pytest.raises(FileProblem):
        loads(content[: data.draw(st.integers(0, len(content) - 1))])


def test_paths_that_cannot_be(fake: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    p = profile_of(fake)
    with pytest.raises(FileProblem, match="it is a directory"):
        p.save(tmp_path)
    with pytest.raises(FileProblem, match="there is no directory"):
        p.save(tmp_path / "no" / "base.json")
    with pytest.raises(FileProblem, match="not a path"):
        p.save("a\0b")
    with pytest.raises(FileProblem, match="not a regular file"):
        p.save("/dev/null")
    with pytest.raises(FileProblem, match="it is a directory"):
        neuron_lab.load(tmp_path)
    with pytest.raises(FileProblem, match="no such file"):
        neuron_lab.load(tmp_path / "no.json")
    with pytest.raises(FileProblem, match="not a regular file"):
        neuron_lab.load("/dev/zero")
    for act in (p.save, neuron_lab.load, p.to_csv, neuron_lab.open_neff):
        with pytest.raises(FileProblem, match="not a path of a file: File name too long") as caught:
            act(tmp_path / ("n" * 5000))
        assert len(str(caught.value)) < 300
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(FileProblem, match="permission denied"):
        p.save(tmp_path / "base.json")
    assert os.listdir(tmp_path) == []


def test_failed_write_leaves_the_old_file(fake: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "base.json").write_text("old")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FileProblem, match="No space left on device"):
        profile_of(fake).save(tmp_path / "base.json")
    assert (tmp_path / "base.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["base.json"]


def test_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    _files.write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_large_file_is_not_read_whole(tmp_path: Path) -> None:
    with open(tmp_path / "big", "wb") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(FileProblem, match="more than 64 MiB"):
        neuron_lab.load(tmp_path / "big")


def test_recording_that_could_not_be_loaded_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    from neuron_lab.recording import _format

    monkeypatch.setattr(_format, "LARGEST_BYTES", 100)
    with pytest.raises(FileProblem, match="cannot be saved"):
        dumps(recorded().recording)


@pytest.mark.parametrize("recording", [FORMAT_1_0, crowded().recording], ids=["small", "crowded"])
def test_report_of_endless_texts_stays_within_its_bounds(recording: Recording) -> None:
    data = json.loads(dumps(recording))
    data["words"] = [word if word in ("compiled", "fallback", "disk") else word + "x" * 5000 for word in data["words"]]
    data["recording"] |= {"label": "l" * 5000, "error": "e" * 5000}
    data["recording"]["environment"] |= {"device": "d" * 5000, "versions": {"torch": "v" * 5000, "neuron_lab": "v"}}
    p = Profile(Report(loads(json.dumps(data).encode()), "f" * 5000))
    for shown in (p.to_text(), p.compare(p).to_text(), session_text([session_row(p.report)], 0)):
        assert max(map(len, shown.splitlines())) <= 100
        assert len(shown.splitlines()) <= 40
    assert len(p.to_html()) < 30_000
    assert len(p.compare(p).to_html()) < 30_000
