"""Findings from invented recordings: what each rule needs, and where it stays silent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from neuron_lab.device import CoreMemory, LateVariable
from neuron_lab.errors import UsageProblem
from neuron_lab.preflight import SNAPSHOT
from neuron_lab.recording import Environment, GraphCompile, Recorder, Surroundings, Where
from neuron_lab.render import explanation_text, report_html, report_text
from neuron_lab.report import EXPLANATIONS, Finding, Findings, Report, View, explanation
from tests.fakes.device import FakeDevice

TAIL = " default=float32"
Program = Callable[[FakeDevice], None]


def found(program: Program, *, reads_clock: bool = False, late: tuple[LateVariable, ...] = ()) -> Findings:
    return reported(program, reads_clock=reads_clock, late=late).findings


def reported(program: Program, *, reads_clock: bool = False, late: tuple[LateVariable, ...] = ()) -> Report:
    device = FakeDevice()
    around = Surroundings(
        history=lambda: device.history,
        memory=lambda: tuple(device.memory),
        late_variables=lambda: late,
        reads_clock=reads_clock,
    )
    span = Recorder(
        device.hook(), Environment("emulated", True), label="In[1]", surroundings=around, clock=device.clock
    )
    span.start()
    program(device.at(4, file="/p/train.py"))
    return Report(span.finish())


def linear(device: FakeDevice, rows: int, width: int = 8, *, cold: bool = True, out: int = 8) -> None:
    name = f"linear{rows}x{width}x{out}"
    signature = f"aten::linear(float32[{rows}, {width}], float32[{out}, {width}], float32[{out}]){TAIL}"
    device.run("aten::linear", compile_ms=(1, 2, 7) if cold else None, neff=name, signature=signature)


def relu(device: FakeDevice, rows: int, width: int = 8, *, cold: bool = True) -> None:
    signature = f"aten::relu(float32[{rows}, {width}]){TAIL}"
    device.run("aten::relu", compile_ms=(1, 2, 7) if cold else None, neff=f"relu{rows}x{width}", signature=signature)


def codes(findings: Findings) -> list[str]:
    return [item.code for item in findings]


def test_last_batch() -> None:
    def program(device: FakeDevice) -> None:
        for step, rows in enumerate((64, 64, 64, 37)):
            linear(device, rows, cold=step in (0, 3))
            relu(device, rows, cold=step in (0, 3))

    assert found(program) == (
        Finding(
            "NRN012",
            "train.py line 4",
            "2 NEFFs compiled again because a size changed: dim 0 of input 0 of aten::linear, 64 → 37",
            20_000_000,
            "a smaller batch: pad it, or drop_last=True if it is a loader's last",
            ("aten::linear", "aten::relu"),
        ),
    )


def test_last_batch_as_large_as_a_layer_is_wide() -> None:
    def program(device: FakeDevice) -> None:
        for step, rows in enumerate((64, 64, 8)):
            linear(device, rows, cold=step != 1)
            relu(device, rows, cold=step != 1)

    assert "64 → 8" in found(program)[0].message


def test_storm_of_sizes() -> None:
    def program(device: FakeDevice) -> None:
        for rows in (20, 31, 77, 54, 12):
            relu(device, rows)

    (finding,) = found(program)
    assert finding.message.endswith("aten::relu, 5 sizes: 20, 31, 77, …")
    assert finding.fix == "pad to one size, or to a few (buckets)"


def test_sequence_that_grows() -> None:
    def program(device: FakeDevice) -> None:
        for length in range(20, 26):
            relu(device, length)

    assert "static cache" in found(program)[0].fix


def test_the_op_that_met_most_sizes_is_named_not_the_dearest_line() -> None:
    def program(device: FakeDevice) -> None:
        for rows in (20, 31, 77):
            relu(device.at(7), rows)
            for width in (1, 2) if rows == 20 else (1,):  # as a backward, whose ops of one line are of many sizes
                signature = f"aten::add_.Tensor(float32[{rows}, {width}]){TAIL}"
                device.at(9).run("aten::add_.Tensor", compile_ms=(1, 2, 700), neff=signature, signature=signature)

    (finding,) = found(program)
    assert finding.where == "train.py line 7 and 1 more line"
    assert finding.message.endswith("dim 0 of input 0 of aten::relu, 3 sizes: 20, 31, 77")


def test_layers_of_several_widths_are_no_recompiles() -> None:
    def program(device: FakeDevice) -> None:
        for width in (16, 32, 64, 128):
            linear(device, 10, width, out=2 * width)
            relu(device, 10, 2 * width)
        for width in (16, 32, 64):
            linear(device, 10, width, out=16)
        linear(device, 10, 256, out=256)
        linear(device, 10, 256, out=3)

    assert found(program) == ()


def test_one_op_of_two_sizes_is_no_recompile() -> None:
    def program(device: FakeDevice) -> None:
        relu(device, 3)
        relu(device, 4)

    assert found(program) == ()


def test_size_that_changed_since_an_earlier_cell() -> None:
    device = FakeDevice()
    linear(device, 32)
    relu(device, 32)
    span = Recorder(
        device.hook(), Environment("e", True), surroundings=Surroundings(history=lambda: device.history), clock=device.clock
    )  # fmt: skip
    span.start()
    linear(device.at(9), 20)
    relu(device, 20)
    (finding,) = Report(span.finish()).findings
    assert (finding.code, finding.where) == ("NRN012", "train.py line 9")


def test_static_argument_with_many_values() -> None:
    def program(device: FakeDevice) -> None:
        for k in (1, 2, 3, 4):
            device.run(
                "aten::topk", compile_ms=(1, 1, 1), neff=f"k{k}", signature=f"aten::topk(float32[8], {k}, -1){TAIL}"
            )

    (finding,) = found(program)
    assert (finding.code, finding.cost_ns) == ("NRN013", 9_000_000)
    assert finding.message == "aten::topk compiled for 3 more values of argument 1: 2, 3, 4"


def test_ranges_of_several_lengths_are_no_finding() -> None:
    def program(device: FakeDevice) -> None:
        for end in (1, 4, 12, 20, 21):
            device.run("aten::arange", compile_ms=(1, 1, 1), neff=f"n{end}", signature=f"aten::arange({end}){TAIL}")

    assert found(program) == ()


@pytest.mark.parametrize(("reads_clock", "expected"), [(True, ["NRN011"]), (False, [])])
def test_cold_timing_only_when_the_cell_takes_the_time(reads_clock: bool, expected: list[str]) -> None:
    assert codes(found(lambda device: linear(device, 8), reads_clock=reads_clock)) == expected


def test_warm_timing_is_fine() -> None:
    assert found(lambda device: linear(device, 8, cold=False), reads_clock=True) == ()


@pytest.mark.parametrize(
    ("calls", "reason", "expected"),
    [
        (4, "no lowering", ["NRN033"]),
        (3, "no lowering", []),
        (9, "random numbers are drawn on the host", []),
        (4, "its result's size depends on the data", ["NRN031"]),
    ],
)
def test_fallback_in_a_loop(calls: int, reason: str, expected: list[str]) -> None:
    def program(device: FakeDevice) -> None:
        for _ in range(calls):
            device.fall_back("aten::svd", 1, reason)

    report = reported(program)
    assert codes(report.findings) == expected
    assert ("aten::svd ran on the CPU" in report_text(report, View()).replace("NRN033", "")) == (expected != ["NRN031"])


@pytest.mark.parametrize(
    ("calls", "nbytes", "ops", "after", "expected"),
    [
        (4, 4, 3, 0, ["NRN041"]),
        (4, 400, 3, 0, ["NRN042"]),
        (3, 4, 3, 0, []),
        (4, 4, 1000, 0, []),
        (1, 4, 3, 20, []),
        (1, 400, 3, 20, []),
    ],
    ids=["item", "cpu", "few", "rare", "items after the loop", "a state_dict after the loop"],
)
def test_waiting_in_a_loop(calls: int, nbytes: int, ops: int, after: int, expected: list[str]) -> None:
    def program(device: FakeDevice) -> None:
        for _ in range(calls):
            for _ in range(ops):
                relu(device, 8, cold=False)
            device.copy("d2h", 1, nbytes)
        for _ in range(after):
            device.copy("d2h", 1, nbytes)

    assert codes(found(program)) == expected


def test_copies_to_the_device_are_how_data_gets_there() -> None:
    def program(device: FakeDevice) -> None:
        for _ in range(20):
            device.copy("h2d", 1, 1000)

    assert found(program) == ()


@pytest.mark.parametrize(
    ("wide", "expected"),
    [
        (None, []),
        ((True, False, 0), []),
        ((True, False, 1), ["an int64 value does not fit 32 bits; the emulator computes all 64, TorchNeuron wraps it"]),
        ((False, True, 0), ["it gets float64; the emulator computes all 64 bits, TorchNeuron float32"]),
        (
            (True, True, 1),
            [
                "it gets float64; the emulator computes all 64 bits, TorchNeuron float32; a value exceeds float32's range"
            ],
        ),
    ],
    ids=["none", "small int64", "large int64", "float64", "large float64"],
)
def test_narrowing(wide: tuple[bool, bool, int] | None, expected: list[str]) -> None:
    findings = found(lambda device: device.run("aten::mul.Tensor", wide=wide))
    assert [item.code for item in findings] == ["NRN021"] * len(expected)
    assert [item.message for item in findings] == [f"aten::mul.Tensor: {text}" for text in expected]


def test_narrowing_on_many_lines_is_one_finding() -> None:
    def program(device: FakeDevice) -> None:
        for line in (3, 3, 4, 5):
            device.at(line).run("aten::mul.Tensor", wide=(True, False, line == 4))

    (finding,) = found(program)
    assert finding.where.endswith("line 4")


def test_memory_near_its_limit_only_when_this_span_went_there() -> None:
    def program(device: FakeDevice) -> None:
        device.memory[:] = [CoreMemory(10, 100, 95), CoreMemory(0, 100, 95)]

    device = FakeDevice(memory=[CoreMemory(0, 100, 5), CoreMemory(0, 100, 95)])
    span = Recorder(
        device.hook(), Environment("e", True), surroundings=Surroundings(memory=lambda: tuple(device.memory)), clock=device.clock
    )  # fmt: skip
    span.start()
    program(device)
    (finding,) = Report(span.finish()).findings
    assert (finding.code, finding.where) == ("NRN051", "neuron:0")


def test_variable_set_too_late() -> None:
    late = (LateVariable("NEURON_RT_NUM_CORES", "1", "the device had started with 4 cores"),)
    (finding,) = found(lambda device: None, late=late)
    assert finding.message == "NEURON_RT_NUM_CORES=1 was set too late: the device had started with 4 cores"


def test_many_tiny_pointwise_neffs() -> None:
    def program(device: FakeDevice) -> None:
        for line in range(10):
            for name in ("mul.Tensor", "exp"):
                device.at(line, file="/p/train.py", function="act").run(
                    f"aten::{name}", neff=f"{name}{line}", device_ms=0.01
                )

    (finding,) = found(program)
    assert (finding.code, finding.message) == (
        "NRN014",
        "act runs 20 pointwise NEFFs of 10 µs each; fused they are one",
    )


SIZES = [f"tensor 'x' size mismatch at index 0. expected {n}, actual {n + 1}" for n in range(9)]
VALUES = [f"k == {n}    # x * k" for n in range(9)]
LIMIT = "FailOnRecompileLimitHit: exceeding the recompile_limit cache size limit (currently set to 8)"
GUARDS: dict[str, tuple[list[str], str, tuple[str, str] | None]] = {
    "a few": (VALUES[:3], "", None),
    "values": (VALUES[:4], "", ("f 4 more times: k == 3 no longer holds", "a Python value is part of the graph")),
    "sizes are NRN012's": (SIZES[:6], "", None),
    "sizes and values": (VALUES[:1] + SIZES[:3], "", ("f 4 more times: dim 0 of x: 2 → 3", "static cache")),
    "until the limit": (
        SIZES[:3],
        LIMIT,
        ("f 2 more times: recompile_limit of 8 reached, from here on it runs", "static cache"),
    ),
    "too few, but the limit": (VALUES[:1], LIMIT, ("f 0 more times: recompile_limit of 8 reached", "mend the cause")),
}


@pytest.mark.parametrize(("reasons", "failure", "expected"), GUARDS.values(), ids=GUARDS)
def test_traced_again(reasons: list[str], failure: str, expected: tuple[str, str] | None) -> None:
    where = Where("/p/train.py", 1, "<module>", 7)
    graphs = tuple(
        GraphCompile(f"0/{n + 1}", "f", "/p/net.py", 3, where, n, 10, (f"0/{n}: {reason}",), "")
        for n, reason in enumerate(reasons)
    )
    graphs = (*graphs[:-1], dataclasses.replace(graphs[-1], failure=failure))
    first = GraphCompile("0/0", "f", "/p/net.py", 3, where, 0, 10, (), "")
    recording = dataclasses.replace(reported(lambda device: None).recording, graphs=(first, *graphs))
    again = [item for item in Report(recording).findings if item.code == "NRN015"]
    if expected is None:
        assert not again
    else:
        (finding,) = again
        assert finding.message.startswith(f"torch.compile traced {expected[0]}") and expected[1] in finding.fix
        assert (finding.where, finding.cost_ns) == ("/p/train.py line 7", 10 * len(reasons))


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        (["aten::mm", "aten::addcmul_", "aten::view", "my::op", "aten::relu"], ""),
        (
            ["aten::mm", "aten::argmax"],
            "aten::argmax ran compiled here; {} has no kernel for it: expect a fallback there",
        ),
        (
            ["aten::argmax", "aten::argmin"],
            "aten::argmax ran compiled here (1 more op like it); {} has no kernel for it: expect a fallback there",
        ),
    ],
    ids=["native, composite, view and unknown", "one", "two"],
)
def test_no_kernel_on_torchneuron(ops: list[str], expected: str) -> None:
    def program(device: FakeDevice) -> None:
        for ms, op in enumerate(reversed(ops), 1):
            device.run(op, device_ms=ms)

    messages = [(finding.code, finding.message) for finding in found(program)]
    table = f"TorchNeuron's table of {SNAPSHOT}"
    assert messages == ([("NRN032", expected.format(table))] if expected else [])


def test_fallback_here_is_no_news_about_torchneuron() -> None:
    assert found(lambda device: device.fall_back("aten::argmax", 1, "no lowering")) == ()


def test_the_dearest_comes_first_and_the_frame_has_all() -> None:
    def program(device: FakeDevice) -> None:
        for _ in range(4):
            device.copy("d2h", 1, 4)
            device.fall_back("aten::svd", 9, "no lowering")

    findings = found(program)
    assert codes(findings) == ["NRN033", "NRN041"]
    assert findings.frame.code.tolist() == ["NRN033", "NRN041"]
    assert findings.frame.cost_s.tolist() == pytest.approx([0.036, 0.004])
    assert found(lambda device: None).frame.empty


def test_report_shows_findings_and_escapes_them() -> None:
    def program(device: FakeDevice) -> None:
        for _ in range(4):
            device.fall_back("my::<b>", 1, "no lowering")

    report = reported(program)
    text, html = report_text(report, View()), report_html(report, View())
    assert "NRN033  train.py line 4: my::<b> ran on the CPU 4 times from this line" in text
    assert "cost 4.00 ms (emulated) · move it out of the loop" in text
    assert "<b>NRN033</b>" in html
    assert "my::<b>" not in html


def test_every_rule_has_its_explanation() -> None:
    assert set(EXPLANATIONS) == {
        *("NRN011", "NRN012", "NRN013", "NRN014", "NRN015", "NRN021", "NRN031", "NRN032", "NRN033", "NRN041", "NRN042"),
        *("NRN051", "NRN052", "NRN053", "NRN061"),
    }
    for code, item in EXPLANATIONS.items():
        text = explanation_text(explanation(code.lower()))
        assert max(map(len, text.splitlines())) <= 100
        assert item.meaning and item.example and item.fixes
    with pytest.raises(UsageProblem, match="no finding is called 'NRN999'"):
        explanation("NRN999")
