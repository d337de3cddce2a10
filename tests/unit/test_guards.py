"""Dynamo's words for a guard that failed, as a person says it."""

from __future__ import annotations

import pytest

from neuron_lab.device._graphs import _all_reasons
from neuron_lab.recording import GraphCompile
from neuron_lab.report import guard_failure


def failed(*reasons: str, failure: str = "") -> str:
    return guard_failure(GraphCompile("0/1", "f", "/a.py", 1, None, 0, 0, tuple(filter(None, reasons)), failure)).text


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("", ""),
        ("0/0: tensor 'x' size mismatch at index 1. expected 64, actual 37", "dim 1 of x: 64 → 37"),
        ("0/0: tensor 'args[0]' dtype mismatch. expected Long, actual BFloat16", "dtype of args[0]: int64 → bfloat16"),
        ("0/3: tensor 'x' stride mismatch at index 0. expected 4, actual 1", "stride of x: 4 → 1"),
        ("0/0: tensor 'x' requires_grad mismatch. expected requires_grad=1", "requires_grad of x: True → False"),
        ("0/0: tensor 'x' requires_grad mismatch. expected requires_grad=0", "requires_grad of x: False → True"),
        ("2/0: flag == True       # def h(x):  # a.py:1 in h\nUser stack trace:\n  x", "flag == True no longer holds"),
        ("2/0: G['K'] == 2   # y", "global K == 2 no longer holds"),
        ("2/0: G['a'].b == 2   # y", "global a.b == 2 no longer holds"),
        ("2/1: GLOBAL_STATE changed: grad_mode ", "grad mode changed"),
        ("2/1: ___check_type_id(x, 1)  # z", "___check_type_id(x, 1)"),
        ("Unable to find recompilation reasons", "Unable to find recompilation reasons"),
        ("0/0: tensor 'x' something new", "tensor 'x' something new"),
        ("0/0: name == 'a # b'", "name == 'a # b' no longer holds"),
    ],
)
def test_reasons(reason: str, text: str) -> None:
    assert failed(reason) == text


def test_a_failure_that_is_no_limit_is_told_too() -> None:
    assert failed(failure="Unsupported: a thing\nmore") == "not compiled: Unsupported: a thing"
    assert failed("0/0: n == 1", failure="Unsupported: a") == "n == 1 no longer holds; not compiled: Unsupported: a"


def test_another_guard_of_an_earlier_compile_is_told_too() -> None:
    size = "tensor 'x' size mismatch at index 0. expected {}, actual 9"
    assert failed(f"0/1: {size.format(7)}", f"0/0: {size.format(8)}") == "dim 0 of x: 7 → 9"
    assert (
        failed(f"0/1: {size.format(7)}", "0/0: n == 2  # a")
        == "dim 0 of x: 7 → 9; against compile 0/0: n == 2 no longer holds"
    )


class Kept:
    """A record of Dynamo's."""

    def __init__(self, graph: str, reason: str | None) -> None:
        self.compile_id, self.recompile_reason = graph, reason


def test_the_rest_of_a_function_is_called_after_it() -> None:
    titles = [
        GraphCompile("0/1", name, "/a.py", 1, None, 0, 0, (), "").title
        for name in ("forward", "torch_dynamo_resume_in_forward_at_9")
    ]
    assert titles == ["forward", "rest of forward"]


def test_dynamos_list_of_failures_is_cut_into_compiles() -> None:
    frames = [Kept("0/0", None), Kept("0/1", "0/0: a"), Kept("0/2", "0/1: b"), Kept("1/0", None), Kept("1/1", "1/0: x")]
    lists = [["0/0: a", "0/1: b", "0/0: c"], ["1/0: x"], []]
    told = _all_reasons(frames, lists)
    assert [told[id(item)] for item in frames] == [(), ("0/0: a",), ("0/1: b", "0/0: c"), (), ("1/0: x",)]


def test_what_was_before_a_reset_keeps_only_its_own_word() -> None:
    frames = [Kept("0/0", None), Kept("0/1", "0/0: old"), Kept("0/0", None), Kept("0/1", "0/0: new")]
    told = _all_reasons(frames, [["0/0: new"]])
    assert [told[id(item)] for item in frames] == [(), ("0/0: old",), (), ("0/0: new",)]
