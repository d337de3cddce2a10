"""`%%neuron profile` leaves the user's program as it is, and always reports."""

from __future__ import annotations

from typing import Any

import pytest

from tests.shell.conftest import Shell

# What peer magics break; each is a cell that has to behave as if the header were not there.
UNTOUCHED = {
    "names are kept": ("x = 1\ny = 2\n(x, y)", (1, 2)),
    "value of the last expression": ("x = 41\nx + 1", 42),
    "value of a single expression": ("6 * 7", 42),
    "no value after a statement": ("x = 1", None),
    "top-level await": ("import asyncio\nawait asyncio.sleep(0)\nawait asyncio.sleep(0, 'woke')", "woke"),
    "multi-line string": ("text = '''one\n  two\n%three\n'''\ntext", "one\n  two\n%three\n"),
    "future import first": ("from __future__ import annotations\nx: undefined = 1\nx", 1),
    "future import after a docstring": ("'doc'\nfrom __future__ import annotations\n5", 5),
    "line magic": ("%cd -q .\n7", 7),
    "shell line": ("out = !echo hi\nlist(out)", ["hi"]),
    "function defined in the cell": ("def f(n):\n    return n + 1\nf(1)", 2),
    "walrus": ("(n := 3)\nn", 3),
    "comment first": ("# a comment\n\n4", 4),
    "class and loop": ("class A:\n    b = 1\ntotal = 0\nfor i in range(3):\n    total += A.b\ntotal", 3),
    "blank lines around": ("\n\n9\n\n", 9),
    "star import": ("from math import *\nsqrt(4)", 2.0),
    "global statement": ("q = 1\nglobal q\nq", 1),
    "indented as a whole": ("    q = 4\n    if q:\n        q += 1\n    q", 5),
}


@pytest.mark.parametrize(("body", "value"), UNTOUCHED.values(), ids=UNTOUCHED.keys())
def test_program_is_untouched(shell: Shell, body: str, value: object) -> None:
    result = shell.run(f"%%neuron profile\n{body}")
    assert shell.errors == []
    assert result.success
    assert result.result == value
    assert len(shell.reports) == 1


@pytest.mark.parametrize(
    "body", ["", "\n", "# nothing but a comment", "   \n# two\n"], ids=["none", "blank", "comment", "both"]
)
def test_empty_cell_reports_nothing_ran(shell: Shell, body: str) -> None:
    result = shell.run(f"%%neuron profile\n{body}")
    assert result.success
    assert "no op ran on the device" in shell.reports[0]


def test_out_and_underscore_are_kept(shell: Shell) -> None:
    shell.run("%%neuron profile\n'kept'")
    assert shell.ip.user_ns["_"] == "kept"
    assert shell.ip.user_ns["Out"][1] == "kept"


def test_semicolon_hides_the_value(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run("%%neuron profile\n'hidden';")
    assert "hidden" not in capsys.readouterr().out


def test_namespace_has_only_the_users_names(shell: Shell) -> None:
    before = set(shell.ip.user_ns)
    shell.run("%%neuron profile\nmine = 1\nmine")
    added = {name for name in set(shell.ip.user_ns) - before if not name.startswith("_")}
    assert added == {"mine"}


def test_value_is_not_held(shell: Shell) -> None:
    import weakref

    shell.run("class Big: pass")
    shell.run("%%neuron profile\nBig();")
    shell.run("import gc, weakref\nbig = Big()\nref = weakref.ref(big)")
    shell.run("%%neuron profile\nbig;")
    shell.run("del big")
    shell.ip.displayhook.flush()
    shell.run("gc.collect();")
    reference = shell.ip.user_ns["ref"]
    assert isinstance(reference, weakref.ref)
    assert reference() is None


def test_ops_of_the_cell_are_reported(shell: Shell) -> None:
    shell.run("%%neuron profile\nfor _ in range(3):\n    dev.run('aten::addmm', device_ms=2)")
    assert shell.profile.summary.op_calls == 3
    assert shell.profile.summary.label == "In[1]"
    assert "aten::addmm" in shell.reports[0]


def test_displaying_the_value_is_not_measured(shell: Shell) -> None:
    shell.run(
        "class Shows:\n    def __repr__(self):\n        dev.run('aten::copy_', device_ms=100)\n        return 'shown'"
    )
    result = shell.run("%%neuron profile\ndev.run('aten::add.Tensor', device_ms=2)\nShows()")
    assert result.success
    assert shell.profile.summary.wall_s == pytest.approx(0.002)
    assert shell.profile.summary.op_calls == 1


def test_exception_fails_the_cell_with_the_users_traceback(shell: Shell) -> None:
    result = shell.run("%%neuron profile\nx = 1\n\ndev.run('aten::addmm')\n1/0\nx = 2")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert shell.ip.user_ns["x"] == 1
    (traceback,) = shell.errors
    assert "----> 5 1/0" in traceback
    assert "Cell In[1], line 5" in traceback
    assert "neuron_magics" not in traceback
    assert "PARTIAL: stopped by ZeroDivisionError" in shell.reports[0]
    assert "aten::addmm" in shell.reports[0]


def test_exception_in_the_last_expression(shell: Shell) -> None:
    shell.run("%%neuron profile\ndef f():\n    return 1/0\nf()")
    (traceback,) = shell.errors
    assert "----> 4 f()" in traceback
    assert "line 3, in f()" in traceback
    assert "neuron_magics" not in traceback


def test_header_is_readable_in_a_traceback(shell: Shell) -> None:
    shell.run("%%neuron profile --top 3\n1/0")
    assert "%%neuron profile --top 3" in shell.errors[0]


@pytest.mark.filterwarnings("ignore:To exit:UserWarning")  # IPython's advice after SystemExit
@pytest.mark.parametrize("name", ["KeyboardInterrupt", "SystemExit", "GeneratorExit"])
def test_other_endings_are_partial_too(shell: Shell, name: str) -> None:
    result = shell.run(f"%%neuron profile\ndev.run('aten::addmm')\nraise {name}")
    assert type(result.error_in_exec).__name__ == name
    assert shell.profile.summary.error == name
    assert f"PARTIAL: stopped by {name}" in shell.reports[0]


def test_traceback_printing_is_not_measured(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    table = shell.ip.InteractiveTB
    original = table.structured_traceback

    def slow(*args: Any, **kwargs: Any) -> Any:
        shell.device.clock.advance(136)
        return original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(table, "structured_traceback", slow)
        shell.run("%%neuron profile\ndev.run('aten::addmm', device_ms=2)\n1/0\nx = 1")
    assert shell.profile.summary.wall_s == pytest.approx(0.002)


def test_syntax_error_never_starts_a_profile(shell: Shell) -> None:
    result = shell.run("%%neuron profile\nx = = 1")
    assert isinstance(result.error_before_exec, SyntaxError)
    assert shell.reports == []
    assert shell.device.sessions == []
    assert shell.run("1 + 1").result == 2
    assert shell.reports == []


def test_error_that_only_the_compiler_finds(shell: Shell) -> None:
    result = shell.run("%%neuron profile\ndev.run('aten::addmm')\nreturn 1")
    assert not result.success
    assert shell.profile.summary.error == "SyntaxError"
    assert shell.profile.summary.op_calls == 1


def test_late_future_import_stays_where_it_is(shell: Shell) -> None:
    assert shell.run("%%neuron profile\nx = 1\nfrom __future__ import annotations\nx").result == 1


def test_nested_cell_does_not_end_the_profile(shell: Shell) -> None:
    shell.run(
        "%%neuron profile\ndev.run('aten::a')\nget_ipython().run_cell('dev.run(\"aten::b\")')\ndev.run('aten::c')"
    )
    assert [row.op for row in shell.profile.report.op_rows] == ["aten::a", "aten::b", "aten::c"]


def test_profiled_cell_inside_a_profiled_cell(shell: Shell) -> None:
    inner = "%%neuron profile -o inner\\ndev.run('aten::b')"
    shell.run(f'%%neuron profile -o outer\ndev.run("aten::a")\nget_ipython().run_cell("{inner}")\ndev.run("aten::c")')
    assert [row.op for row in shell.ip.user_ns["inner"].report.op_rows] == ["aten::b"]
    assert [row.op for row in shell.ip.user_ns["outer"].report.op_rows] == ["aten::a", "aten::b", "aten::c"]


def test_nested_empty_cell_is_ignored(shell: Shell) -> None:
    shell.run("%%neuron profile\nget_ipython().run_cell('')\ndev.run('aten::a')")
    assert shell.profile.summary.op_calls == 1


def test_silent_cell_is_not_profiled(shell: Shell) -> None:
    assert shell.ip.run_cell("%%neuron profile\nx = 5", silent=True).success
    assert shell.ip.user_ns["x"] == 5
    assert shell.reports == []


def test_two_profiled_cells_have_a_report_each(shell: Shell) -> None:
    for op in ("aten::a", "aten::b"):
        shell.run(f"%%neuron profile\ndev.run('{op}')")
    assert ["aten::a" in text for text in shell.reports] == [True, False]


def test_time_above(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    result = shell.run("%%time\n%%neuron profile\nfrom __future__ import annotations\ndev.run('aten::a')\n'value'")
    assert result.result == "value"
    assert "Wall time" in capsys.readouterr().out
    assert shell.profile.summary.op_calls == 1


def test_time_above_with_a_docstring_and_a_future_import(shell: Shell) -> None:
    result = shell.run("%%time\n%%neuron profile\n'doc'\nfrom __future__ import annotations\ndev.run('aten::a')\n1")
    assert result.result == 1
    assert shell.profile.summary.op_calls == 1


def test_time_below(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    result = shell.run("%%neuron profile\n%%time\ndev.run('aten::a')\n'value'")
    assert result.result == "value"
    assert "Wall time" in capsys.readouterr().out
    assert shell.profile.summary.op_calls == 1


def test_time_below_with_an_error(shell: Shell) -> None:
    result = shell.run("%%neuron profile\n\n%%time\ndev.run('aten::a')\n1/0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert shell.profile.summary.error == "ZeroDivisionError"


def test_unknown_magic_below(shell: Shell) -> None:
    result = shell.run("%%neuron profile\n%%nothing_like_it\nx")
    assert not result.success
    assert "nothing_like_it" in shell.errors[0]


def test_capture_above(shell: Shell) -> None:
    shell.run("%%capture caught\n%%neuron profile\ndev.run('aten::a')\nprint('said')")
    caught = shell.ip.user_ns["caught"]
    assert caught.stdout == "said\n"
    assert shell.profile.summary.op_calls == 1
    assert "aten::a" in caught.outputs[0].data["text/plain"]


def test_magic_above_that_leaves_our_calls_out_fails_the_cell(shell: Shell) -> None:
    for options in ("", " --fail-over neffs=0"):
        result = shell.run(f"%%prun -q\n%%neuron profile{options}\ndev.run('aten::a', compile_ms=(1, 1, 1))")
        assert not result.success
        assert shell.errors == [
            "UsageProblem: nothing was recorded: the magic above `%%neuron profile` ran the cell in its own way; "
            "put `%%neuron profile` on the first line, above the other magic"
        ]
        shell.errors.clear()
    assert shell.run("%%prun -q\n%%neuron profile\n1/0").error_in_exec.__class__ is ZeroDivisionError
    assert "nothing was recorded" not in shell.errors[0]


def test_magic_above_that_only_takes_the_text_is_not_to_blame(shell: Shell) -> None:
    assert shell.run("%%html\n%%neuron profile\nx").success
    assert shell.run("%%capture\nget_ipython().run_cell('%%neuron profile\\n1')").success
    assert len(shell.ip.user_ns["_oh"]) == 0


def test_magic_above_that_repeats_the_cell_is_told(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run("%%timeit -n 2 -r 3\n%%neuron profile\ndev.run('aten::a')")
    assert shell.profile.summary.op_calls == 1
    assert "the cell ran 6 times and the report tells of the first; to have all in it" in capsys.readouterr().err
    shell.run("%%neuron profile\n%%timeit -n 2 -r 3\ndev.run('aten::a')")
    assert shell.profile.summary.op_calls == 6
    assert capsys.readouterr().err == ""


def test_interactivity_of_the_users_choice(shell: Shell) -> None:
    shell.ip.ast_node_interactivity = "last_expr_or_assign"
    result = shell.run("%%neuron profile\ndev.run('aten::a')\nx = 8")
    assert result.result == 8
    assert shell.profile.summary.op_calls == 1


def test_input_is_complete_after_a_blank_line_only(shell: Shell) -> None:
    assert shell.ip.check_complete("%%neuron profile")[0] == "incomplete"
    assert shell.ip.check_complete("%%neuron profile\nx = 1\n\n")[0] == "complete"


def test_transforming_has_no_effect(shell: Shell) -> None:
    cell = "%%neuron profile --top 3\nx = 1\ny = 2\n"
    once = shell.ip.transform_cell(cell)
    assert once == shell.ip.transform_cell(cell)
    assert once.count("\n") == cell.count("\n")
    assert shell.device.sessions == []


def test_ordinary_string_is_no_header(shell: Shell) -> None:
    assert shell.run("'%%neuron profiles'\n1").result == 1
    assert shell.reports == []


def test_unloading_inside_a_profiled_cell(shell: Shell) -> None:
    assert shell.run("%%neuron profile\n%unload_ext neuron_lab\n3").result == 3
    assert shell.device.sessions == []
    shell.run("%load_ext neuron_lab")


def test_lines_carry_the_cells_own_numbers_and_text(shell: Shell) -> None:
    shell.run("def helper():\n    dev.run('aten::helper', device_ms=2)")
    shell.run("%%neuron profile -o kept\nx = 1\nif x:\n    dev.run('aten::own', compile_ms=(1, 1, 1))\nhelper()")
    lines = shell.profile.lines
    assert lines.place.tolist() == ["In[2]", "In[1]"]
    assert lines.line.tolist() == [4, 2]
    assert lines.source.tolist() == [
        "    dev.run('aten::own', compile_ms=(1, 1, 1))",
        "    dev.run('aten::helper', device_ms=2)",
    ]
    assert "1 NEFF · 3.00 ms" in shell.reports[0]
    assert lines.neffs_compiled.tolist() == [1, 0]


def test_lines_have_magics_as_they_were_written(shell: Shell) -> None:
    shell.run(
        "%%neuron profile\n%time dev.run('aten::a')\nif 1:\n    y = %time dev.run('aten::b')\n"
        "get_ipython().run_line_magic(*['time', 'dev.run(\"aten::c\")'])"
    )
    assert shell.profile.lines.source.tolist() == [
        "%time dev.run('aten::a')",
        "    y = %time dev.run('aten::b')",
        "get_ipython().run_line_magic(*['time', 'dev.run(\"aten::c\")'])",
    ]
    shell.run("%%neuron profile\n%%timeit -n 1 -r 1\ndev.run('aten::a')")
    assert shell.profile.lines.source.tolist() == ["%%timeit -n 1 -r 1"]
