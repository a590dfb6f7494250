"""Requests that are alike are found, and what a failure does is found out of one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetsim.placement.planning import replan
from hetsim.simulation.clock.templates import tasks_of_plan
from hetsim.simulation.failures import serving as failing
from hetsim.simulation.failures.remaining import alike
from hetsim.simulation.failures.serving import FailingServing
from hetsim.simulation.serving.setup import Model, Source
from hetsim.workload.failure import Failure
from oracles.clock_plans import Stage, tandem


def test_rows_are_of_one_kind_where_all_is_equal() -> None:
    rng = np.random.default_rng(5)
    for rows in (0, 1, 2, 40):
        numbers = rng.integers(-2, 2, (2, rows))
        progress = rng.integers(0, 2, (rows, 3)).astype(np.int8)
        first, kind = alike(tuple(numbers), progress)
        seen: list[Any] = []
        for row in range(rows):
            own = (*numbers[:, row].tolist(), progress[row].tolist())
            if own not in seen:
                seen.append(own)
                assert first[len(seen) - 1] == row
            assert seen[kind[row]] == own
        assert len(first) == len(seen)


@pytest.mark.parametrize("machine_code", [False, True])
def test_what_a_failure_does_is_not_found_out_of_each_request(
    monkeypatch: pytest.MonkeyPatch, machine_code: bool
) -> None:
    """Requests that wait are alike, however many there are."""
    asked = []
    real = failing.runs_again

    def counted(*given: Any) -> bool:
        asked.append(1)
        return real(*given)

    monkeypatch.setattr(failing, "runs_again", counted)
    plan = tandem([Stage(1.0, 0.0), Stage(1.5, 0.0)], 0.25)
    failures = [Failure("stage0", 2.3 + 3 * turn, "kill", 0.5) for turn in range(3)]
    often = []
    for requests in (20, 80):
        asked.clear()
        engine = FailingServing(
            tasks_of_plan(plan, "fifo"),
            "fifo",
            replan,
            [Model(np.zeros((1, 1, 1), dtype=np.int64), (0,))],
            [Source(0)],
            failures=failures,
            machine_code=machine_code,
        )
        engine.serve(np.zeros(requests), np.zeros(requests, dtype=np.int64))
        finish_s = engine.close().finish_s
        assert np.isfinite(finish_s).all()
        assert len(engine.happened) == len(failures)
        often.append(len(asked))
    assert often[0] == often[1] > 0
