"""``auto`` on every model of the zoo and every platform of the catalog."""

from __future__ import annotations

import hetsim
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import platform_names
from sweeps import sweep

EACH_TIME = ("alexnet", "bert_small", "squeezenet")
"""A chain with heavy weights, a transformer, and branches."""


@sweep("name", quick=EACH_TIME, full=zoo.names())
def test_auto_is_never_worse_than_a_device_alone(name: str) -> None:
    model = hetsim.load_model(f"zoo:{name}")
    for platform_name in platform_names():
        problem = hetsim.Problem.of(model, hetsim.load_platform(platform_name))
        plan = hetsim.plan(problem, "auto", search=False)
        timeline = hetsim.simulate(plan)
        bound_s = hetsim.lower_bound(problem)
        hetsim.check_timeline(problem, plan, timeline, bound_s=bound_s)
        alone = hetsim.plan(problem, "single")
        assert bound_s <= timeline.latency_s <= hetsim.simulate(alone).latency_s, platform_name
