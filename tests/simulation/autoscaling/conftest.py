"""Ray Serve's own functions, for the tests that compare with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oracles.ray_serve import RayServe, loaded


@pytest.fixture(scope="module")
def ray_serve() -> Iterator[RayServe]:
    with loaded() as found:
        yield found
