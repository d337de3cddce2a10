"""The table of every profile in a process."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path

import pytest

import neuron_lab
from neuron_lab import FileProblem, UsageProblem, _session
from neuron_lab.render import session_html, session_text
from neuron_lab.report import Report, SessionRow, session_row
from tests.fakes.device import MS, FakeDevice
from tests.unit.test_render import Checked, crowded, recorded


def test_nothing_yet(fake: FakeDevice) -> None:
    with pytest.raises(UsageProblem, match="nothing was profiled yet"):
        neuron_lab.session()


def test_rows_and_total(fake: FakeDevice, tmp_path: Path) -> None:
    with neuron_lab.profile(label="In[1]"):
        fake.run("aten::mm", compile_ms=(1, 2, 3), device_ms=4, neff="k")

    @neuron_lab.profile(label="In[2]")
    def fail() -> None:
        fake.run("aten::mm", device_ms=4, neff="k")
        for _ in range(5):
            fake.at(3).fall_back("aten::nonzero", 6, "its size depends on the data")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    found = neuron_lab.session()
    assert found.to_text().splitlines() == [
        "2 profiles · emulated trn2.3xlarge · emulated, not Trainium",
        "",
        "                              wall  compile   device      CPU  NEFFs  fallbacks  findings",
        "In[1]                      10.0 ms  6.00 ms  4.00 ms        –  1 new          –         –",
        "In[2] (ZeroDivisionError)  34.0 ms        –  4.00 ms  30.0 ms      –          5    NRN031",
        "total                      44.0 ms  6.00 ms  8.00 ms  30.0 ms  1 new          5    NRN031",
    ]
    assert found.frame.label.tolist() == ["In[1]", "In[2]"]
    assert found.frame.wall_s.tolist() == [0.010, 0.034]
    assert found.total.wall_ns == 44 * MS
    found.save(tmp_path / "session.json")
    data = json.loads((tmp_path / "session.json").read_text())
    assert [row["label"] for row in data["cells"]] == ["In[1]", "In[2]"]
    assert data["total"]["fallback_calls"] == 5
    with pytest.raises(FileProblem, match="it is a neuron_lab session"):
        neuron_lab.load(tmp_path / "session.json")
    found.to_html(tmp_path / "session.html")
    assert found.to_html() in (tmp_path / "session.html").read_text()


def test_no_result_is_kept_alive(fake: FakeDevice) -> None:
    with neuron_lab.profile() as p:
        fake.run("aten::mm")
    gone = weakref.ref(p.report)
    with neuron_lab.profile() as p:
        pass
    gc.collect()
    assert gone() is None
    assert len(neuron_lab.session().rows) == 2


def test_newest_are_kept_and_the_others_counted(fake: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_session, "_KEPT", 3)
    monkeypatch.setattr(_session, "_log", _session._Log())
    for index in range(5):
        with neuron_lab.profile(label=str(index)):
            pass
    found = neuron_lab.session()
    assert [row.label for row in found.rows] == ["2", "3", "4"]
    assert found.forgotten == 2
    assert "2 before these are not kept" in found.to_text()
    assert "2 before these are not kept" in found.to_html()


def test_text_and_html_stay_within_their_bounds() -> None:
    wide = session_row(crowded())
    odd = session_row(recorded(label="<script>" * 50, error="<b>"))
    rows: tuple[SessionRow, ...] = (wide, odd) * 500
    lines = session_text(rows, 10**6).splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) <= 40
    html = session_html(rows, 10**6)
    page = Checked()
    page.feed(html)
    page.close()
    assert page.open == []
    assert page.unsafe == []
    assert len(html.encode()) < 80_000


def test_parts_add_up() -> None:
    row = session_row(Report(recorded().recording))
    parts = (row.compile_ns, row.load_ns, row.startup_ns, row.device_ns, row.fallback_ns, row.copies_ns, row.rest_ns)
    assert sum(parts) == row.wall_ns
