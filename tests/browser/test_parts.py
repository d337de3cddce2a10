"""Parts of the browser's side on their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from neuron_lab.widgets import _code

_CALL = """async ([code, body, given]) => {
  const url = URL.createObjectURL(new Blob([`${code}\\nexport const run = (given) => { ${body} };`], {type: 'text/javascript'}));
  return (await import(url)).run(given);
}"""


def called(page: Page, body: str, given: object) -> Any:
    """What a function of this body returns; the parts are in its scope."""
    return page.evaluate(_CALL, [_code.module(), body, given])


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("most", [0, 3, 70_000, 2.0**52])
def test_numbers_sort_and_equal_ones_stay_in_their_order(page: Page, down: bool, most: float) -> None:
    random = np.random.default_rng(0)
    keys = random.integers(0, int(most), 5_000, endpoint=True) / 7
    expected = np.argsort(-keys if down else keys, kind="stable")
    found = called(page, "return Array.from(sortedBy(Float64Array.from(given[0]), given[1]));", [keys.tolist(), down])
    assert found == expected.tolist()


def test_nothing_sorts_and_texts_have_ranks(page: Page) -> None:
    assert called(page, "return sortedBy(new Float64Array(0)).length;", None) == 0
    assert called(page, "return ranks(given);", ["b", "", "a", "b"]) == [2, 0, 1, 2]


@pytest.mark.parametrize("start", [0, 1, 500, 999, 1000])
def test_search_finds_the_first_above(page: Page, start: int) -> None:
    values = np.sort(np.random.default_rng(1).integers(0, 300, 1_000))
    limits = [-1, 0, 17, 150, 299, 300]
    expected = [max(start, int(np.searchsorted(values, limit, side="right"))) for limit in limits]
    body = "return given[1].map((limit) => firstAbove(Float64Array.from(given[0]), limit, given[2]));"
    assert called(page, body, [values.tolist(), limits, start]) == expected
