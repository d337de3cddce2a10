"""What the explorer's browser side gets, read back as it reads it."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import neuron_lab
from neuron_lab.report import Report, View
from neuron_lab.widgets import Payload, front_end_is_there, payload
from neuron_lab.widgets._live import Content, Live
from tests.fakes.device import MS, FakeDevice
from tests.fakes.recordings import long_recording
from tests.unit.test_exports import busy

Table = dict[str, Any]


def unpacked(found: Payload) -> tuple[Table, Table]:
    """Events and changes of HBM; what numbers stand for is put in their place, times are milliseconds."""
    meta, content = json.loads(json.dumps(found.meta)), gzip.decompress(found.columns)
    tables: dict[str, Table] = {"events": {}, "memory": {}}
    offset = 0
    for item in meta["layout"]:
        array = np.frombuffer(content, "<" + item["type"], item["length"], offset)
        offset += array.nbytes
        if item["delta"]:
            array = np.cumsum(array)
        tables[item["table"]][item["name"]] = array
    assert offset == len(content)
    events, memory = tables["events"], tables["memory"]
    for table in (events, memory):
        table["start"] = table["start"] * meta["tick"] / MS
        table["line"] = [meta["places"][line] for line in table["line"]]
    for name in ("duration", "device"):
        events[name] = events[name] * meta["tick"] / MS
    events["label"] = [meta["labels"][label] for label in events["label"]]
    events["kind"] = [meta["kinds"][kind] for kind in events["kind"]]
    return events, memory


def test_every_event_is_there_in_time_order() -> None:
    events, _ = unpacked(payload(busy(), View()))
    rows = list(zip(events["kind"], events["label"], events["start"], events["duration"], events["line"], strict=True))
    assert rows == [
        ("startup", "start the compiler", 0, 7, ""),
        ("compiled", "aten::mm", 7, 10, "train.py line 3"),
        ("compile", "aten::mm", 7, 6, "train.py line 3"),
        ("compiled", "aten::mm", 17, 4, "train.py line 3"),
        ("compiled", "aten::add", 21, 3, "train.py line 4"),
        ("load", "aten::add", 21, 2, "train.py line 4"),
        ("fallback", "aten::nonzero", 24, 5, "train.py line 4"),
        ("copy", "copy h2d", 29, 3, "train.py line 4"),
        ("host", "aten::resize_", 32, 1, ""),
    ]
    assert events["device"].tolist() == [0, 4, 0, 4, 1, 0, 5, 0, 1]
    assert events["bytes"].tolist() == [0, 8, 0, 0, 0, 0, 0, 100, 0]


def test_totals_are_the_reports_own() -> None:
    report = busy()
    meta = payload(report, View()).meta
    assert [(meta["labels"][row[0]], row[1], row[-1]) for row in meta["ops"]] == [
        (row.op, row.calls, row.total_ns) for row in report.op_rows
    ]
    assert {meta["places"][line]: row[-1] for line, row in meta["lines"].items()} == {
        row.where: row.total_ns for row in report.line_rows
    }


def test_100_000_events_are_a_megabyte_and_a_half_at_most() -> None:
    found = payload(Report(long_recording(100_000, changes=50_000)), View())
    events, _ = unpacked(found)
    assert len(events["start"]) == 100_000
    assert len(found.columns) + len(json.dumps(found.meta)) < 1_500_000


def test_state_of_the_widget_is_a_loader(fake: FakeDevice) -> None:
    with neuron_lab.profile() as p:
        fake.run("aten::mm", device_ms=2)
    explorer = p.explore()
    assert len(json.dumps(explorer.get_state(), default=str)) < 5_000
    sent: list[Any] = []
    explorer.send = lambda content, buffers: sent.append((content, buffers))
    explorer._answer(explorer, {"ask": "view"}, [])
    ((content, (columns,)),) = sent
    assert content["to"] == "view"
    assert f"export {{ {content['mount']}," in content["code"]
    assert len(unpacked(Payload(content["meta"], columns))[0]["start"]) == 1
    explorer.close()


@pytest.mark.parametrize(
    ("environ", "names", "expected"),
    [
        ({"JPY_SESSION_NAME": "a.ipynb"}, {}, True),
        ({}, {"__vsc_ipynb_file__": "a.ipynb"}, True),
        ({}, {}, False),  # nbclient, papermill, jupyter execute
    ],
)
def test_a_front_end_is_one_that_started_the_kernel(
    environ: dict[str, str], names: dict[str, str], expected: bool
) -> None:
    assert front_end_is_there(SimpleNamespace(kernel=object(), user_ns=names), environ) is expected
    assert not front_end_is_there(SimpleNamespace(user_ns=names), environ), "a terminal"


def test_view_is_told_what_went_wrong_in_the_kernel() -> None:
    view = Live("explorer", "mount", lambda: Content({"ratio": 1 // 0}))
    sent: list[Any] = []
    view.send = lambda content, buffers=None: sent.append(content)
    with pytest.raises(ZeroDivisionError):
        view._answer(view, {"ask": "view"}, [])
    assert sent == [{"to": "view", "error": "ZeroDivisionError: integer division or modulo by zero"}]
    view.close()
