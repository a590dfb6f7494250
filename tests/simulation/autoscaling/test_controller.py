"""The controller that passes over turns at which nothing changes decides as one that takes each."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hetsim.simulation.autoscaling.controller import NOWHERE, Controller, OngoingRequests, decide
from hetsim.workload.autoscaling import AGGREGATIONS, Autoscaling
from oracles.ray_serve import settings
from sweeps import sweep

CASES = 10
"""Seeds of a chunk."""
UNTIL_S = 90.0


class TurnByTurn(Controller):
    """One that decides at every turn of its loop."""

    def __init__(self, config: Autoscaling) -> None:
        super().__init__(config)
        self.leaning, self.turn = NOWHERE, 0

    def decide_all(self, until_s: float, *, too: bool) -> None:
        """Decide at all turns before a time, and at it."""
        loop_s = self.config.control_loop_interval_s
        while self.turn * loop_s < until_s or (too and self.turn * loop_s == until_s):
            now_s = self.turn * loop_s
            total = self.summed.at(now_s, self.config.aggregation_function)
            before = self.target
            self.target, self.leaning = decide(
                self.config, total, len(self._running), self.target, self.leaning, now_s
            )
            assert too or before == self.target, now_s
            self.turn += 1

    @property
    def summed(self) -> OngoingRequests:
        return self._ongoing


@sweep("chunk", quick=range(1), full=range(200))
def test_it_decides_as_turn_by_turn(chunk: int) -> None:
    """Replicas follow at once or after a while; times are of no grid."""
    changes = 0
    for seed in range(CASES * chunk, CASES * (chunk + 1)):
        rng = np.random.default_rng([seed, 9])
        config = replace(
            settings(rng),
            look_back_period_s=float(rng.uniform(2, 20)),
            metrics_interval_s=float(rng.uniform(0.5, 5)),
            control_loop_interval_s=float(rng.choice([0.1, 0.37, rng.uniform(0.05, 2)])),
            aggregation_function=AGGREGATIONS[0 if rng.random() < 0.7 else rng.integers(3)],
        )
        jumps, steps = Controller(config), TurnByTurn(config)
        running = tuple(range(config.initial))
        up_s, load = math.inf, 0
        for one in (jumps, steps):
            one.see(running)
        now_s = 0.0
        while now_s < UNTIL_S:
            now_s = min(jumps.next_s(), up_s)
            jumps.decide_before(now_s)
            steps.decide_all(now_s, too=False)
            if rng.random() < 0.3:
                load = int(rng.choice([0, 0, rng.integers(0, 30)]))
            if now_s == up_s:
                running, up_s = tuple(range(jumps.target)), math.inf
            under_way = {k: int(rng.integers(0, 3)) for k in running if rng.random() < 0.9}
            for one in (jumps, steps):
                one.see(running)
                if one.record_s == now_s:
                    one.record(load, under_way)
                if one.tell_s == now_s:
                    one.tell(under_way)
            before = jumps.target
            jumps.decide_at(now_s)
            steps.decide_all(now_s, too=True)
            assert jumps.target == steps.target, (seed, now_s)
            if jumps.target != before:
                changes += 1
                up_s = now_s + float(rng.choice([0.01, 3.3]))
    assert changes
