"""Random chains of ops, views and in-place updates give on the device what they give on the CPU."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.conformance import compiled_chains
from tests.conformance.chains import FRESH, IN_PLACE, SMOOTH, VIEWS, Chain, Numbers, run
from tests.emulated import DEVICE, fresh_dynamo  # noqa: F401  # a fixture

SMALL = st.integers(0, 11)
NUMBERS = st.tuples(SMALL, SMALL, SMALL, SMALL)
STARTS = st.lists(NUMBERS, min_size=2, max_size=3)
STEP = st.one_of(st.sampled_from([*VIEWS]), st.sampled_from([*FRESH]), st.sampled_from([*IN_PLACE]))
CHAIN = st.lists(st.tuples(STEP, NUMBERS), min_size=1, max_size=8)
SMOOTH_CHAIN = st.lists(st.tuples(st.sampled_from(SMOOTH), NUMBERS), min_size=1, max_size=8)

pytestmark = pytest.mark.filterwarnings("ignore")  # what a random program is warned of does not matter


def many(count: int) -> settings:
    """The same chains in every run."""
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    phases = (Phase.explicit, Phase.generate, Phase.shrink)
    return settings(
        max_examples=count, deadline=None, derandomize=True, database=None, phases=phases, suppress_health_check=checks
    )


@many(150)
@given(STARTS, CHAIN)
def test_a_chain_equals_the_cpu(starts: list[Numbers], chain: Chain) -> None:
    run(starts, chain, DEVICE)


@many(80)
@given(STARTS, SMOOTH_CHAIN)
def test_the_gradients_of_a_chain_equal_the_cpu(starts: list[Numbers], chain: Chain) -> None:
    run(starts, chain, DEVICE, gradients=True)


@many(20)
@given(STARTS, CHAIN)
def test_a_compiled_chain_equals_the_cpu(fresh_dynamo: None, starts: list[Numbers], chain: Chain) -> None:  # noqa: F811
    compiled_chains.run(starts, chain, DEVICE)


@many(10)
@given(STARTS, SMOOTH_CHAIN)
def test_the_gradients_of_a_compiled_chain_equal_the_cpu(
    fresh_dynamo: None,  # noqa: F811
    starts: list[Numbers],
    chain: Chain,
) -> None:
    compiled_chains.run(starts, chain, DEVICE, gradients=True)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@many(800)
@given(STARTS, CHAIN)
def test_eight_hundred_compiled_chains_equal_the_cpu(
    fresh_dynamo: None,  # noqa: F811
    starts: list[Numbers],
    chain: Chain,
) -> None:
    compiled_chains.run(starts, chain, DEVICE)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@many(400)
@given(STARTS, SMOOTH_CHAIN)
def test_the_gradients_of_four_hundred_compiled_chains_equal_the_cpu(
    fresh_dynamo: None,  # noqa: F811
    starts: list[Numbers],
    chain: Chain,
) -> None:
    compiled_chains.run(starts, chain, DEVICE, gradients=True)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@many(8000)
@given(STARTS, CHAIN)
def test_eight_thousand_chains_equal_the_cpu(starts: list[Numbers], chain: Chain) -> None:
    run(starts, chain, DEVICE)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@many(2000)
@given(STARTS, SMOOTH_CHAIN)
def test_the_gradients_of_two_thousand_chains_equal_the_cpu(starts: list[Numbers], chain: Chain) -> None:
    run(starts, chain, DEVICE, gradients=True)
