"""A copy of the network on each unit, for a rate."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import hetsim
from catalog.measured import BULK_BATCH, precision_of
from hetsim.analysis.sustained_speed import SustainedSpeed
from hetsim.errors import OutOfMemory
from mixed_rows.networks import Networks, Row, network_of
from mixed_rows.platforms import platform_of

REQUESTS = 200
"""Batches that are dealt out: beginning and end of the stream are a hundredth of it."""


def copies_s(
    row: Row, networks: Networks, cost: str, without: Collection[str]
) -> tuple[float, dict[str, Any]]:
    """Return the seconds a sample of copies of the network on each unit, and how they came.

    Requests are dealt out to units that are as slow as they make each other.
    """
    platform = platform_of(row["chip"])
    assert platform is not None
    if "power" in without:
        platform = dataclasses.replace(platform, power_w=None)
    if "memory" in without or cost != "fitted":
        platform = dataclasses.replace(platform, memories=())
    units = row["unit"].split("+")
    strategy = f"multi:{','.join(units)}"
    precision = precision_of(row["precision"]) or row["precision"]
    batch = BULK_BATCH
    while True:
        model = networks.load(network_of(row), batch)
        problem = hetsim.Problem.of(
            model, platform, cost=cost, execute=dict.fromkeys(units, precision)
        )
        try:
            plan = hetsim.plan(problem, strategy)
            break
        except OutOfMemory:
            if batch == 1:
                raise
            batch //= 2
    sustaining = SustainedSpeed(problem)
    first = sustaining.of_stream(plan)
    again = dataclasses.replace(hetsim.plan(first.problem, strategy), problem=problem)
    arrivals_s = [0.0] * REQUESTS
    slow = sustaining.of_requests(again, arrivals_s)
    spent = hetsim.simulate(slow, REQUESTS, trace=False)
    slower = slow.problem.slower
    return spent.makespan_s / (REQUESTS * batch), {
        "batch": batch,
        "deal": list(again.deal),
        "slower_by_power": 1.0 if slower is None else round(slower.power, 3),
        "slower_by_memory": {}
        if slower is None
        else {
            name: round(factor, 3)
            for name, factor in zip(problem.devices, slower.memory, strict=True)
        },
    }
