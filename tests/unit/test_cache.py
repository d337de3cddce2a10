from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from neuron_lab import neff
from neuron_lab.emulator import _fingerprint, cache
from neuron_lab.emulator.compiler import Tier

KEY = "0123456789abcdef0123456789abcdef"
STORED = cache.StoredNeff(
    op="aten::add.Tensor",
    signature="add f32[2,3] f32[2,3]",
    stablehlo="module @m {}",
    plan_json='{"inputs": [0, 1]}',
    executable=b"\x00machine code\xff" * 50,
    fx="graph():",
    trace_s=0.001,
    lower_s=0.002,
    compile_s=0.003,
    inputs=(cache.Port("float32", (2, 3)), cache.Port("bfloat16", ())),
    outputs=(cache.Port("float32", (2, 3)),),
    flops=6.0,
    bytes_accessed=72.0,
    created=1.0,
)


@pytest.fixture
def store(tmp_path: Path) -> cache.NeffStore:
    return cache.NeffStore(tmp_path / "neff")


def file_of(store: cache.NeffStore, key: str = KEY) -> Path:
    assert store.root is not None
    return neff.path_of(store.root, key)


def test_what_is_put_comes_back(store: cache.NeffStore) -> None:
    assert store.get(KEY) is None
    assert store.put(KEY, STORED)
    assert cache.NeffStore(store.root).get(KEY) == STORED
    assert (store.stats().misses, store.stats().writes) == (1, 1)
    assert store.stats().written == file_of(store).stat().st_size


def test_only_the_user_can_reach_the_files(store: cache.NeffStore) -> None:
    store.put(KEY, STORED)
    path = file_of(store)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [folder.stat().st_mode & 0o777 for folder in path.parents[:3]] == [0o700] * 3


def test_the_file_is_a_neff_that_says_it_is_emulated(store: cache.NeffStore) -> None:
    store.put(KEY, STORED)
    content = neff.read(file_of(store))
    assert content.header.build_version.startswith("neuron_lab-emulator")
    assert content.header.name == "aten::add.Tensor"
    description = content.json("neff.json")
    assert description["emulated"] is True
    assert set(description["versions"]) == {"torch", "torch-mlir", "jaxlib"}
    assert content.json("info.json")["inputs"] == [
        {"dtype": "float32", "shape": [2, 3], "bytes": 24},
        {"dtype": "bfloat16", "shape": [], "bytes": 2},
    ]
    assert [member.name for member in content.members] == [
        "neff.json",
        "info.json",
        "hlo_stats.json",
        "emulator/module.stablehlo.mlir",
        "emulator/plan.json",
        "emulator/executable.bin",
        "emulator/graph.fx.txt",
    ]


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    return data[:3000] + bytes([data[3000] ^ 1]) + data[3001:]


def without_hash(data: bytes) -> bytes:
    return data[:172] + bytes(32) + data[204:]


def other_neff(data: bytes) -> bytes:
    return neff.pack("x", {"neff.json": b"{}"}, build_version="2.0")


def no_object(data: bytes) -> bytes:
    return neff.pack("x", dict.fromkeys(("neff.json", "info.json", "hlo_stats.json"), b"[1]"), build_version="2.0")


def empty(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [truncated, flipped, without_hash, other_neff, no_object, empty])
def test_a_damaged_file_is_removed_and_made_again(store: cache.NeffStore, damage: Callable[[bytes], bytes]) -> None:
    store.put(KEY, STORED)
    path = file_of(store)
    path.write_bytes(damage(path.read_bytes()))
    assert store.get(KEY) is None
    assert not path.exists()
    assert store.stats().healed == 1
    assert store.put(KEY, STORED)
    assert store.get(KEY) == STORED


def test_a_file_under_the_key_of_another_is_not_believed(store: cache.NeffStore) -> None:
    store.put(KEY, STORED)
    other = KEY[::-1]
    file_of(store, other).parent.mkdir(parents=True)
    file_of(store, other).write_bytes(file_of(store).read_bytes())
    assert store.get(other) is None
    assert store.get(KEY) == STORED


def test_discard_removes_what_does_not_load(store: cache.NeffStore) -> None:
    store.put(KEY, STORED)
    store.discard(KEY)
    assert store.get(KEY) is None
    assert store.stats().healed == 1


def test_a_file_of_another_owner_is_not_loaded(store: cache.NeffStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(KEY, STORED)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert store.get(KEY) is None
    assert store.stats().refused == 1
    assert file_of(store).exists()


def test_a_file_that_others_can_write_is_not_loaded(store: cache.NeffStore) -> None:
    store.put(KEY, STORED)
    file_of(store).chmod(0o666)
    assert store.get(KEY) is None
    assert store.stats().refused == 1


def link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def fifo(path: Path, target: Path) -> None:
    os.mkfifo(path, 0o600)


def folder(path: Path, target: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("plant", [link, fifo, folder])
def test_links_pipes_and_folders_under_a_key_are_not_followed(
    store: cache.NeffStore, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    store.put(KEY, STORED)
    target = file_of(store).rename(tmp_path / "target")
    plant(file_of(store), target)
    assert store.get(KEY) is None
    assert target.exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
@pytest.mark.parametrize("call", ["mkstemp", "replace", "mkdir"])
def test_an_unwritable_directory_costs_one_warning_and_nothing_else(
    store: cache.NeffStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
    call: str,
) -> None:
    other = KEY[::-1]
    store.put(other, STORED)

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(code, os.strerror(code))

    owner = {"mkstemp": tempfile, "replace": os, "mkdir": Path}[call]
    monkeypatch.setattr(owner, call, fail)
    with caplog.at_level(logging.WARNING):
        assert not store.put(KEY, STORED)
        assert not store.put(KEY, STORED)
    (record,) = caplog.records
    assert str(store.root) in record.getMessage()
    assert "TORCH_NEURONX_NEFF_CACHE_DIR" in record.getMessage()
    assert store.get(other) == STORED
    assert store.root is not None
    assert list(store.root.glob(".tmp.*")) == []


def test_a_disk_that_fills_in_the_middle_leaves_no_file(
    store: cache.NeffStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert store.root is not None
    store.root.mkdir()
    monkeypatch.setattr(tempfile, "mkstemp", lambda **_: (os.open("/dev/full", os.O_WRONLY), "/nonexistent"))
    assert not store.put(KEY, STORED)
    assert "No space left" in caplog.text
    assert not file_of(store).exists()


def test_a_root_that_is_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    store = cache.NeffStore(tmp_path / "file")
    assert store.get(KEY) is None
    assert not store.put(KEY, STORED)
    assert len(caplog.records) == 1


def test_a_read_only_directory_still_serves(store: cache.NeffStore) -> None:
    """The owner may read but not write; root may write all the same."""
    store.put(KEY, STORED)
    assert store.root is not None
    for path in [*store.root.rglob("*"), store.root]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    if os.geteuid() != 0:
        assert not store.put(KEY[::-1], STORED)
    assert store.get(KEY) == STORED
    for path in [store.root, *store.root.rglob("*")]:
        path.chmod(0o700)


def test_least_recently_used_go_first(store: cache.NeffStore) -> None:
    keys = [f"{number:032x}" for number in range(1, 11)]
    for age, key in enumerate(keys):
        store.put(key, STORED)
        os.utime(file_of(store, key), (1000 + age, 1000 + age))
    assert store.get(keys[0]) == STORED  # used now: the youngest
    size = file_of(store, keys[0]).stat().st_size
    assert store.prune(10 * size) == 0
    assert store.prune(5 * size) == 6  # down to 80 % of the limit: four stay
    assert {file.key for file in store.entries()} == {keys[0], *keys[7:]}
    assert store.entries()[0].key == keys[0]
    assert store.stats().evicted == 6


def test_growth_starts_a_prune_in_the_background(tmp_path: Path) -> None:
    store = cache.NeffStore(tmp_path, limit=50_000)
    for number in range(1, 11):
        store.put(f"{number:02x}" * 16, STORED)
        if store._pruner is not None:
            store._pruner.join()
    assert sum(file.size for file in store.entries()) <= store.limit
    assert store.get("0a" * 16) == STORED


def test_prune_and_clear_leave_real_neffs_alone(store: cache.NeffStore) -> None:
    store.put(KEY, STORED)
    real = file_of(store, "f" * 32)
    real.parent.mkdir(parents=True)
    real.write_bytes(neff.pack("real", {"a": bytes(100_000)}, build_version="2.22.1"))
    assert store.prune(10) == 1
    store.put(KEY, STORED)
    assert store.clear() == 1
    assert [file.key for file in store.entries()] == ["f" * 32]


def test_prune_removes_only_old_temporary_files(store: cache.NeffStore) -> None:
    store.put(KEY, STORED)
    assert store.root is not None
    young, old = store.root / ".tmp.young", store.root / ".tmp.old"
    for path in (young, old):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    store.prune()
    assert young.exists()
    assert not old.exists()


WORKER = """
import sys
import tempfile
from pathlib import Path
from neuron_lab.emulator import cache
root, seed = Path(sys.argv[1]), int(sys.argv[2])
store = cache.NeffStore(root)
found = 0
for turn in range(120):
    for number in range(4):
        key = f"{number:032x}"
        body = bytes([number]) * 20_000
        if turn % 3 == seed:
            store.put(key, cache.StoredNeff("op", key, "", "", body, "", float(seed), 0.0, 0.0, created=0.0))
        got = store.get(key)
        if got is not None:
            found += 1
            assert got.executable == body and got.signature == key
    if turn % 40 == 39:
        store.prune(1) if seed else store.clear()
stats = store.stats()
assert found and not stats.healed and not stats.refused, stats
"""


def test_two_processes_write_read_and_remove_the_same_keys(tmp_path: Path) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), str(seed)]) for seed in range(2)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    assert list(tmp_path.glob(".tmp.*")) == []


def test_without_a_root_nothing_is_stored() -> None:
    store = cache.NeffStore(None)
    assert not store.put(KEY, STORED)
    assert store.get(KEY) is None
    assert (store.entries(), store.prune(), store.clear()) == ([], 0, 0)


@pytest.mark.parametrize("name", ["TORCH_NEURONX_NEFF_DISABLE_CACHE", "TORCH_NEURONX_DISABLE_NEFF_CACHE"])
def test_either_variable_disables_the_directory(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("TORCH_NEURONX_NEFF_CACHE_DIR", raising=False)
    assert cache.default_root() is not None
    monkeypatch.setenv(name, "1")
    assert cache.default_root() is None
    monkeypatch.setenv(name, "0")
    assert cache.default_root() is not None


def test_default_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCH_NEURONX_NEFF_CACHE_DIR", str(tmp_path))
    assert cache.default_root() == tmp_path
    monkeypatch.delenv("TORCH_NEURONX_NEFF_CACHE_DIR")
    root = cache.default_root()
    assert root is not None
    assert root.parts[-2:] == ("neuron_lab", "neff")


def test_keys_depend_on_signature_tier_and_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {cache.key_of("a"), cache.key_of("b"), cache.key_of("a", Tier.GRAPH)}
    assert cache.key_of("a") in keys
    monkeypatch.setenv("NEURON_CC_FLAGS", "--auto-cast=none")
    keys.add(cache.key_of("a"))
    assert len(keys) == 4
    assert all(len(key) == 32 and set(key) <= set("0123456789abcdef") for key in keys)


@pytest.mark.parametrize(
    ("cpuinfo", "ending"),
    [
        ("processor : 0\nmodel name\t: Fast\nflags\t\t: sse2 avx\n\nflags : other\n", "model name\t: Fast avx sse2"),
        ("processor : 0\nFeatures : fp asimd\n", "asimd fp"),
    ],
)
def test_cpu_features(tmp_path: Path, cpuinfo: str, ending: str) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(cpuinfo)
    assert _fingerprint._cpu_features(path).endswith(ending)


def test_cpu_features_without_proc(tmp_path: Path) -> None:
    assert _fingerprint._cpu_features(tmp_path / "absent").strip()
