"""A pretended device behind `neuron_lab.profile`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.device import FakeDevice, serve


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDevice]:
    pretended = FakeDevice()
    serve(pretended, monkeypatch)
    yield pretended
    assert pretended.sessions == [], "a profile is still recording"
