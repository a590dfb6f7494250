"""What tests of several packages share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from collecting import Collecting
from groups import Groups
from hetsim.execution.transports.ray_connection import RayConnection
from hetsim.execution.transports.ray_connection import ray_connection as connected
from leftovers import Leftovers
from summary import Summary
from sweeps import Sweeps, add_option

# Tests that run side by side are given a width; tables are checked at their own.
os.environ.pop("COLUMNS", None)

# No test asserts a time: machines are shared.
settings.register_profile("hetsim", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hetsim")


@pytest.fixture(scope="session")
def ray_connection() -> Iterator[RayConnection]:
    """One private Ray for all tests that run plans on it."""
    with connected(store_bytes=192 * 2**20) as session:
        yield session


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run say how much of the sweep it takes."""
    add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Lines for the end; what processes share; none left over; the sweep taken out."""
    config.pluginmanager.register(Summary())
    config.pluginmanager.register(Groups())
    config.pluginmanager.register(Collecting(config))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Leftovers())
    named = all("::" in word for word in config.args)
    asked, alone = config.getoption("sweep"), config.getoption("alone")
    config.pluginmanager.register(Sweeps(asked, named=named, alone=alone))
