"""The arithmetic of eager against compiled, and how it reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from neuron_lab._trial import CompileTrial
from neuron_lab.render import trial_html, trial_text
from neuron_lab.report import GraphBreak, OutputDifference, Trial, TrialSide

MS = 1_000_000


def trial(eager: tuple[int, ...], compiled: tuple[int, ...], cold: int = 1000 * MS) -> Trial:
    return Trial(
        label="model",
        device="emulated trn2.3xlarge",
        emulated=True,
        eager=TrialSide("eager", 500 * MS, 3, 400 * MS, 4, 4, eager, 2048),
        compiled=TrialSide("compiled", cold, 2, 300 * MS, 2, 2, compiled, 1024),
        batches=(1,) * len(eager),
        reload_ns=90 * MS,
        slowness=1.24,
        graphs=2,
        breaks=(GraphBreak("it prints", "In[3] line 2"),),
        outputs=(OutputDifference("result", (2, 3), "float32", 1e-6, 2e-5),),
    )


FASTER = trial((10 * MS,) * 20, (8 * MS,) * 20)


def test_break_even_is_the_price_by_the_saving() -> None:
    assert FASTER.price_ns == 992 * MS
    assert FASTER.saving_ns == (2 * MS,) * 3
    assert FASTER.break_even == (496, 496, 496)


def test_rounds_are_subtracted_in_pairs_so_a_drift_does_not_count() -> None:
    drift = tuple(range(0, 2000 * MS, 100 * MS))
    drifting = trial(tuple(10 * MS + d for d in drift), tuple(8 * MS + d for d in drift), cold=3000 * MS)
    assert drifting.saving_ns == (2 * MS,) * 3


def test_the_interval_is_that_of_order_statistics() -> None:
    savings = tuple(MS * (n + 1) for n in range(20))
    found = trial(tuple(50 * MS + s for s in savings), (50 * MS,) * 20, cold=1050 * MS)
    # For 20 values the 6th and the 15th are the usual bounds of the median's 95 % interval.
    assert found.saving_ns == (10.5 * MS, 6 * MS, 15 * MS)
    assert found.break_even == (96, 67, 167)


def test_calls_of_a_batch_say_no_more_than_one() -> None:
    savings = tuple(MS * (n + 1) for n in range(20))
    found = trial(tuple(50 * MS + s for s in savings for _ in range(5)), (50 * MS,) * 100)
    assert replace(found, batches=(5,) * 20).saving_ns == (10.5 * MS, 6 * MS, 15 * MS)
    assert found.saving_ns == (10.5 * MS, 9 * MS, 12 * MS)


def test_noise_leaves_the_upper_bound_open_and_a_slower_program_never_pays() -> None:
    noisy = trial((10 * MS,) * 11 + (1 * MS,) * 9, (8 * MS,) * 20)
    assert noisy.break_even is not None and noisy.break_even[2] is None
    assert trial_text(noisy).splitlines()[1].startswith("compile may pay off after 496 calls, or never")
    level = trial((10 * MS,) * 9 + (7 * MS,) * 11, (8 * MS,) * 20)
    assert level.break_even is None
    assert trial_text(level).splitlines()[1].startswith("no difference beyond the noise: a warm call takes 8.00 ms")
    slower = trial((8 * MS,) * 20, (10 * MS,) * 20)
    assert slower.break_even is None
    assert trial_text(slower).splitlines()[1].startswith("compile does not pay off: a warm call takes 10.0 ms compiled")


def test_text() -> None:
    assert trial_text(FASTER).splitlines() == [
        "model · eager against torch.compile · emulated trn2.3xlarge · emulated, not Trainium",
        "compile pays off after 496 calls (95 %: 496 to 496): warm calls are 1.25× as fast",
        "",
        "                                          eager           compiled",
        "first call, empty NEFF cache             500 ms             1.00 s",
        "  of it compiling               400 ms, 4 NEFFs    300 ms, 2 NEFFs",
        "  median of                             3 calls            2 calls",
        "first call, NEFFs on disk                     –            90.0 ms",
        "warm call, median                       10.0 ms            8.00 ms",
        "  p10 – p90                   10.0 ms – 10.0 ms  8.00 ms – 8.00 ms",
        "  measured in turns                    20 calls           20 calls",
        "NEFFs of a warm call                          4                  2",
        "peak HBM                                  2 KiB              1 KiB",
        "graphs, breaks                                –               2, 1",
        "",
        "output                max abs  max rel",
        "result float32[2, 3]    1e-06    2e-05",
        "",
        "graph break at In[3] line 2: it prints",
        "times are as without other work on the machine; by fixed work beside, it slowed calls 1.24×",
    ]


def test_times_that_nothing_was_taken_out_of_are_told_to_be_so() -> None:
    measured = trial_text(replace(FASTER, slowness=None)).splitlines()
    assert measured[-1] == "times are as measured: how much other work slowed the machine is not known"
    assert measured[:-1] == trial_text(FASTER).splitlines()[:-1]


def test_html_escapes_what_a_program_may_hold_and_stays_small() -> None:
    evil = replace(
        FASTER,
        label="<script>",
        breaks=tuple(GraphBreak("<b>" * 2000, "x") for _ in range(200)),
        outputs=tuple(OutputDifference(f"<{n}>", (1,), "float32", 0.0, 0.0) for n in range(1000)),
    )
    page = trial_html(evil)
    assert "<script>" not in page and "<b><b>" not in page and len(page) < 80_000
    assert all(len(line) <= 100 for line in trial_text(evil).splitlines())


def test_frames() -> None:
    found = CompileTrial(FASTER)
    assert found.sides.set_index("side").loc[
        "eager", ["cold_s", "neffs_made", "median_ms", "p10_ms", "n"]
    ].tolist() == [
        0.5,
        4,
        10.0,
        10.0,
        20,
    ]
    assert found.outputs.to_dict("records")[0]["max_rel"] == 2e-5
    assert found.breaks.to_dict("records") == [{"reason": "it prints", "where": "In[3] line 2"}]
    assert set(found._repr_mimebundle_()) == {"text/plain", "text/html"}


@pytest.mark.parametrize(("part", "expected"), [(0.0, 1.0), (0.5, 2.5), (0.9, 3.7), (1.0, 4.0)])
def test_quantiles_are_interpolated(part: float, expected: float) -> None:
    assert TrialSide("eager", 0, 1, 0, 0, 0, (4, 1, 3, 2), 0).quantile_ns(part) == pytest.approx(expected)
