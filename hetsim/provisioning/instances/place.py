"""The verb ``place``: which instances of which model on which devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from hetsim.core import checks, progress
from hetsim.core.text import fields
from hetsim.errors import UsageError
from hetsim.hardware.spec import Platform
from hetsim.placement.registry import resolve as strategy_of
from hetsim.provisioning.instances.answer import Apart, Placed, Placement, Sought
from hetsim.provisioning.instances.candidates import (
    MOST,
    SPLITS,
    Candidate,
    candidates,
    offered,
    served_ways,
)
from hetsim.provisioning.instances.search import best_of
from hetsim.provisioning.rates.ceiling import rates_of, why_impossible
from hetsim.simulation.service.layout import Setup, check_together, set_up
from hetsim.simulation.service.resolution import Asked, Made, Resolved, resolve
from hetsim.simulation.service.run import MOST_REQUESTS, MOST_TASKS
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import played
from hetsim.statistics.verdict import Answer
from hetsim.workload.deployment import DynamicBatching, Routing
from hetsim.workload.workload import Workload


@checks.takes(
    workload=checks.instance("hetsim.workload.workload:Workload"),
    platform=checks.instance("hetsim.hardware.spec:Platform"),
    batchings=checks.sequence(checks.instance("hetsim.workload.deployment:DynamicBatching")),
    strategies=checks.sequence(checks.text),
    routing=checks.one_of(*get_args(Routing)),
    most=checks.whole(1),
    most_requests=checks.whole(1),
)
def place(
    workload: Workload,
    platform: Platform,
    *,
    batchings: Sequence[DynamicBatching] = (),
    strategies: Sequence[str] = SPLITS,
    routing: Routing | None = None,
    most: int = MOST,
    most_requests: int | None = None,
    settings: Asked | None = None,
) -> Placement:
    """Return where the models of a workload are best placed on a platform.

    Each model may have instances on each device alone and split over several. Of all sets of them
    that fit the memory together those are looked for that carry the largest multiple of the demand;
    the best few are simulated, and the best of these is the one that meets every objective, if one
    does, with its percentiles furthest below their limits.

    Parameters
    ----------
    workload : Workload
        With arrivals at a rate, or traces.
    platform : Platform
    batchings : sequence of DynamicBatching
        Ways to batch, each tried beside none.
    strategies : sequence of str
        What plans a model over several devices: every two (up to six) and all.
    routing : "round_robin", "shortest_queue" or "least_finish", optional
        Which instance of a model gets a request. Absent: the last two are tried.
    most : int
        Sets of instances that are simulated, of each way to batch; each with requests that are
        sent to an instance at once, and with those that wait in one line for a free one.
    most_requests : int, optional
        Where chance makes the requests, what is asked is whether objectives hold in the long run,
        as in ``capacity``: a run goes on until it tells, whatever `workload` says of its end, and
        ends undecided after so many requests. Absent: as there.
    settings : Asked, optional
        How models are read, priced and planned for.

    Raises
    ------
    UsageError
        Where clients wait for answers, devices fail, nothing comes, or a strategy does not exist.
    WorkloadError
        As ``simulate`` does.

    Complexity: a plan for each model, choice of devices and batch size; some hundred small linear
    programs; a run for each placement that is simulated, and for each model of the best.
    """
    asked = Asked() if settings is None else settings
    if workload.failures is not None:
        raise UsageError(
            "a placement is not looked for where devices fail",
            hint="leave failures: out, and simulate the placement that is found with them",
        )
    for name in strategies:
        strategy_of(name)
    made = Made()
    ways: list[DynamicBatching | None] = [None, *dict.fromkeys(batchings)]
    found = []
    sought = []
    for batching in progress.each(ways, lambda one: "placements", high=0.3):
        each = offered(workload, platform, asked, made, batching=batching, splits=strategies)
        best = best_of(each.replicas, each.limit_s)
        found.append((each, best))
        sought.append(
            Sought(
                batching=batching,
                offered=each.replicas.count,
                refused=each.refused,
                **fields(best, "factor bound relaxed gap proved"),
            )
        )
    # A trace is judged whole: what comes later may be another load.
    asks = any(stream.slos for stream in workload.streams)
    early = asks and not workload.traces
    lengths = [workload]
    if early and workload.drawn:
        # An overloaded placement is seen in the requests of the workload; the rest goes on.
        lengths.append(replace(workload, duration_s=None, requests=most_requests or MOST_REQUESTS))
    rows: list[tuple[Placed, tuple[Resolved, ...], Setup]] = []
    looked_at = tuple(candidates(found, most, routing or "least_finish"))
    for candidate in progress.each(looked_at, lambda one: "simulating", low=0.3, high=0.9):
        for one in served_ways(candidate, platform, routing=routing):
            resolved = resolve(one.deployment, workload, platform, asked, made)
            setup = set_up(resolved, workload, check_together(resolved, platform))
            for comes in lengths:
                # A run that goes on is long enough for machine code to pay.
                goes_on = comes is not workload
                service = played(
                    comes,
                    resolved,
                    setup,
                    until_answered=early,
                    most_tasks=MOST_TASKS if goes_on and not most_requests else math.inf,
                    machine_code=True if goes_on else None,
                )
                if _answer(service) != "undecided":
                    break
            rows.append((_placed(one, platform, service), resolved, setup))
    # Whether it meets all, percentiles over limits, and what is carried.
    rows.sort(
        key=lambda row: (row[0].answer != "meets", row[0].near if asks else 0.0, -row[0].factor)
    )
    meets = bool(rows) and rows[0][0].answer == "meets"
    beside: tuple[Apart, ...] = ()
    if rows:
        placed, resolved, setup = rows[0]
        assert placed.service is not None
        beside = apart(
            placed.service.workload, resolved, setup, placed.service, until_answered=early
        )
    quick = {one.model for each, _ in found for one in each.instances}
    return Placement(
        workload,
        platform,
        sum(rates_of(workload)),
        tuple(row[0] for row in rows),
        tuple(sought),
        beside,
        None if meets else why_impossible(workload, platform, made, quick),
    )


def _placed(one: Candidate, platform: Platform, service: Service) -> Placed:
    each, flow = one.offered, one.flow
    use = dict(zip(each.resources, flow.use.tolist(), strict=True))
    name, most = max(use.items(), key=lambda row: row[1])
    held = each.replicas.held_bytes(one.chosen)
    return Placed(
        tuple(each.instances[at] for at in one.chosen),
        one.deployment,
        each.served[0].dynamic_batching,
        flow.factor,
        name if most > 1 - 1e-6 else "batches under way",
        use,
        dict(zip(platform.devices, held, strict=True)),
        service,
        _answer(service),
    )


def _answer(service: Service) -> Answer:
    """Answer of all objectives together; without any, whether all models keep up."""
    answers = {one.verdict.answer for stream in service.streams for one in stream.objectives}
    if service.untold:
        answers.add("undecided")
    if "misses" in answers or service.state == "overloaded":
        return "misses"
    return "undecided" if "undecided" in answers else "meets"


def apart(
    workload: Workload,
    resolved: Sequence[Resolved],
    setup: Setup,
    together: Service,
    *,
    until_answered: bool,
) -> tuple[Apart, ...]:
    """Each stream beside itself without the other models; empty where there is one model.

    Their requests come all the same and take no time. A run a model.
    """
    if len(resolved) < 2:
        return ()
    found = []
    for at, one in enumerate(resolved):
        alone = played(workload, resolved, without_others(setup, at), until_answered=until_answered)
        for stream, both in zip(alone.streams, together.streams, strict=True):
            if stream.model == one.served.model:
                found.append(Apart(stream.name, stream.model, stream, both))
    order = [stream.name for stream in workload.streams]
    return tuple(sorted(found, key=lambda row: order.index(row.stream)))


def without_others(setup: Setup, model: int) -> Setup:
    """Setup where no task of another model takes any time."""
    duration = np.zeros_like(setup.duration)
    for which in np.unique(setup.models[model].template).tolist():
        tasks = slice(setup.layout.first[which], setup.layout.first[which + 1])
        duration[tasks] = setup.duration[tasks]
    return replace(setup, duration=duration)
