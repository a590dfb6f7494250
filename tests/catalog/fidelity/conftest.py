"""What tests of fidelity share: the published rows, read once."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.fidelity.server.points import ServerSystem, server_systems
from catalog.measured import measured_folder, read_rows
from catalog.points import Chips, read_chips


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    return read_rows(measured_folder())


@pytest.fixture(scope="session")
def systems(rows: list[dict[str, Any]], chips: Chips) -> list[ServerSystem]:
    return server_systems(rows, chips)


@pytest.fixture(scope="session")
def chips() -> Chips:
    return read_chips(measured_folder())
