"""Clients that wait for their answers: when they come, and when they stop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetsim.errors import UsageError
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Clients, ModelSetup, RequestSource
from oracles.random_layouts import Shape, layout_of


def served(clients: list[Clients], how: dict[str, Any] | None = None, **more: Any) -> Serving:
    layout = layout_of([Shape([0], [], [[]])], [1], 0)
    model = ModelSetup(np.zeros((1, 1, 1), dtype=np.int64), (1,), **(how or {}))
    return Serving(
        layout, np.ones(1), [model], [RequestSource(0)], clients, machine_code=False, **more
    )


def test_they_stop() -> None:
    def think(block: int) -> Any:
        return np.full((4, 2), 1.0)

    clients = [Clients(0, 2, think)]
    found = served(clients, until_s=10.0).close()
    assert found.arrival_s.max() < 10.0 <= found.finish_s.max() + 1.0


def test_one_that_is_rejected_and_does_not_think_comes_again_at_once() -> None:
    eager = [Clients(0, 3, lambda block: np.zeros((4, 3)))]
    with pytest.raises(UsageError, match="would retry forever"):
        served(eager, {"max_queue_size": 1}, requests=9).close()


def test_two_clients_take_turns_at_one_server() -> None:
    found = served([Clients(0, 1, lambda block: np.ones((4, 1)))] * 2, requests=9).close()
    assert found.requests == 9
    # One server of a second, and each thinks for one: they take turns without a gap.
    assert found.arrival_s.tolist() == [1.0, 1.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    assert found.finish_s.tolist() == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]
