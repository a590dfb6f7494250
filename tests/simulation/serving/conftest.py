"""What random deployments share."""

from __future__ import annotations

import pytest

from hetsim.simulation.serving import tables


@pytest.fixture(autouse=True)
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of queue lengths that double a few times, not from a microsecond on."""
    monkeypatch.setattr(tables, "WINDOW_S", 2.0**-7)
