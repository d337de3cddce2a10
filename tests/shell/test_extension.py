"""Loading, help, completion, and the other commands."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from neuron_lab import device
from neuron_lab.device import CacheState, CoreMemory, Description, DeviceInfo
from neuron_lab.errors import DeviceProblem
from tests.shell.conftest import Shell, hooks


def test_loading_prints_nothing_and_twice_is_once(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    before = hooks(shell.ip)
    shell.run("%reload_ext neuron_lab")
    assert [len(items) for items in hooks(shell.ip).values()] == [len(items) for items in before.values()]
    assert capsys.readouterr().out == ""
    shell.run("%load_ext neuron_lab")
    assert [len(items) for items in hooks(shell.ip).values()] == [len(items) for items in before.values()]
    shell.run("%%neuron profile\ndev.run('aten::a')")
    assert len(shell.reports) == 1


def test_loading_imports_no_more_than_it_hangs_in() -> None:
    """What a report needs takes most of the time, and most sessions that only load it never do."""
    program = (
        "import sys\nfrom IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\nshell.run_line_magic('load_ext', 'neuron_lab')\n"
        "heavy = {'pandas', 'jaxlib', 'torch', 'neuron_lab.report', 'neuron_lab.recording', 'neuron_lab.render'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "[]\n"


def test_unloading_takes_the_command_away(shell: Shell) -> None:
    shell.run("%unload_ext neuron_lab")
    assert not shell.run("%neuron").success
    assert not shell.run("%%neuron profile\n1").success
    shell.run("%load_ext neuron_lab")
    assert shell.run("%%neuron profile\n1").success


@pytest.mark.parametrize(
    "ask",
    [
        "%neuron profile --help",
        "%neuron profile -h",
        "%neuron profile --top 3 --help",
        "%%neuron profile --help",
        "%%neuron profile -h\nx = 1",
        "%%neuron profile?",
        "%neuron profile?",
        "%neuron profile??",
    ],
)
def test_help_of_profile(shell: Shell, capsys: pytest.CaptureFixture[str], ask: str) -> None:
    assert shell.run(ask).success
    text = capsys.readouterr().out
    for option in (
        "--top",
        "--sort",
        "--by",
        "--min-ms",
        "--no-widget",
        "--output",
        "--save",
        "--compare",
        "--quiet",
        "--fail-over",
        "--help",
    ):
        assert option in text
    assert "x" not in shell.ip.user_ns
    assert shell.reports == []


def test_help_of_everything(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run("%neuron --help").success
    text = capsys.readouterr().out
    assert all(command in text for command in ("profile", "status", "last", "recompiles", "explain"))
    assert max(map(len, text.splitlines())) <= 140


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("%neuron explain", "NRN053  Kept alive by the notebook"),
        ("%neuron cache prune --help", "--older-than AGE"),
        ("%neuron compare --help", "--rounds N"),
    ],
)
def test_help_of_one_command(shell: Shell, capsys: pytest.CaptureFixture[str], line: str, told: str) -> None:
    result = shell.run(line)
    assert result.success and result.result is None
    assert told in capsys.readouterr().out


def test_question_mark_shows_every_option(shell: Shell) -> None:
    found = shell.ip.object_inspect("%neuron")
    assert all(word in found["docstring"] for word in ("--top", "--fail-over", "status", "last"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%neuron nothing", "%neuron has no command 'nothing'"),
        ("%neuron profil x = 1", "no command 'profil'; did you mean profile?; there"),
        ("%neuron status --nope", "unrecognized arguments: --nope"),
        ("%neuron last x", "unrecognized arguments: x"),
        ("%%neuron status\nx = 1", "%%neuron status is not a cell command"),
        ("%%neuron\nx = 1", "%%neuron is not a cell command"),
        ("%neuron last", "nothing was profiled yet"),
        ("%neuron recompiles", "nothing was profiled yet"),
        ("%neuron recompiles dev", "dev is not a profile"),
        ("%neuron explain NRN999", "invalid choice: 'NRN999'"),
    ],
)
def test_mistakes_are_one_line(shell: Shell, line: str, message: str) -> None:
    assert not shell.run(line).success
    (error,) = shell.errors
    assert error.startswith("UsageError: ")
    assert message in error
    assert "\n" not in error
    assert "x" not in shell.ip.user_ns


def test_last_shows_the_result_again(shell: Shell) -> None:
    shell.run("%%neuron profile -q\ndev.run('aten::a')")
    assert shell.run("%neuron last").result is shell.profile
    assert shell.run("p = %neuron last\np").result is shell.profile
    assert shell.run("%neuron last;").success


def test_last_is_shown_another_way(shell: Shell) -> None:
    shell.run("%%neuron profile -q --top 1\ndev.run('aten::a', nbytes=9)\ndev.run('aten::b')\ndev.run('aten::b')")
    for options, shown in (("--top 2", ["aten::b", "aten::a"]), ("--sort bytes", ["aten::a"]), ("", ["aten::b"])):
        text = shell.run(f"%neuron last {options}").result.to_text()  # type: ignore[attr-defined]
        assert [line.split()[0] for line in text.splitlines() if line.startswith("aten::")] == shown
    assert "    2  dev.run" in shell.run("%neuron last --by line").result.to_text()  # type: ignore[attr-defined]
    assert not shell.run("%neuron last --top 0").success
    assert shell.errors == ["UsageError: top is 0; show at least 1 row"]


def test_status_shows_device_and_ignored_variables(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    info = DeviceInfo("emulator", "emulated trn2.3xlarge", "no Trainium here", 1, {"torch": "2.13.0"})
    cache = CacheState("/tmp/neff_cache", 3, 12_000, 5, 1, 2)
    found = Description(
        info, (CoreMemory(1 << 20, 24 << 30, 2 << 20),), cache, frozenset({"TORCH_NEURONX_NEFF_CACHE_DIR"})
    )
    monkeypatch.setattr(device, "describe", lambda: found)
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", "/data/cache")
    for line in ("%neuron", "%neuron status"):
        result: Any = shell.run(line).result
        text = result._repr_mimebundle_()["text/plain"]
        assert "emulated trn2.3xlarge" in text
        assert "HBM 1 MiB of 24 GiB used, peak 2 MiB" in text
        assert "3 NEFFs, 12.0 kB · this process: 5 hits in memory, 1 on disk, 2 misses" in text
        assert "NEURON_COMPILE_CACHE_URL=/data/cache is set and changes nothing" in text
        assert "here it is TORCH_NEURONX_NEFF_CACHE_DIR" in text


def test_no_device_fails_in_one_line_and_the_body_does_not_run(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise DeviceProblem("no device serves `neuron` here")

    monkeypatch.setattr(device, "hook", none)
    result = shell.run("%%neuron profile\nx = 1")
    assert isinstance(result.error_in_exec, DeviceProblem)
    assert shell.errors == ["DeviceProblem: no device serves `neuron` here"]
    assert "x" not in shell.ip.user_ns


def test_recompiles_of_the_latest_and_of_a_variable(shell: Shell) -> None:
    for rows in (64, 37):
        signature = f"aten::mm(float32[{rows}, 8]) default=float32"
        shell.run(
            f"%%neuron profile -q -o p{rows}\ndev.run('aten::mm', compile_ms=(1, 1, 1), neff='{rows}', signature='{signature}')"
        )
    latest: Any = shell.run("%neuron recompiles").result
    assert latest.text.splitlines() == [
        "In[2]: 1 NEFF for another signature of an op in 3.00 ms",
        "",
        "aten::mm · In[2] line 2 · 3.00 ms",
        "    dim 0 of input 0: 64 → 37",
        "    a smaller batch: pad it, or drop_last=True if it is a loader's last",
    ]
    assert "dim 0 of input 0: 64 → 37" in latest._repr_mimebundle_()["text/html"]
    assert "1 NEFF for an op's first" in shell.run("%neuron recompiles p64").result.text  # type: ignore[attr-defined]
    shell.run("%%neuron profile -q\n1")
    assert shell.run("%neuron recompiles").result.text == "In[5]: nothing was compiled or loaded, all was warm"  # type: ignore[attr-defined]


def test_explain(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    page: Any = shell.run("%neuron explain nrn012").result
    assert page.text.startswith("NRN012  Compiled again for another size")
    assert "drop_last" in page._repr_mimebundle_()["text/html"]
    shell.run("%neuron explain --help")
    assert "NRN041  A value is waited for in a loop" in capsys.readouterr().out


COMPLETIONS = {
    "%neuron ": {"profile", "status", "last", "recompiles", "explain", "--help"},
    "%neuron pro": {"profile"},
    "%%neuron profile --": {
        "--top",
        "--sort",
        "--by",
        "--min-ms",
        "--no-widget",
        "--output",
        "--save",
        "--compare",
        "--quiet",
        "--fail-over",
        "--help",
    },
    "%neuron profile --to": {"--top"},
    "%%neuron profile --sort ": {"time", "compile", "device", "fallback", "calls", "bytes"},
    "%neuron explain NRN01": {"NRN011", "NRN012", "NRN013", "NRN014", "NRN015"},
    "%neuron profile --by ": {"op", "neff", "line", "module"},
    "%%neuron profile --sort c": {"compile", "calls"},
    "%%neuron profile --sort=c": {"compile", "calls"},
    "%neuron neff --top 3 --sort=": {"used", "size", "compile", "hits", "op"},
    "x = %neuron la": {"last"},
}


@pytest.mark.filterwarnings("ignore::IPython.core.completer.ProvisionalCompleterWarning")
@pytest.mark.parametrize(("line", "words"), COMPLETIONS.items(), ids=COMPLETIONS.keys())
@pytest.mark.parametrize("below", ["", "\nx = 1\n"], ids=["alone", "body"])
def test_completion(shell: Shell, line: str, words: set[str], below: str) -> None:
    found = {item.text for item in shell.ip.Completer.completions(line + below, len(line))}
    assert words <= found
    assert not [text for text in found - words if text.startswith("-") and not text.startswith(("-h", "-o", "-q"))]


@pytest.mark.filterwarnings("ignore::IPython.core.completer.ProvisionalCompleterWarning")
def test_completion_leaves_python_alone(shell: Shell) -> None:
    shell.ip.user_ns["long_name"] = 1
    for text in ("%%neuron profile\nlong_n", "%neuron profile f(top=long_n", "long_n"):
        assert "long_name" in {item.text for item in shell.ip.Completer.completions(text, len(text))}
