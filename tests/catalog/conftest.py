"""The published rows and what is made of them, read once for all tests of the catalog."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catalog.fidelity.server.points import ServerSystem, server_systems
from catalog.kin_data import KinData, Prior, prior_of
from catalog.measured import measured_folder, read_rows
from catalog.points import Chips, Graphs, Points, points_of, read_chips, read_graphs
from kin_builders import KIN, kin


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    return read_rows(measured_folder())


@pytest.fixture(scope="session")
def points(rows: list[dict[str, Any]]) -> Points:
    return points_of(rows)


@pytest.fixture(scope="session")
def graphs() -> Graphs:
    return read_graphs(measured_folder())


@pytest.fixture(scope="session")
def systems(rows: list[dict[str, Any]], chips: Chips) -> list[ServerSystem]:
    return server_systems(rows, chips)


@pytest.fixture(scope="session")
def chips() -> Chips:
    return read_chips(measured_folder())


@pytest.fixture(scope="session")
def prior() -> Prior:
    return prior_of(KIN)


@pytest.fixture(scope="session")
def made(prior: Prior) -> KinData:
    """A kin that follows the model, to its noise."""
    return kin(np.random.default_rng(3), prior)[0]
