"""`%neuron neff` and `%neuron cache`: the commands only parse, call and display."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from neuron_lab import device
from neuron_lab.device import CacheLocation
from neuron_lab.emulator import cache
from tests.shell.conftest import Shell
from tests.unit.test_cache import STORED


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    store = cache.NeffStore(tmp_path)
    for index in range(3):
        store.put(f"{index}{'a' * 31}", dataclasses.replace(STORED, op=f"aten::op{index}"))
    monkeypatch.setattr(device, "cache_location", lambda: CacheLocation(tmp_path, "", emulated=True))
    monkeypatch.setattr(device, "loaded_neffs", tuple)
    monkeypatch.setattr(device, "forget_neffs", lambda *, dry_run=False: 0)
    return tmp_path


def text_of(shell: Shell, line: str) -> str:
    result: Any = shell.run(line).result
    bundle: dict[str, str] = result._repr_mimebundle_()
    assert 'class="nrn"' in bundle["text/html"]
    return bundle["text/plain"]


@pytest.mark.parametrize("line", ["%neuron neff", "%neuron cache", "%neuron cache ls", "%neuron cache --sort size"])
def test_lists(shell: Shell, root: Path, line: str) -> None:
    text = text_of(shell, line)
    assert text.startswith(f"NEFF cache {root} (the default)\n3 NEFFs, ")
    assert len(text.splitlines()) == 7


def test_opens_by_key_and_by_file(shell: Shell, root: Path) -> None:
    assert text_of(shell, "%neuron neff 1a").startswith("aten::op1 · emulated NEFF")
    (path,) = (root / "1a").rglob("*.neff")
    assert text_of(shell, f"%neuron neff {path}").startswith("aten::op1 · emulated NEFF")


def test_prunes_and_clears(shell: Shell, root: Path) -> None:
    assert text_of(shell, "%neuron cache prune --older-than 7d").startswith("removed 0 NEFFs")
    assert text_of(shell, "%neuron cache clear --dry-run").startswith("would remove 3 NEFFs")
    assert text_of(shell, "%neuron cache prune --keep 0B").startswith("removed 3 NEFFs")
    assert list(root.rglob("*.neff")) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%neuron neff zz", "no NEFF's key begins with 'zz'"),
        ("%neuron neff --sort age", "invalid choice: 'age'"),
        ("%neuron cache drop", "invalid choice: 'drop'"),
        ("%neuron cache prune", "prune what? --older-than 7d"),
        ("%neuron cache prune --dry-run", "prune what? --older-than 7d"),
        ("%neuron cache prune --keep 2", "'2' is not a size like 2GB, 512MiB: it has no unit"),
        ("%neuron cache prune --older-than soon", "'soon' is not a duration like 7d"),
        ("%neuron cache clear --keep 2GB", "--keep is of `%neuron cache prune`, not of clear"),
        ("%neuron cache --older-than 7d", "--older-than is of `%neuron cache prune`, not of ls"),
        ("%neuron cache --dry-run", "--dry-run is of `%neuron cache prune and clear`, not of ls"),
        ("%neuron cache prune --keep 0B --sort size", "--sort is of `%neuron cache ls`, not of prune"),
        ("%neuron cache clear --top 20", "--top is of `%neuron cache ls`, not of clear"),
        ("%neuron neff 1a --top 20", "--top is of the list that `%neuron neff` alone shows, not of one NEFF"),
        ("%neuron neff --sort used 1a", "--sort is of the list that `%neuron neff` alone shows, not of one NEFF"),
    ],
)
def test_mistakes_are_one_line(shell: Shell, root: Path, line: str, message: str) -> None:
    assert not shell.run(line).success
    (error,) = shell.errors
    assert message in error and "\n" not in error
    assert len(list(root.rglob("*.neff"))) == 3


@pytest.mark.filterwarnings("ignore::IPython.core.completer.ProvisionalCompleterWarning")
def test_completes(shell: Shell) -> None:
    for line, words in {
        "%neuron cache ": {"ls", "prune", "clear", "--dry-run"},
        "%neuron neff --sort ": {"used", "hits"},
    }.items():
        assert words <= {item.text for item in shell.ip.Completer.completions(line, len(line))}
