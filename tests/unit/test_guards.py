"""Dynamo's words for a guard that failed, as a person says it."""

from __future__ import annotations

import pytest

from neuron_lab.recording import GraphCompile
from neuron_lab.report import guard_failure


def failed(reason: str, failure: str = "") -> str:
    return guard_failure(GraphCompile("0/1", "f", "/a.py", 1, None, 0, 0, reason, failure)).text


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
    assert failed("", "Unsupported: a thing\nmore") == "not compiled: Unsupported: a thing"
    assert failed("0/0: n == 1", "Unsupported: a") == "n == 1 no longer holds; not compiled: Unsupported: a"
