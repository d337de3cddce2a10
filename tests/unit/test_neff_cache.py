"""`neuron_lab.cache()`: the list, what a clean-up takes, and others that use the directory meanwhile."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import neuron_lab
from neuron_lab import device, neff
from neuron_lab._quantities import bytes_of, seconds_of
from neuron_lab.device import CacheLocation, LoadedNeff
from neuron_lab.emulator import cache
from neuron_lab.errors import UsageProblem
from neuron_lab.render import cache_html, cache_text
from neuron_lab.report import NeffEntry
from tests.unit.test_cache import STORED

KEYS = [f"{index:x}{'0' * 31}" for index in range(1, 5)]
DAY_S = 86_400


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four NEFFs, used one to four days ago, the first also in memory, as is one without a file."""
    store = cache.NeffStore(tmp_path / "neff")
    for age, key in enumerate(KEYS, 1):
        store.put(key, dataclasses.replace(STORED, op=f"aten::op{age}", compile_s=float(age)))
        used = time.time() - age * DAY_S
        os.utime(neff.path_of(tmp_path / "neff", key), (used, used))
    loaded = [LoadedNeff(KEYS[0], "aten::op1", "", 7, 0), LoadedNeff("f" * 32, "aten::gone", "sig", 2, 3_000_000)]
    monkeypatch.setattr(
        device, "cache_location", lambda: CacheLocation(tmp_path / "neff", "THE_VARIABLE", emulated=True)
    )
    monkeypatch.setattr(device, "loaded_neffs", lambda: tuple(loaded))

    def forget(*, dry_run: bool = False) -> int:
        count = len(loaded)
        if not dry_run:
            loaded.clear()
        return count

    monkeypatch.setattr(device, "forget_neffs", forget)
    return tmp_path / "neff"


def ops() -> list[str]:
    return [row.op for row in neuron_lab.cache().entries]


def test_the_list_has_files_and_memory(root: Path) -> None:
    found = neuron_lab.cache()
    assert [row.op for row in found.entries] == ["aten::op1", "aten::op2", "aten::op3", "aten::op4", "aten::gone"]
    assert [row.hits for row in found.entries] == [7, None, None, None, 2]
    assert found.entries[-1].bytes is None and found.entries[-1].compile_s == 0.003
    text = found.to_text()
    assert f"{root} (THE_VARIABLE)" in text
    assert "4 NEFFs, " in text and "2 in this process's memory, 1 only there" in text
    assert "1 d ago" in text and max(map(len, text.splitlines())) <= 100
    frame = found.frame
    assert list(frame.hits.dropna()) == [7, 2] and str(frame.used.dt.tz) == "UTC"


@pytest.mark.parametrize(
    ("sort", "first"), [("used", "aten::op1"), ("compile", "aten::op4"), ("hits", "aten::op1"), ("op", "aten::gone")]
)
def test_sorted(root: Path, sort: str, first: str) -> None:
    assert neuron_lab.cache(sort=sort).entries[0].op == first


def test_the_rest_is_counted_and_options_are_checked(root: Path) -> None:
    assert "… 3 more (" in neuron_lab.cache(top=2).to_text()
    with pytest.raises(UsageProblem, match="sort='age' is none of used"):
        neuron_lab.cache(sort="age")
    with pytest.raises(UsageProblem, match="top must be at least 1"):
        neuron_lab.cache(top=0)
    with pytest.raises(UsageProblem, match="top must be at least 1, not 'all'"):
        neuron_lab.cache(top="all")  # type: ignore[arg-type]


def test_a_list_of_all_keeps_within_what_a_notebook_may_weigh() -> None:
    signature = f"aten::mm({', '.join(['float32[1024, 1024]'] * 8)})"
    rows = [NeffEntry(f"{n:032x}", "aten::mm", signature, True, 20_000, 0.0, 0.1, 3) for n in range(3000)]
    for page in (cache_text("/tmp/neffs", rows, 10**6, 0.0), cache_html("/tmp/neffs", rows, 10**6, 0.0)):
        assert len(page.encode()) < 80_000
        assert "00 more (" in page


def test_a_graph_tells_whose_it_is(root: Path) -> None:
    key, signature = "9" * 32, "graph(float32[2, 3]) default=float32\n..."
    graph = dataclasses.replace(STORED, op="graph::Net_0_forward", signature=signature)
    cache.NeffStore(root).put(key, graph)  # as an earlier version wrote it
    assert "Net_0_forward(float32[2, 3])" in neuron_lab.cache().to_text()
    cache.NeffStore(root).put(key, dataclasses.replace(graph, function="Net.forward", place="net.py line 12"))
    assert "Net_0_forward · net.py line 12 (float32[2, 3])" in neuron_lab.cache().to_text()
    assert neuron_lab.cache().frame.place.tolist().count("net.py line 12") == 1
    assert "function  Net.forward, net.py line 12" in neuron_lab.open_neff(key).to_text().replace("    ", "  ")


def test_made_again_under_its_key_is_read_again(root: Path) -> None:
    assert neuron_lab.cache().entries[0].compile_s == pytest.approx(1.003)
    cache.NeffStore(root).put(KEYS[0], dataclasses.replace(STORED, op="aten::op1", compile_s=9.0))
    assert neuron_lab.cache().entries[0].compile_s == pytest.approx(9.003)


def test_prune_by_age(root: Path) -> None:
    done = neuron_lab.cache().prune(older_than="60h").change
    assert [row.op for row in done.removed] == ["aten::op4", "aten::op3"]
    assert (done.left, done.skipped, done.forgotten) == (2, 0, None)
    assert ops() == ["aten::op1", "aten::op2", "aten::gone"]


def test_prune_by_size_keeps_the_last_used(root: Path) -> None:
    one = neuron_lab.cache().entries[0].bytes or 0
    done = neuron_lab.cache().prune(keep=2 * one + 1)
    assert ops()[:2] == ["aten::op1", "aten::op2"]
    assert done.change.freed == 2 * one and done.change.left_bytes == 2 * one
    assert done.to_text().startswith("removed 2 NEFFs, ") and "2 NEFFs" in done.to_html()


def test_dry_run_removes_nothing(root: Path) -> None:
    for done in (neuron_lab.cache().prune(keep=0, dry_run=True), neuron_lab.cache().clear(dry_run=True)):
        assert done.to_text().startswith("would remove 4 NEFFs, ")
    assert len(ops()) == 5


def test_prune_of_nothing_in_particular_is_refused(root: Path) -> None:
    with pytest.raises(UsageProblem, match="prune what"):
        neuron_lab.cache().prune()
    with pytest.raises(UsageProblem, match="keep must be 0 or more, it is -1"):
        neuron_lab.cache().prune(keep=-1)
    with pytest.raises(UsageProblem, match="older_than must be 0 or more, it is nan"):
        neuron_lab.cache().prune(older_than=float("nan"))


def test_clear_takes_files_memory_and_what_dead_processes_left(root: Path) -> None:
    old, new = root / ".tmp.dead", root / ".tmp.busy"
    for path in (old, new):
        path.write_bytes(b"x" * 100)
    os.utime(old, (0, 0))
    done = neuron_lab.cache().clear()
    assert done.change.forgotten == 2 and "2 NEFFs in this process's memory were forgotten" in done.to_text()
    assert ops() == [] and not old.exists() and new.exists()
    assert neuron_lab.cache().to_text().splitlines()[1] == "0 NEFFs, 0 B on disk"


def test_real_neffs_are_left_and_told_and_damaged_ones_go(root: Path) -> None:
    real = neff.path_of(root, "5" * 32)
    damaged = neff.path_of(root, "6" * 32)
    for path, data in ((real, neff.pack("net", {"a": b"1"}, build_version="neuronx-cc")), (damaged, b"junk")):
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    listing = neuron_lab.cache()
    assert "1 real, 4 emulated" in listing.to_text() and "1 that cannot be read" in listing.to_text()
    assert "cannot be read: a NEFF starts with a header" in listing.to_text()
    assert "1 NEFF of another kind of device not looked at" in listing.clear().to_text()
    assert real.exists() and not damaged.exists()


def test_a_file_used_since_it_was_listed_is_left(root: Path) -> None:
    listing = neuron_lab.cache()
    assert cache.NeffStore(root).get(KEYS[3]) is not None
    done = listing.prune(older_than="1d")
    assert done.change.skipped == 1 and "1 NEFF left alone: used meanwhile" in done.to_text()
    assert "aten::op4" in ops()


def test_nothing_on_disk_when_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "cache_location", lambda: CacheLocation(None, "OFF", emulated=True))
    monkeypatch.setattr(device, "loaded_neffs", tuple)
    monkeypatch.setattr(device, "forget_neffs", lambda *, dry_run=False: 0)
    assert "switched off by OFF=1" in neuron_lab.cache().to_text()
    assert neuron_lab.cache().clear().change.removed == ()


def test_keys_begin_one_several_or_none(root: Path) -> None:
    assert neuron_lab.open_neff("1").account.op == "aten::op1"
    with pytest.raises(
        UsageProblem, match=r"no NEFF's key begins with 'x'; there are 10000000 aten::op1, .*\./name\.neff"
    ):
        neuron_lab.open_neff("x")
    cache.NeffStore(root).put("12" + "0" * 30, STORED)
    with pytest.raises(UsageProblem, match=r"'1' begins 2 keys: 12000000 aten::add\.Tensor, 10000000 aten::op1"):
        neuron_lab.open_neff("1")
    with pytest.raises(UsageProblem, match="ffffffff aten::gone is in this process's memory only"):
        neuron_lab.open_neff("ff")


WRITER = """
import sys
from pathlib import Path
from neuron_lab.emulator import cache
from tests.unit.test_cache import STORED
store = cache.NeffStore(Path(sys.argv[1]))
index = 0
while True:
    key = f"{index % 300:032x}"
    found = store.get(key)
    assert found is None or found == STORED
    assert store.put(key, STORED)
    index += 1
    if index == 20:
        print("going", flush=True)
"""


def test_cleared_and_pruned_while_others_write_and_one_is_killed(root: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None and writer.stdout.readline() == b"going\n"
        removed = 0
        for turn in range(12):
            listing = neuron_lab.cache()
            done = listing.clear() if turn % 2 else listing.prune(keep="50kB")
            removed += len(done.change.removed)
            if turn == 5:
                writers[0].send_signal(signal.SIGKILL)
        assert removed > 20
        assert writers[1].poll() is None, writers[1].stderr and writers[1].stderr.read()
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    assert all(not row.problem for row in neuron_lab.cache().entries)


@pytest.mark.parametrize(
    ("text", "value"),
    [("2GB", 2_000_000_000), ("512 MiB", 512 << 20), ("1.5k", 1500), ("7b", 7), ("1ti", 1 << 40), ("0B", 0)],
)
def test_sizes(text: str, value: int) -> None:
    assert bytes_of(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("7d", 604_800), ("90min", 5400), ("1.5h", 5400), ("30s", 30), ("2w", 1_209_600)]
)
def test_durations(text: str, value: float) -> None:
    assert seconds_of(text) == value


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "7x", "1e9d", "7 d d", "9" * 400 + "d", "٧d x"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageProblem, match="is not a duration"):
        seconds_of(text)


def test_a_size_without_a_unit_says_so() -> None:
    with pytest.raises(UsageProblem, match="'2' is not a size like 2GB, 512MiB: it has no unit"):
        bytes_of("2")
