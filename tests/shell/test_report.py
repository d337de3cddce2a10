"""`%neuron report`: every profiled cell of the session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import neuron_lab
from tests.shell.conftest import Shell


def test_every_profiled_cell_is_a_row(shell: Shell) -> None:
    shell.run("%%neuron profile -q\ndev.run('aten::a')")
    shell.run("x = 1")
    shell.run("%%neuron profile -q\n1/0")
    shell.run("%neuron profile -q dev.run('aten::a')")
    result = shell.run("%neuron report").result
    assert isinstance(result, neuron_lab.SessionReport)
    assert [(row.label, row.error) for row in result.rows] == [
        ("In[1]", None),
        ("In[3]", "ZeroDivisionError"),
        ("In[4]", None),
    ]
    bundle = result._repr_mimebundle_()
    assert "In[3] (ZeroDivisionError)" in bundle["text/plain"]
    assert "In[3] (ZeroDivisionError)" in bundle["text/html"]


def test_files(shell: Shell, tmp_path: Path) -> None:
    shell.run("%%neuron profile -q\ndev.run('aten::a')")
    assert shell.run(f"%neuron report --save {tmp_path}/s.json --html {tmp_path}/s.html").success
    assert json.loads((tmp_path / "s.json").read_text())["cells"][0]["label"] == "In[1]"
    assert (tmp_path / "s.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%neuron report", "UsageError: nothing was profiled yet"),
        ("%neuron report --nope", "unrecognized arguments: --nope"),
        ("x = 0\n%neuron profile -q x\n%neuron report --save .", "FileProblem: cannot write"),
    ],
)
def test_mistakes_are_one_line(shell: Shell, line: str, message: str) -> None:
    assert not shell.run(line).success
    (error,) = shell.errors
    assert message in error
    assert "\n" not in error
