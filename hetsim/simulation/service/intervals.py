"""How sure are the means of what became of requests: by request, and over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from hetsim.simulation.clock.metrics import busy_seconds
from hetsim.simulation.clock.templates import PlanTasks
from hetsim.simulation.service.layout import Setup
from hetsim.simulation.service.service import ModelService, Use
from hetsim.simulation.serving.setup import Outcomes
from hetsim.simulation.serving.tables import EXPIRED, SERVED
from hetsim.statistics.intervals import Mean, mean_of

Array: TypeAlias = np.ndarray[Any, Any]

SAME = 1e-6
"""Relative: what a mean taken by request may differ from the figure that it is an interval of."""


def gaps_s(arrival_s: Array, begin_s: float, end_s: float) -> Array:
    """Return the seconds from each arrival to the next, of the time from `begin_s` to `end_s`.

    What is before the first is the first's, so that they are all of it.
    """
    edges = np.append(arrival_s, end_s)
    edges[0] = begin_s
    return np.diff(edges)


def by_request(outcomes: Outcomes) -> Mean | None:
    """Return the mean latency of those that were answered; None where none was."""
    served = outcomes.why == SERVED
    if not served.any():
        return None
    latency_s = np.where(served, outcomes.finish_s - outcomes.arrival_s, 0.0)
    return mean_of(latency_s, outcomes.fresh, served.astype(np.float64))


def answers_per_s(outcomes: Outcomes, begin_s: float, end_s: float) -> Mean | None:
    """Return the answers a second; None where none came."""
    if not outcomes.requests:
        return None
    served = (outcomes.why == SERVED).astype(np.float64)
    return mean_of(served, outcomes.fresh, gaps_s(outcomes.arrival_s, begin_s, end_s))


def with_lengths(model: ModelService, outcomes: Outcomes, duration_s: float) -> ModelService:
    """Return a model with intervals of how many waited and were inside, and of its instances.

    By Little's law: the seconds that requests wait, over the time. Where some waited too long and
    were rejected there is none, for how long they waited is not told.
    """
    if not outcomes.requests or (outcomes.why == EXPIRED).any():
        return model
    served = outcomes.why == SERVED
    gaps = gaps_s(outcomes.arrival_s, 0.0, duration_s)
    waited = np.where(served, outcomes.sent_s - outcomes.arrival_s, 0.0)
    inside = np.where(served, outcomes.finish_s - outcomes.arrival_s, 0.0)
    under_way = np.where(served, (outcomes.finish_s - outcomes.sent_s) / outcomes.size, 0.0)
    queue = replace(
        model.queue,
        mean_interval=_of(mean_of(waited, outcomes.fresh, gaps), model.queue.mean),
        inside_interval=_of(mean_of(inside, outcomes.fresh, gaps), model.queue.mean_inside),
    )
    instances = []
    for at, use in enumerate(model.instances):
        mine = np.where(outcomes.instance == at, under_way, 0.0)
        instances.append(_with(use, mine, outcomes.fresh, gaps))
    return replace(model, queue=queue, instances=tuple(instances))


def with_uses(
    uses: tuple[Mapping[str, Use], Mapping[str, Use]],
    setup: Setup,
    outcomes: Outcomes,
    duration_s: float,
) -> tuple[dict[str, Use], dict[str, Use]]:
    """Return devices and links with intervals of their utilization.

    Each request of a batch has its part of what the batch asks of them.
    """
    devices, links = map(dict, uses)
    served = np.flatnonzero(outcomes.why == SERVED)
    if not len(served):
        return devices, links
    gaps = gaps_s(outcomes.arrival_s, 0.0, duration_s)
    template = np.zeros(len(served), dtype=np.int64)
    stream = outcomes.stream[served]
    for at, source in enumerate(setup.sources):
        mine = served[stream == at]
        table = setup.models[source.model].template
        where = outcomes.variant[mine], outcomes.instance[mine], outcomes.size[mine] - 1
        template[stream == at] = table[where]
    size = outcomes.size[served]
    for named, asked in zip((devices, links), _asked(setup.plan_tasks), strict=True):
        for name, seconds in zip(list(named), asked.T, strict=True):
            if named[name].busy_s > 0:
                mine = np.zeros(outcomes.requests)
                mine[served] = seconds[template] / size
                named[name] = _with(named[name], mine, outcomes.fresh, gaps)
    return devices, links


def _asked(plan_tasks: PlanTasks) -> Iterator[Array]:
    """Busy seconds [templates, devices], then [templates, links]."""
    rows = [busy_seconds(PlanTasks(plan_tasks.plan, (one,)), (1,)) for one in plan_tasks.templates]
    for part in zip(*rows, strict=True):
        yield np.array(part)


def _with(use: Use, busy_s: Array, fresh: Array, gaps: Array) -> Use:
    """Return a use with the interval of its share, of what is busy by request."""
    if math.isnan(use.utilization) or not use.busy_s:
        return use
    # What could be busy at once.
    whole = use.busy_s / use.utilization / gaps.sum()
    return replace(use, interval=_of(mean_of(busy_s / whole, fresh, gaps), use.utilization))


def _of(mean: Mean, figure: float) -> Mean | None:
    """Return the interval of a figure; None where requests do not tell all that it is of."""
    return mean if math.isclose(mean.estimate, figure, rel_tol=SAME, abs_tol=1e-12) else None


def ends_of(interval: Mean | None) -> Sequence[float]:
    """Return both ends of an interval that holds what it says; nothing where there is none."""
    return () if interval is None or not interval.enough else (interval.low, interval.high)
