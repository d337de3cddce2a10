"""Parts of the browser's side on their own."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from neuron_lab.recording import Environment, Recorder
from neuron_lab.report import Report, View
from neuron_lab.widgets import _code, payload
from tests.browser.test_explorer import in_sight
from tests.fakes.device import FakeDevice
from tests.fakes.recordings import long_recording

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


def test_a_range_of_everything_has_the_reports_totals(page: Page) -> None:
    """A graph is made before its call, an op's NEFF within."""
    device = FakeDevice().at(3)
    span = Recorder(device.hook(), Environment("emulated", True), clock=device.clock)
    span.start()
    for name in ("graph::Net_0_forward", "aten::mm"):
        device.run(name, compile_ms=(1, 2, 3), device_ms=4)
        device.run(name, device_ms=4)
    found = payload(Report(span.finish()), View())
    body = """const packed = Uint8Array.from(atob(given[1]), (letter) => letter.charCodeAt(0));
      return unpack(given[0], new DataView(packed.buffer)).then((data) =>
        [null, {begin: 0, end: Infinity}].map((range) => [
          opRows(data, range).map((row) => [row.name, row.compile, row.total]).sort(),
          [...lineRows(data, range).values()].map((row) => [row.compile, row.total])]));"""
    whole, ranged = called(page, body, [found.meta, base64.b64encode(found.columns).decode()])
    assert whole == ranged == [[["aten::mm", 6e6, 14e6], ["graph::Net_0_forward", 6e6, 14e6]], [[12e6, 28e6]]]


@pytest.mark.parametrize("start", [0, 1, 500, 999, 1000])
def test_search_finds_the_first_above(page: Page, start: int) -> None:
    values = np.sort(np.random.default_rng(1).integers(0, 300, 1_000))
    limits = [-1, 0, 17, 150, 299, 300]
    expected = [max(start, int(np.searchsorted(values, limit, side="right"))) for limit in limits]
    body = "return given[1].map((limit) => firstAbove(Float64Array.from(given[0]), limit, given[2]));"
    assert called(page, body, [values.tolist(), limits, start]) == expected


@pytest.mark.parametrize(("pitch", "share"), [(20, 0.5), (11, 10 / 11), (100, 0.1), (500, 1)])
def test_a_pixel_of_many_events_tells_how_much_of_its_time_they_take(page: Page, pitch: float, share: float) -> None:
    """Events of 10 ns and one of `pitch` after each; a pixel is 1 µs, or where they are few, 20 ns."""
    count, scale = (1_000, 1e-3) if pitch < 500 else (10, 0.05)
    begin = [pitch * at for at in range(count)]
    body = """const row = {index: Uint32Array.from(given.begin, (_, i) => i), begin: Float64Array.from(given.begin),
      end: Float64Array.from(given.begin, (at) => at + 10)};
    const found = [];
    eachBar(row, {begin: 0, end: given.end}, given.width, (i, left, wide, share) => found.push([left, wide, share]));
    return found;"""
    end = pitch * count
    found = called(page, body, {"begin": begin, "end": end, "width": end * scale})
    if pitch < 500:
        assert len(found) == pytest.approx(end * scale, abs=2), "one a pixel"
        assert sum(part for _, _, part in found) == pytest.approx(count * 10 * scale)
        assert found[3][2] == pytest.approx(share, rel=0.15)
    else:
        assert [(left, wide, part) for left, wide, part in found] == [(at * scale, 1, 0.5) for at in begin]


_FRONT_END = """async ([loader, reply, columns]) => {
  document.body.innerHTML = '<div class="nrn">the report</div><div id="place"></div>';
  const heard = [];
  const bytes = Uint8Array.from(columns);
  const channel = { on: (_, hear) => heard.push(hear), off: (_, hear) => heard.splice(heard.indexOf(hear), 1) };
  const model = {
    get: (name) => ({ _channel: 'IPY_MODEL_17' })[name],
    widget_manager: { get_model: async (id) => ({ 17: channel })[id] },
    send: ({ask}) => {
      window.answer = () => heard.forEach((hear) => hear({...reply, to: ask}, [new DataView(bytes.buffer)]));
      window.answer();
    },
  };
  const url = URL.createObjectURL(new Blob([loader], {type: 'text/javascript'}));
  window.end = await (await import(url)).default.render({model, el: document.querySelector('#place')});
  window.heard = heard;
}"""


_TWO_FRAMES = "async () => { for (const _ of [1, 2]) await new Promise(requestAnimationFrame); }"


def shown(page: Page) -> None:
    """An explorer, drawn by its loader."""
    found = payload(Report(long_recording(100)), View())
    reply = {"code": _code.module(), "mount": "mount", "meta": found.meta, "replaces": True}
    page.evaluate(_FRONT_END, [_code.loader(), json.loads(json.dumps(reply)), list(found.columns)])
    page.locator(".nx[data-ready]").wait_for(state="attached")


def test_a_front_end_that_is_not_jupyters_keeps_the_report_above(page: Page) -> None:
    """As VS Code and Colab: a widget is drawn, and outputs stand in other elements, or other frames."""
    shown(page)
    assert page.get_by_text("the report", exact=True).is_visible()
    page.evaluate("() => window.end()")
    assert page.locator(".nx").count() == 0
    assert page.evaluate("() => window.heard.length") == 0


def test_what_is_told_while_a_view_is_made_ends_it(page: Page) -> None:
    shown(page)
    page.evaluate("() => { window.answer(); window.heard.forEach((hear) => hear({end: true})); window.answer(); }")
    page.locator(".nx[data-ready]").wait_for()
    page.evaluate(_TWO_FRAMES)
    assert page.locator(".nx").count() == 1
    page.evaluate("() => { window.answer(); window.end(); }")
    page.evaluate(_TWO_FRAMES)
    assert page.locator(".nx").count() == 0


def test_slowest_line_is_in_sight_where_the_view_was_made_unseen(page: Page) -> None:
    """As in a notebook behind another one."""
    page.evaluate("() => { document.body.style.display = 'none' }")
    page.add_style_tag(content=".nx-code { max-height: 60px !important }")
    shown(page)
    page.evaluate("() => { document.body.style.display = '' }")
    page.evaluate(_TWO_FRAMES)
    code = page.locator(".nx-code")
    assert code.evaluate("e => e.scrollTop") > 0, "below what fits"
    assert in_sight(code.locator(".nx-most"), code)
