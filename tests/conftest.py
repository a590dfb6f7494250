"""What tests of several packages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from hetsim.execution.ray_session import RaySession
from hetsim.execution.ray_session import ray_session as open_session

# No test asserts a time: machines are shared.
settings.register_profile("hetsim", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hetsim")


@pytest.fixture(scope="session")
def ray_session() -> Iterator[RaySession]:
    """One private Ray for all tests that run plans on it."""
    with open_session(store_bytes=192 * 2**20) as session:
        yield session
