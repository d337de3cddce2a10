"""Signatures read back, and what differs between two."""

from __future__ import annotations

import pytest

import neuron_lab
from neuron_lab.errors import UsageProblem
from neuron_lab.recording import Environment, Recorder, Surroundings
from neuron_lab.render import recompiles_html, recompiles_text
from neuron_lab.report import Report
from neuron_lab.report._recompiles import compare
from neuron_lab.report._signature import Number, Static, Tensor, parse
from tests.fakes.device import FakeDevice

TAIL = " default=float32"


def test_only_a_profile_has_some() -> None:
    with pytest.raises(UsageProblem, match="those of a profile, not of a int"):
        neuron_lab.recompiles(3)  # type: ignore[arg-type]


def test_parse() -> None:
    text = "aten::f.x(float32[8, 3]{1, 0}, [float32[2], int64[]], int64~, float64#, alpha=1, mode='a, b', [True, False]) default=float32"
    found = parse(text)
    assert (found.op, found.default) == ("aten::f.x", "float32")
    assert dict(found.arguments) == {
        "input 0": Tensor("float32", (8, 3), "{1, 0}"),
        "input 1[0]": Tensor("float32", (2,)),
        "input 1[1]": Tensor("int64", ()),
        "argument 2": Number("int64"),
        "argument 3": Number("float64"),
        "alpha": Static("1"),
        "mode": Static("'a, b'"),
        "argument 6": Static("[True, False]"),
    }


@pytest.mark.parametrize("text", ["", "nonsense", "f(", ")(", "a(b[c, {)", "aten::f() default=", "f(x=, ,)"])
def test_parse_never_fails(text: str) -> None:
    assert isinstance(parse(text).op, str)


@pytest.mark.parametrize(
    ("old", "new", "texts"),
    [
        ("f(float32[64, 8])", "f(float32[37, 8])", ["dim 0 of input 0: 64 → 37"]),
        ("f(float32[64, 8], float32[64, 4])", "f(float32[37, 8], float32[37, 4])", ["dim 0 of input 0 and input 1: 64 → 37"]),
        ("f(float32[4, 9, 9])", "f(float32[4, 10, 10])", ["dim 1 of input 0: 9 → 10"]),
        ("f(float32[4])", "f(bfloat16[4])", ["dtype of input 0: float32 → bfloat16"]),
        ("f(int64#)", "f(float64#)", ["dtype of argument 0: int64 → float64"]),
        ("f(float32[4, 2])", "f(float32[4, 2]{1, 0})", ["layout of input 0: contiguous → {1, 0}"]),
        ("f(float32[4], [1])", "f(float32[4], [2])", ["argument 1: [1] → [2]"]),
        ("f(float32[4])", "f(float32[4, 1])", ["rank of input 0: [4] → [4, 1]"]),
        ("f(float32[4])", "f(float32[4], dim=1)", ["arguments: – → dim"]),
        ("f(float32[4], dim=1)", "f(float32[4], keepdim=True)", ["arguments: dim → keepdim"]),
        ("f(float32[4], float32[4])", "f(float32[4], int64~)", ["argument 1: float32[4] → int64 number"]),
        ("f(float32[4], None)", "f(float32[4], float32[4]{})", ["input 1: None → float32[4]{}"]),
        ("f([float32[4]])", "f([float32[4], float32[4]])", ["arguments: – → input 0[1]"]),
        ("f(float32[8, 64], float32[64, 64])", "f(float32[8, 128], float32[10, 128])", ["dim 1 of input 0 and input 1: 64 → 128", "dim 0 of input 1: 64 → 10"]),
        ("f(float32[4])", "f(float32[4])", []),
    ],
)  # fmt: skip
def test_compare(old: str, new: str, texts: list[str]) -> None:
    assert [str(change) for change in compare(parse(old + TAIL), parse(new + TAIL))] == texts


def made(device: FakeDevice, sizes: str) -> None:
    device.run("aten::mm", compile_ms=(1, 2, 7), neff=sizes, signature=f"aten::mm(float32[{sizes}]){TAIL}")


def test_each_compile_has_its_nearest_signature_and_a_fix() -> None:
    device = FakeDevice()
    around = Surroundings(history=lambda: device.history)
    made(device, "64, 8")
    span = Recorder(device.hook(), Environment("emulated", True), surroundings=around, clock=device.clock)
    span.start()
    device.at(5, file="/p/train.py")
    made(device, "37, 8")
    made(device, "37, 9")
    device.run("aten::other", compile_ms=(1, 1, 1), signature=f"aten::other(float32[1]){TAIL}")
    frame = Report(span.finish()).recompiles
    assert frame.changed.tolist() == [
        "dim 0 of input 0: 64 → 37",
        "dim 1 of input 0: 8 → 9",
        "first compile of this op",
    ]
    assert frame.nearest.tolist() == ["aten::mm(float32[64, 8])", "aten::mm(float32[37, 8])", ""]
    assert frame.met.tolist() == ["earlier", "here", ""]
    assert frame["where"].tolist() == ["train.py line 5"] * 3
    assert frame.cost_s.tolist() == pytest.approx([0.010, 0.010, 0.003])
    assert "drop_last" in frame.fix[0]
    assert "static cache" in frame.fix[1]


def test_a_change_of_many_dimensions_goes_on_in_a_second_line() -> None:
    device = FakeDevice()
    span = Recorder(device.hook(), Environment("emulated", True), clock=device.clock)
    span.start()
    for rows, inner, columns in ((1, 10, 1), (64, 784, 256)):
        signature = f"aten::linear(float32[{rows}, {inner}], float32[{columns}, {inner}], float32[{columns}]){TAIL}"
        device.run("aten::linear", compile_ms=(1, 2, 7), neff=str(rows), signature=signature)
    *_, first, second = recompiles_text(Report(span.finish())).splitlines()
    assert " ".join((first + second).split()) == (
        "dim 0 of input 0: 1 → 64; dim 1 of input 0 and input 1: 10 → 784; dim 0 of input 1 and input 2: 1 → 256"
    )


def test_what_a_loop_makes_again_is_one_entry_and_the_dearest_is_first() -> None:
    device = FakeDevice()
    span = Recorder(device.hook(), Environment("emulated", True), label="In[1]", clock=device.clock)
    span.start()
    device.at(5, file="/p/train.py")
    for name, layout in (("plain", ""), ("turned", "{1, 0}")):
        device.run("aten::t", compile_ms=(1, 1, 1), neff=name, signature=f"aten::t(float32[4, 2]{layout}){TAIL}")
    for rows in (64, 37, 21):
        device.at(6, file="/p/train.py")
        made(device, f"{rows}, 8")
    report = Report(span.finish())
    assert recompiles_text(report).splitlines() == [
        "In[1]: 3 NEFFs for another signature of an op in 23.0 ms, 2 NEFFs for an op's first in 13.0 ms",
        "",
        "aten::mm · train.py line 6 · 2 NEFFs · 20.0 ms",
        "    dim 0 of input 0: 64 → 37 → 21",
        "    a smaller batch: pad it, or drop_last=True if it is a loader's last",
        "",
        "aten::t · train.py line 5 · 3.00 ms",
        "    layout of input 0: contiguous → {1, 0}",  # once: no fix, it may well be another layer
    ]
    assert "64 → 37 → 21" in recompiles_html(report)


def test_what_is_left_out_is_counted_with_its_cost() -> None:
    device = FakeDevice()
    span = Recorder(device.hook(), Environment("emulated", True), clock=device.clock)
    span.start()
    for line in range(1, 21):
        device.at(line, file="/p/train.py")
        made(device, f"{line}, 8")
    assert recompiles_text(Report(span.finish())).splitlines()[-1] == "… 7 more NEFFs (70.0 ms), see .recompiles"


@pytest.mark.parametrize(
    "text", ["f([" * 5000 + "float32[1]" + "])" * 5000, f"f(float32[{'9' * 5000}])", "f(float32[1 2])"]
)
def test_text_that_is_no_signature_is_read_all_the_same(text: str) -> None:
    assert parse(text).tensors == ()
