"""Servers that break down at random: closed forms."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray

from hetsim.placement.planning import replan
from hetsim.simulation.clock.templates import tasks_of_plan
from hetsim.simulation.failures.serving import FailingServing, WeightLoad
from hetsim.simulation.serving.setup import Clients, ModelSetup, RequestSource
from hetsim.workload.failure import Failing
from oracles.clock_plans import Stage, tandem
from sweeps import sweep

COUNT = 2000


def one_server(seconds: float, failing: Failing, loads: bool = False) -> FailingServing:
    """One client who never thinks, and a server that is reached in no time."""
    plan = tandem([Stage(seconds, 0.0)], 0.0)

    def think(block: int) -> NDArray[np.float64]:
        return np.zeros((64, 1))

    return FailingServing(
        tasks_of_plan(plan, "fifo"),
        "fifo",
        replan,
        [ModelSetup(np.zeros((1, 1, 1), dtype=np.int64), (1,))],
        [RequestSource(0)],
        [Clients(0, 1, think)],
        failures=failing.failures(plan.problem.devices, 3),
        loads=[None, WeightLoad(1.5, (0,)) if loads else None],
        requests=COUNT,
    )


@pytest.mark.group("machine_code")
@sweep("rate", quick=[0.4], full=[0.1, 0.4, 1.0])
def test_what_is_lost_begins_again(rate: float) -> None:
    """Work of D with failures at rate f, repaired in R, takes (e^(f D) - 1) (1/f + R) on average.

    Preemptive repeat: D. Gaver, A waiting line with interrupted service, including priorities,
    Journal of the Royal Statistical Society B 24 (1962),
    https://doi.org/10.1111/j.2517-6161.1962.tb00438.x.
    """
    failing = Failing(mtbf_s={"stage0": 1 / rate}, mttr_s={"stage0": 2.0})
    engine = one_server(1.0, failing)
    found = engine.close()
    mean_s = math.expm1(rate) * (1 / rate + 2.0)
    error_s = float(found.latency_s.std()) / math.sqrt(COUNT)
    assert abs(found.latency_s.mean() - mean_s) < 4 * error_s
    assert error_s < 0.05 * mean_s
    # Of each failure that cut something off, the request began again; each was answered once.
    many = len(engine.happened)
    busy_s, _ = engine.busy_seconds()
    assert busy_s[1] == pytest.approx(COUNT * 1.0 + engine.cut_s)
    assert many / COUNT == pytest.approx(math.expm1(rate), rel=0.1)
    assert sum(outage.end_s - outage.begin_s for outage in engine.outages.out[0]) == pytest.approx(
        sum(failure.back_s - failure.at_s for failure in engine.happened)
    )


def test_what_is_loaded_again_is_waited_for() -> None:
    """Each repair is longer by the load, where it cannot fail meanwhile."""
    failing = Failing(mtbf_s={"stage0": 7.25}, mttr_s={"stage0": 2.0}, times="constant")
    engine = one_server(1.0, failing, loads=True)
    found = engine.close()
    first = list(islice(failing.failures(("host", "stage0"), 3), len(engine.happened)))
    assert engine.happened == first
    out_s = [outage.end_s - outage.begin_s for outage in engine.outages.out[0][:-1]]
    assert out_s == pytest.approx([3.5] * len(out_s))
    ended = np.sort(found.finish_s)
    for failure in first[:50]:
        assert not ((ended > failure.at_s) & (ended < failure.back_s + 1.5 + 1.0 - 1e-9)).any()
