"""Options of `profile`, in a cell and on a line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import neuron_lab
from neuron_lab import BudgetExceeded, FileProblem, Profile
from tests.shell.conftest import Shell

WRONG = {
    "--nope": "unrecognized arguments: --nope; `",
    "--topp 3": "unrecognized arguments: --topp 3; did you mean --top?",
    "--top": "expected one argument",
    "--top none": "invalid int value",
    "--top 0": "top is 0",
    "--sort colour": "invalid choice: 'colour'",
    "--min-ms -1": "min_ms is -1.0; a duration is 0 or more",
    "--min-ms nan": "min_ms is nan; a duration is 0 or more",
    "-o 1x": "not a name a variable can have",
    "-o class": "not a name a variable can have",
    "--fail-over cost=1": "no budget is called 'cost'",
    "--fail-over ms=fast": "not a number",
    "--sort 'calls": "no closing quotation",
    "net(x)": "unrecognized arguments: net(x)",
    "--to 3": "unrecognized arguments",
    "-q --compare earlier": "-q shows nothing, so --compare has nothing to show",
    "--by neff --sort fallback": "cannot sort NEFFs by 'fallback'",
}


@pytest.mark.parametrize(("options", "message"), WRONG.items(), ids=WRONG.keys())
@pytest.mark.parametrize("body", ["touched = True", ""], ids=["body", "empty"])
def test_mistake_is_one_line_and_the_body_does_not_run(shell: Shell, options: str, message: str, body: str) -> None:
    result = shell.run(f"%%neuron profile {options}\n{body}")
    assert not result.success
    (error,) = shell.errors
    assert error.startswith("UsageError: ")
    assert message in error
    assert "\n" not in error
    assert "touched" not in shell.ip.user_ns
    assert shell.reports == []


def test_variable_gets_the_result(shell: Shell) -> None:
    shell.run("%%neuron profile -o kept\ndev.run('aten::a')")
    assert isinstance(shell.ip.user_ns["kept"], Profile)
    assert shell.ip.user_ns["kept"] is shell.profile


def test_variable_gets_a_partial_result(shell: Shell) -> None:
    shell.run("%%neuron profile -o kept\n1/0")
    assert shell.ip.user_ns["kept"].summary.partial


def test_quiet_shows_nothing(shell: Shell) -> None:
    shell.run("%%neuron profile -q\ndev.run('aten::a')")
    assert shell.shown == []
    assert shell.profile.summary.op_calls == 1


def test_top_sort_and_min_ms(shell: Shell) -> None:
    body = "dev.run('aten::slow', device_ms=9)\nfor _ in range(3): dev.run('aten::often', device_ms=1)\ndev.run('aten::tiny', device_ms=.01)"
    shell.run(f"%%neuron profile --top 1\n{body}")
    shell.run(f"%%neuron profile --top=1 --sort calls\n{body}")
    shell.run(f"%%neuron profile --min-ms 0.5\n{body}")
    assert [[f"aten::{op} " in text for op in ("slow", "often", "tiny")] for text in shell.reports] == [
        [True, False, False],
        [False, True, False],
        [True, True, False],
    ]
    assert "… 2 more" in shell.reports[0]


def test_by_module(shell: Shell) -> None:
    shell.run(
        "%%neuron profile --by module\ndev.within('Net.head').run('aten::a', device_ms=2)\ndev.within(None, 'backward').run('aten::b')"
    )
    (text,) = shell.reports
    assert "\nNet.head  " in text and "\n(no module) " in text and "\naten::a" not in text
    assert shell.profile.modules.phase.tolist() == ["forward", "backward"]


def test_budget_that_holds(shell: Shell) -> None:
    result = shell.run(
        "%%neuron profile --fail-over 'neffs=1, fallbacks=0, ms=5'\ndev.run('aten::a', compile_ms=(1, 1, 1))\n'fine'"
    )
    assert result.success
    assert result.result == "fine"


@pytest.mark.parametrize(("options", "passes"), [("", True), ("--fail-over neffs=9", False), ("--save p.json", False)])
def test_report_that_fails_lets_no_gate_open(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: str, passes: bool
) -> None:
    def show(self: Profile) -> None:
        raise RuntimeError("no report")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Profile, "show", show)
    assert shell.run(f"%%neuron profile {options}\ndev.run('aten::a')\n'fine'").success == passes
    assert any("no report" in error for error in shell.errors)


def test_budget_that_breaks_fails_the_cell_after_the_report(shell: Shell) -> None:
    body = "dev.run('aten::a', compile_ms=(1, 1, 1))\ndev.fall_back('aten::b', 3, 'no kernel')"
    result = shell.run(f"%%neuron profile --fail-over neffs=0,fallbacks=0,ms=50\n{body}")
    assert isinstance(result.error_in_exec, BudgetExceeded)
    assert shell.errors == [
        "BudgetExceeded: 1 NEFF compiled, budget 0: aten::a(float32[8, 4]) at In[1] line 2; "
        "1 CPU fallback, budget 0: aten::b 1× at In[1] line 3"
    ]
    assert len(shell.reports) == 1


def test_budget_does_not_hide_the_users_error(shell: Shell) -> None:
    result = shell.run("%%neuron profile --fail-over fallbacks=0\ndev.fall_back('aten::b', 3, 'no kernel')\n1/0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert len(shell.errors) == 1


def test_statement_on_a_line(shell: Shell) -> None:
    result = shell.run("%neuron profile --top 5 -o kept dev.run('aten::a', device_ms=2) or 'value'")
    assert result.result == "value"
    assert shell.ip.user_ns["kept"].summary.op_calls == 1
    assert shell.reports


def test_statement_keeps_quotes_braces_and_dollars(shell: Shell) -> None:
    assert shell.run("%neuron profile -q '$x' + \"{y}\" + '  --top'").result == "$x{y}  --top"


def test_statement_after_two_dashes(shell: Shell) -> None:
    assert shell.run("%neuron profile -q -- -1 + 3").result == 2


def test_statement_in_a_function_sees_its_locals(shell: Shell) -> None:
    shell.run(
        "def f(inner):\n    %neuron profile -q result = inner + 1\n    return get_ipython().run_line_magic('neuron', 'profile -q inner * 2')"
    )
    assert shell.run("f(4)").result == 8


def test_scopes_inside_a_statement_in_a_function_see_its_locals(shell: Shell) -> None:
    shell.run("def f(n):\n    value = %neuron profile -q [n + k for k in range(n)]\n    return value")
    assert shell.run("f(2)").result == [2, 3]
    shell.run("class A:\n    n = 3\n    %neuron profile -q m = n + 1")
    assert shell.run("A.m").result == 4
    shell.run("%neuron profile -q shared = [1 for _ in range(2)]")
    assert shell.ip.user_ns["shared"] == [1, 1]


def test_statement_with_a_semicolon_shows_no_value(shell: Shell) -> None:
    assert shell.run("%neuron profile -q 5;").result is None


def test_statement_that_fails(shell: Shell) -> None:
    result = shell.run("def broken():\n    return 1/0\n%neuron profile broken()")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "neuron_magics" not in shell.errors[0]
    assert "run_line_magic" not in shell.errors[0]
    assert "return 1/0" in shell.errors[0]
    assert "PARTIAL: stopped by ZeroDivisionError" in shell.reports[0]


@pytest.mark.parametrize(
    ("statement", "message"),
    [("", "what shall be profiled?"), ("x = = 1", "invalid syntax"), ("await f()", "`await` needs `%%neuron profile`")],
)
def test_statement_that_cannot_run(shell: Shell, statement: str, message: str) -> None:
    result = shell.run(f"%neuron profile {statement}")
    assert not result.success
    assert message in shell.errors[0]
    assert shell.errors[0].startswith("UsageError: ")
    assert shell.reports == []


def test_statement_over_budget(shell: Shell) -> None:
    result = shell.run("%neuron profile --fail-over ms=1 dev.run('aten::a', device_ms=2)")
    assert isinstance(result.error_in_exec, BudgetExceeded)
    assert shell.errors == ["BudgetExceeded: 2.0 ms, budget 1 ms"]


def test_save_writes_what_load_reads(shell: Shell, tmp_path: Path) -> None:
    shell.run(f"%%neuron profile -q --save '{tmp_path}/a b.json'\ndev.run('aten::a')")
    assert neuron_lab.load(tmp_path / "a b.json").recording == shell.profile.recording
    shell.run(f"%neuron profile -q --save {tmp_path}/line.json dev.run('aten::b')")
    assert neuron_lab.load(tmp_path / "line.json").ops.op.tolist() == ["aten::b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--save no/such/file.json", "there is no directory"),
        ("--save .", "it is a directory"),
        ("--compare nothing", "nothing is neither a variable that holds a profile nor a saved file"),
        ("--compare dev", "dev is neither a variable that holds a profile nor a saved file"),
        ("--compare no.json", "no such file"),
        ("--compare .", "it is a directory"),
    ],
)
def test_file_that_cannot_be_is_told_before_the_body_runs(shell: Shell, options: str, message: str) -> None:
    assert not shell.run(f"%%neuron profile {options}\ntouched = True").success
    assert not shell.run(f"%neuron profile {options} dev.run('aten::a')").success
    assert len(shell.errors) == 2
    for error in shell.errors:
        assert error.startswith(("FileProblem: ", "UsageError: "))
        assert message in error
        assert "\n" not in error
    assert "touched" not in shell.ip.user_ns
    assert shell.reports == []


def test_disk_that_fills_fails_the_cell_but_not_instead_of_its_own_error(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    result = shell.run(f"%%neuron profile --save {tmp_path}/a.json\ndev.run('aten::a')")
    assert isinstance(result.error_in_exec, FileProblem)
    assert len(shell.reports) == 1
    result = shell.run(f"%%neuron profile --save {tmp_path}/a.json\n1/0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "not saved: cannot write" in capsys.readouterr().err


def test_partial_result_is_saved(shell: Shell, tmp_path: Path) -> None:
    shell.run(f"%%neuron profile -q --save {tmp_path}/a.json\ndev.run('aten::a')\n1/0")
    assert neuron_lab.load(tmp_path / "a.json").summary.error == "ZeroDivisionError"


def test_compare_with_a_variable_and_with_a_file(shell: Shell, tmp_path: Path) -> None:
    shell.run(f"%%neuron profile -q -o first --save {tmp_path}/a.json\ndev.run('aten::a', device_ms=2)")
    for name in ("first", f"{tmp_path}/a.json"):
        shell.run(f"%%neuron profile --compare {name}\ndev.run('aten::a', device_ms=3)")
    one, two = (text for text in shell.reports if "→" in text.splitlines()[0])
    assert one.splitlines()[0] == "In[1] → In[2]  emulated trn2.3xlarge"
    assert two.splitlines()[0] == "In[1] → In[3]  emulated trn2.3xlarge · loaded from a.json"
    assert "2.00 ms → 3.00 ms" in one
    assert len(shell.reports) == 4


def test_variable_may_be_the_one_that_is_set_anew(shell: Shell) -> None:
    shell.run("%%neuron profile -q -o p\ndev.run('aten::a')")
    shell.run("%%neuron profile -o p --compare p\ndev.run('aten::a')")
    assert shell.reports[1].startswith("In[1] → In[2]")


def test_called_as_a_function(shell: Shell) -> None:
    assert shell.ip.run_cell_magic("neuron", "profile -o kept", "dev.run('aten::a')\n'value'") == "value"
    assert shell.ip.user_ns["kept"].summary.op_calls == 1


def test_error_when_called_as_a_function(shell: Shell) -> None:
    shell.run("get_ipython().run_cell_magic('neuron', 'profile', 'x = 1\\n1/0')")
    assert "neuron_magics" not in shell.errors[0]
    assert "1/0" in shell.errors[0]


@pytest.mark.parametrize("head", ["%%%%neuron profile %s\n", "%%neuron profile %s "])
def test_a_path_holds_variables_as_elsewhere_in_ipython(shell: Shell, tmp_path: Path, head: str) -> None:
    shell.ip.user_ns.update(text="a b", folder=tmp_path)
    shell.run(head % "-q --save {folder}/{text}.json" + "dev.run('aten::a')")
    shell.run(head % "--compare $folder/{text}.json" + "dev.run('aten::a')")
    shell.run("%neuron report --save '{folder}/{text}' --html $folder/{text[0]}{{}}.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a b", "a b.json", "a{}.html"]
    assert shell.errors == []


@pytest.mark.parametrize("path", ["{nothing}", "{", "{1/0}"])
def test_a_path_that_cannot_be_read_is_no_file(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in (f"%%neuron profile --save '{path}'\ntouched = 1", f"%neuron neff '{path}'"):
        shell.run(line)
        assert shell.errors.pop().startswith(f"UsageError: cannot read {path!r}: ")
    assert list(tmp_path.iterdir()) == [] and "touched" not in shell.ip.user_ns


def test_an_empty_path_is_not_the_directory(shell: Shell) -> None:
    shell.run("%%neuron profile --save ''\ntouched = 1")
    assert shell.errors == ["FileProblem: '' is not a path of a file: it is empty"]
