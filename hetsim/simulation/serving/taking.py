"""Which instances of a model get batches, on the tables of the driver, between two moments."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hetsim.simulation.serving.driver import mark
from hetsim.simulation.serving.flattening import UNLIMITED
from hetsim.simulation.serving.tables import Flow, Setup


def place(
    setup: Setup, flow: Flow, model: int, instances: Sequence[int], taking: Collection[int]
) -> None:
    """Let batches of a model go to some of its instances only. O(instances)."""
    spare = 0
    for instance in instances:
        limit = setup.limit[instance]
        most = (limit or UNLIMITED) if instance in taking else 0
        flow.most[instance] = most
        if most:
            spare += most - flow.in_flight[instance] if limit else UNLIMITED
    flow.spare[model] = spare
    if flow.waiting[model] > 0:
        mark(flow, model)
