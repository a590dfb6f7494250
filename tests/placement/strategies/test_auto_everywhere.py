"""``auto`` on every model of the zoo and every platform of the catalog."""

from __future__ import annotations

from itertools import product

import hetsim
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import platform_names
from sweeps import sweep

EACH_TIME = ("bert_small", "squeezenet")
"""A transformer, and branches."""

THIRDS = range(3)
"""Platforms are taken each third, from each of the first three: two of three each time."""


@sweep("name, third", quick=zip(EACH_TIME, (1, 2), strict=True), full=product(zoo.names(), THIRDS))
def test_auto_is_never_worse_than_a_device_alone(name: str, third: int) -> None:
    model = hetsim.load_model(f"zoo:{name}")
    for platform_name in platform_names()[third :: len(THIRDS)]:
        problem = hetsim.Problem.of(model, hetsim.load_platform(platform_name))
        plan = hetsim.plan(problem, "auto", search=False)
        timeline = hetsim.simulate(plan)
        bound_s = hetsim.lower_bound(problem)
        hetsim.check_timeline(problem, plan, timeline, bound_s=bound_s)
        alone = hetsim.plan(problem, "single")
        assert bound_s <= timeline.latency_s <= hetsim.simulate(alone).latency_s, platform_name
