"""`%neuron compare` and `%%neuron compare`: the command only parses, calls and displays."""

from __future__ import annotations

from typing import Any

import pytest

import neuron_lab
from tests.shell.conftest import Shell
from tests.unit.test_trial import FASTER


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `compare` was called with, and what the function it was given returned."""
    made: list[dict[str, Any]] = []

    def compare(function: Any, **options: Any) -> neuron_lab.CompileTrial:
        made.append({**options, "value": function(), "line": function.__code__.co_firstlineno})
        return neuron_lab.CompileTrial(FASTER)

    monkeypatch.setattr(neuron_lab, "compare", compare)
    return made


def test_an_expression(shell: Shell, calls: list[dict[str, Any]]) -> None:
    shell.run("def model(x): return x + 1")
    result = shell.run("%neuron compare --train --rounds 7 -o kept model(41)").result
    assert calls == [{"train": True, "rounds": 7, "label": "In[2]", "value": 42, "line": 1}]
    assert isinstance(result, neuron_lab.CompileTrial) and shell.ip.user_ns["kept"] is result


def test_a_cell_s_names_are_the_notebook_s_and_its_last_value_the_result(
    shell: Shell, calls: list[dict[str, Any]]
) -> None:
    shell.run("a = 1")
    assert shell.run("%%neuron compare\nimport math\na += 1\nb = a * 2\nfor i in range(3):\n    pass\nb + 1").success
    assert calls[0]["value"] == 5 and calls[0]["rounds"] == 20
    assert [shell.ip.user_ns[name] for name in ("a", "b", "i")] == [2, 4, 2]
    assert "compared" not in shell.ip.user_ns and "math" in shell.ip.user_ns


def test_annotated_names_are_the_notebook_s_too(shell: Shell, calls: list[dict[str, Any]]) -> None:
    body = "a: int = 4\nif a:\n    b: 'later'\n    b: int = a + 1\ndef inner():\n    c: int = b\n    return c\ninner()"
    assert shell.run(f"%%neuron compare\n{body}").success, shell.errors
    assert calls[0]["value"] == 5 and shell.ip.user_ns["b"] == 5
    assert shell.run("%neuron compare d: int = 3").success and shell.ip.user_ns["d"] == 3


@pytest.mark.parametrize("cell", ["%%neuron compare\nx = 1\nf(0)", "%neuron compare f(0)"])
def test_an_error_shows_the_program_s_own_frames(shell: Shell, cell: str) -> None:
    shell.run("def f(x):\n    return 1 / x")
    assert not shell.run(cell).success
    (error,) = shell.errors
    assert "ZeroDivisionError" in error and "return 1 / x" in error
    assert [line.split(" in ")[1] for line in error.splitlines() if line.startswith(("Cell", "File"))] == [
        "compared()",
        "f(x)",
    ]


def test_an_error_while_the_program_is_only_read_shows_whose_it_is(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reads(function: Any, **options: Any) -> None:
        raise RuntimeError("cannot trace it")

    monkeypatch.setattr(neuron_lab, "compare", reads)
    assert not shell.run("%neuron compare print(1)").success
    (error,) = shell.errors
    assert "cannot trace it" in error and "in test_an_error_while" in error and "neuron_magics" not in error


def test_an_error_of_the_package_itself_shows_everything(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neuron_lab, "compare", neuron_lab._version)  # a module cannot be called
    assert not shell.run("%neuron compare print(1)").success
    (error,) = shell.errors
    assert "not callable" in error and "neuron_magics" in error


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%neuron compare", "what shall be compared?"),
        ("%neuron compare --rounds many f()", "invalid int value"),
        ("%neuron compare -o 1x f()", "not a name a variable can have"),
        ("%neuron compare # nothing", "what shall be compared?"),
        ("%%neuron compare\n# nothing", "what shall be compared?"),
        ("%neuron compare -1 * x", "unrecognized arguments: -1"),
        ("%neuron compare )", "cannot read line 1"),
        ("%%neuron compare\nfrom math import *\n1", "only allowed at module level: from math import *"),
        ("%%neuron status\n1", "is not a cell command; %%neuron profile and compare are"),
    ],
)
def test_mistakes_are_one_line(shell: Shell, cell: str, message: str) -> None:
    assert not shell.run(cell).success
    assert any(message in text and "\n" not in text for text in shell.errors), shell.errors


@pytest.mark.filterwarnings("ignore::IPython.core.completer.ProvisionalCompleterWarning")
def test_help_and_completion(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run("%neuron compare --help")
    assert "--rounds N" in capsys.readouterr().out
    shell.run("%neuron --help")
    assert "Is torch.compile worth it?" in capsys.readouterr().out
    assert "--train" in {item.text for item in shell.ip.Completer.completions("%neuron compare --tr", 20)}
