"""Verb ``place``: instances of models on devices."""

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
from hetsim.provisioning.instances.answer import (
    BatchingSearch,
    Interference,
    Placement,
    PlacementOutcome,
)
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
from hetsim.simulation.service.layout import EngineArguments, check_together, set_up
from hetsim.simulation.service.resolution import ModelOptions, PlanCache, Resolved, resolve
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
    settings: ModelOptions | None = None,
) -> Placement:
    """Return the best placement of the models of a workload on a platform.

    Each model may have instances on each device and split across several. Among all sets that fit
    the memory together, those that sustain the largest multiple of the demand are searched; the
    best few are simulated, and the result is one that meets every objective, if any does, with its
    percentiles furthest below their limits.

    Parameters
    ----------
    workload : Workload
        Workload with arrivals at a rate, or traces.
    platform : Platform
    batchings : sequence of DynamicBatching
        Ways to batch, each tried in addition to none.
    strategies : sequence of str
        Strategies to split a model across devices: all pairs (up to six devices) and all.
    routing : "round_robin", "shortest_queue" or "least_finish", optional
        Selection of a model's instance for a request. Absent: the last two are tried.
    most : int
        Sets of instances to simulate for each way to batch; each with requests sent to an instance
        at once, and waiting in one queue for a free one.
    most_requests : int, optional
        For random requests, objectives must hold in the long run, as in ``capacity``: a run
        continues until decided, regardless of the end of `workload`, and ends undecided after this
        number of requests. Absent: as there.
    settings : ModelOptions, optional
        Options for reading, pricing and planning models.

    Raises
    ------
    UsageError
        For closed-loop clients, device failures, no requests, or an unknown strategy.
    WorkloadError
        As ``simulate``.

    Complexity: one plan per model, choice of devices and batch size; some hundred small linear
    programs; one run per simulated placement, and per model of the best.
    """
    asked = ModelOptions() if settings is None else settings
    if workload.failures is not None:
        raise UsageError(
            "a placement is not looked for where devices fail",
            hint="leave failures: out, and simulate the placement that is found with them",
        )
    for name in strategies:
        strategy_of(name)
    made = PlanCache()
    ways: list[DynamicBatching | None] = [None, *dict.fromkeys(batchings)]
    found = []
    sought = []
    for batching in progress.each(ways, lambda one: "placements", high=0.3):
        each = offered(workload, platform, asked, made, batching=batching, splits=strategies)
        best = best_of(each.replicas, each.limit_s)
        found.append((each, best))
        sought.append(
            BatchingSearch(
                batching=batching,
                offered=each.replicas.count,
                refused=each.refused,
                **fields(best, "factor bound relaxed gap proved"),
            )
        )
    # A trace is judged as a whole, as later parts may have another load.
    asks = any(stream.slos for stream in workload.streams)
    early = asks and not workload.traces
    lengths = [workload]
    if early and workload.drawn:
        # Overload shows in the requests of the workload; other runs continue.
        lengths.append(replace(workload, duration_s=None, requests=most_requests or MOST_REQUESTS))
    rows: list[tuple[PlacementOutcome, tuple[Resolved, ...], EngineArguments]] = []
    looked_at = tuple(candidates(found, most, routing or "least_finish"))
    for candidate in progress.each(looked_at, lambda one: "simulating", low=0.3, high=0.9):
        for one in served_ways(candidate, platform, routing=routing):
            resolved = resolve(one.deployment, workload, platform, asked, made)
            setup = set_up(resolved, workload, check_together(resolved, platform))
            for comes in lengths:
                # A longer run is long enough for machine code to pay off.
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
    # Key: whether it meets all, percentiles over limits, sustained demand.
    rows.sort(
        key=lambda row: (row[0].answer != "meets", row[0].near if asks else 0.0, -row[0].factor)
    )
    meets = bool(rows) and rows[0][0].answer == "meets"
    beside: tuple[Interference, ...] = ()
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


def _placed(one: Candidate, platform: Platform, service: Service) -> PlacementOutcome:
    each, flow = one.offered, one.flow
    use = dict(zip(each.resources, flow.use.tolist(), strict=True))
    name, most = max(use.items(), key=lambda row: row[1])
    held = each.replicas.held_bytes(one.chosen)
    return PlacementOutcome(
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
    """Return the answer for all objectives; without any, whether all models keep up."""
    answers = {one.verdict.answer for stream in service.streams for one in stream.objectives}
    if "misses" in answers or service.state == "overloaded":
        return "misses"
    return "undecided" if "undecided" in answers else "meets"


def apart(
    workload: Workload,
    resolved: Sequence[Resolved],
    setup: EngineArguments,
    together: Service,
    *,
    until_answered: bool,
) -> tuple[Interference, ...]:
    """Return each stream with and without the other models; empty for a single model.

    The others' requests still arrive but take no time. One run per model.
    """
    if len(resolved) < 2:
        return ()
    found = []
    for at, one in enumerate(resolved):
        alone = played(workload, resolved, without_others(setup, at), until_answered=until_answered)
        for stream, both in zip(alone.streams, together.streams, strict=True):
            if stream.model == one.served.model:
                found.append(Interference(stream.name, stream.model, stream, both))
    order = [stream.name for stream in workload.streams]
    return tuple(sorted(found, key=lambda row: order.index(row.stream)))


def without_others(setup: EngineArguments, model: int) -> EngineArguments:
    """Return the setup in which tasks of other models take no time."""
    duration = np.zeros_like(setup.duration)
    for which in np.unique(setup.models[model].template).tolist():
        tasks = slice(setup.layout.first[which], setup.layout.first[which + 1])
        duration[tasks] = setup.duration[tasks]
    return replace(setup, duration=duration)
