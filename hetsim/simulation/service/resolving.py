"""From a deployment to plans: one for each instance, batch size and binding of dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hetsim.errors import Infeasible, PlanError, UnboundDimension, UsageError, WorkloadError
from hetsim.graph.loading import load_model
from hetsim.hardware.spec import Platform
from hetsim.placement.constraints import check_runnable, only_devices
from hetsim.placement.planning import plan as planned
from hetsim.problem.groups import Group
from hetsim.problem.parts import scaled
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.saved import load_plan
from hetsim.simulation.clock.runs import timeline_of
from hetsim.simulation.service.asked import Asked
from hetsim.simulation.service.batch_dim import Inputs, batch_dims
from hetsim.workload.deployment import Deployment, Instances, Served
from hetsim.workload.workload import Workload, by_model

Dims = Mapping[str, int]

MAX_PLANS = 1024
"""Of one model: for its instances that differ, bindings of dimensions and batch sizes."""

MAX_CHOICES = 2**24
"""Which plan a batch runs: for each instance, binding and number of requests in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """One model that is served, with a plan for whatever one of its instances may run.

    Attributes
    ----------
    served : Served
        Its instances are those of the deployment; an entry whose plan has replicas stands once for
        each of them, and routing chooses among all.
    variants : tuple of mapping
        Bindings of the model's open dimensions that its requests may have, each once.
    of_stream : mapping of int to tuple of int
        By stream of the workload: which of `variants` each of the stream's own is.
    plans : tuple of Plan, [entries][variants][sizes]
        By entry of `served.instances`, variant and place in `served.sizes`.
    seconds : tuple of float, [entries][variants][sizes]
        What one batch takes alone.
    """

    served: Served
    variants: tuple[Dims, ...]
    of_stream: Mapping[int, tuple[int, ...]]
    plans: tuple[tuple[tuple[Plan, ...], ...], ...]
    seconds: tuple[tuple[tuple[float, ...], ...], ...]

    @property
    def on_demand(self) -> bool:
        """Whether its weights are loaded where a batch needs them, rather than there all along."""
        return self.served.loading == "on_demand"

    @property
    def problem(self) -> Problem:
        """That of its first variant and batch size: what reports name it by."""
        return self.plans[0][0][0].problem


def devices_of(rows: Sequence[Sequence[Plan]]) -> frozenset[str]:
    """Return the devices that plans [variants][sizes] use, those of one instance."""
    return frozenset(name for row in rows for plan in row for name in plan.devices_used)


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """Problems and plans that deployments on one platform have in common, each made once.

    Attributes
    ----------
    problems : mapping of (model, batch size, dimensions) to Problem
    plans : mapping of (Problem, devices, strategy or path) to (Plan, seconds) by replica
    inputs : mapping of model to what its file says of its inputs
    """

    problems: dict[Any, Problem] = field(default_factory=dict)
    plans: dict[Any, list[tuple[Plan, float]]] = field(default_factory=dict)
    inputs: dict[str, Inputs] = field(default_factory=dict)


def resolve(
    deployment: Deployment,
    workload: Workload,
    platform: Platform,
    asked: Asked | None = None,
    made: Made | None = None,
) -> tuple[Resolved, ...]:
    """Load, bind, price and plan every model that is served.

    A batch takes at least as long as one request alone: where its plan says less, its times are
    stretched to that. What is `made` already, for other deployments of the same models on the same
    platform as `asked`, is not made again.

    Raises
    ------
    WorkloadError
        Where a stream asks for a model that is not served, a model cannot take a batch size, a
        dimension stays open, or a saved plan is of another model or platform.
    UsageError
        Where a device or a strategy does not exist, or a profile would have to be of several
        models or shapes.
    UnsupportedNode, Infeasible
        Where a model fits none of the devices that it is to be served on; what is told names
        model and batch size.

    Complexity: a plan for each entry of ``instances``, variant and batch size.
    """
    asked = Asked() if asked is None else asked
    made = Made() if made is None else made
    deployment = deployment.named_as(workload)
    deployment.check(workload)
    if asked.profiles and len(deployment.models) > 1:
        raise UsageError(
            f"profiles of {len(deployment.models)} models",
            hint="a profile is of one model: price the others by it in workloads of their own",
        )
    return tuple(resolve_model(one, workload, platform, asked, made) for one in deployment.models)


def resolve_model(
    served: Served, workload: Workload, platform: Platform, asked: Asked, made: Made
) -> Resolved:
    """Return what ``resolve`` does of one model, whatever else is served."""
    # A model that nothing asks for holds its memory all the same.
    found: list[Dims] = []
    of_stream = {}
    for stream in by_model(workload).get(served.model, ()):
        places = []
        for dims in stream.variants:
            if dims not in found:
                found.append(dims)
            places.append(found.index(dims))
        of_stream[workload.streams.index(stream)] = tuple(places)
    variants = tuple(found) or ({},)
    if asked.profiles and (len(variants) > 1 or len(served.sizes) > 1):
        raise UsageError(
            f"profiles, and {len(variants) * len(served.sizes)} shapes to be priced",
            where=served.model,
            hint="a profile is of one shape: serve one batch size, and bind every dimension",
        )
    _check_many(served, len(variants))
    problems = [_problems(served, dims, platform, asked, made) for dims in variants]
    plans = []
    seconds = []
    entries = []
    for entry in served.instances:
        rows = [_plans(served, entry, sizes, asked, made) for sizes in problems]
        for replica in range(_replicas(served, rows)):
            entries.append(entry)
            plans.append(tuple(tuple(each[replica][0] for each in row) for row in rows))
            seconds.append(tuple(tuple(each[replica][1] for each in row) for row in rows))
    served = replace(served, instances=tuple(entries))
    return Resolved(served, variants, of_stream, tuple(plans), tuple(seconds))


def _check_many(served: Served, variants: int) -> None:
    """Raise WorkloadError where more would have to be planned for than anyone waits for."""
    entries, sizes = len(served.instances), len(served.sizes)
    if entries * variants * sizes > MAX_PLANS:
        raise WorkloadError(
            f"{sizes} batch sizes, {variants} bindings of dimensions and {entries} sorts of "
            f"instances want {entries * variants * sizes} plans, above {MAX_PLANS}",
            where=served.model,
            hint="write fewer under batch_sizes:, e.g. [1, 8, 64]: a batch runs as the least that "
            "holds it",
        )
    batching = served.dynamic_batching
    largest = 1 if batching is None else batching.max_batch_size
    choices = sum(entry.count for entry in served.instances) * variants * largest
    if choices > MAX_CHOICES:
        raise WorkloadError(
            f"{choices} ways to run a batch, above {MAX_CHOICES}",
            where=served.model,
            hint="write fewer instances, or a smaller max_batch_size",
        )


def _replicas(served: Served, rows: Sequence[Sequence[Sequence[object]]]) -> int:
    """How many replicas the plans of an entry have, each an instance."""
    found = {len(each) for row in rows for each in row}
    if len(found) > 1:
        raise UsageError(
            f"the plans have {min(found)} replicas for one batch size and {max(found)} for another",
            where=served.model,
            hint="name a strategy that makes none, and write the instances one by one",
        )
    return found.pop()


def _problems(
    served: Served, dims: Dims, platform: Platform, asked: Asked, made: Made
) -> list[Problem]:
    """One a batch size."""
    found: list[Problem] = []
    sizes = batch_dims(served, dims, shaped=asked.shaped, read=made.inputs)
    for size, batch in zip(served.sizes, sizes, strict=True):
        bound = {**dims, **batch}
        key = (served.model, size, tuple(sorted(bound.items())))
        if key not in made.problems:
            made.problems[key] = _problem(served, bound, size, platform, asked)
        found.append(made.problems[key])
    return found


def _problem(served: Served, bound: Dims, size: int, platform: Platform, asked: Asked) -> Problem:
    try:
        model = load_model(
            served.model,
            dims=bound,
            shapes=asked.shapes,
            inputs=asked.inputs,
            observed=asked.observed,
            freeze=asked.freeze,
            canonical=asked.canonical,
            extensions=asked.extensions,
        )
        return Problem.of(
            model,
            platform,
            cost=asked.cost,
            contention=asked.contention,
            profiles=asked.profiles,
            execute=asked.execute,
            pessimistic=asked.pessimistic,
        )
    except UnboundDimension as error:
        names = ", ".join(error.dims) or "some of its shapes"
        raise WorkloadError(
            f"open for a batch of {size}: {names}",
            where=served.model,
            hint="bind it under dims: of its streams, or by --dim",
        ) from None


def _plans(
    served: Served, entry: Instances, problems: Sequence[Problem], asked: Asked, made: Made
) -> list[list[tuple[Plan, float]]]:
    """By batch size: the replicas of an entry's plan, and what a batch takes alone in each."""
    strategy = entry.strategy or served.strategy
    found: list[list[tuple[Plan, float]]] = []
    for size, problem in zip(served.sizes, problems, strict=True):
        where = f"'{served.model}' in batches of {size}"
        try:
            key = (problem, entry.devices, entry.plan or strategy)
            if key not in made.plans:
                made.plans[key] = _planned(entry, strategy, problem, asked)
            replicas = made.plans[key]
        except (Infeasible, UsageError) as error:
            error.where = where if error.where is None else f"{where}: {error.where}"
            error.args = (str(error),)
            raise
        if found:
            replicas = [
                no_quicker(plan, took, least)
                for (plan, took), (_, least) in zip(replicas, found[0], strict=False)
            ] + replicas[len(found[0]) :]
        found.append(replicas)
    return found


def _planned(
    entry: Instances, strategy: str, problem: Problem, asked: Asked
) -> list[tuple[Plan, float]]:
    """The replicas of an entry's plan for one batch size, and what a batch takes in each."""
    narrow = only_devices(problem, entry.devices)
    check_runnable(narrow)
    if entry.plan is None:
        plan = planned(narrow, strategy, objective=asked.objective, **asked.options_for(narrow))
    else:
        given = load_plan(entry.plan, extensions=asked.extensions)
        plan = _as_given(given, narrow, entry.plan)
    return [(one, timeline_of(one, trace=False).latency_s) for one in plan.replicas]


def no_quicker(made: Plan, took_s: float, least_s: float) -> tuple[Plan, float]:
    """Return the plan, its times stretched so that it takes no less, and what it takes."""
    if took_s >= least_s:
        return made, took_s
    slower = _stretched(made, least_s / took_s)
    return slower, timeline_of(slower, trace=False).latency_s


def _stretched(made: Plan, by: float) -> Plan:
    """Return the plan with all times longer by a factor above 1, rounded up."""
    by = math.nextafter(by, math.inf) * (1 + 1e-12)
    devices = len(made.problem.devices)
    return replace(
        made, problem=scaled(made.problem, np.full(devices, by), np.full((devices,) * 2, by))
    )


def _as_given(given: Plan, problem: Problem, path: str) -> Plan:
    """Return a saved plan's assignment for a problem of the same model in another binding."""
    was, now = given.problem, problem
    assert was.model is not None
    assert was.platform is not None
    assert now.model is not None
    assert now.platform is not None
    for what, before, after in (
        ("model", was.model.sha256, now.model.sha256),
        ("platform", was.platform.sha256, now.platform.sha256),
        ("platform", str(was.platform.supposed), str(now.platform.supposed)),
    ):
        if before != after:
            raise WorkloadError(
                f"the plan is of another {what}", where=path, hint="save one of this deployment"
            )
    if was.node_names != now.node_names:
        raise WorkloadError(
            "the model has other nodes in this batch size than in the plan",
            where=path,
            hint="name a strategy in the place of the plan",
        )
    groups = tuple(Group(group.device, group.nodes) for group in given.groups)
    made = replace(given, problem=now, groups=groups)
    try:
        made.validate()
    except PlanError as error:
        raise WorkloadError(error.what, where=path, hint=error.hint) from None
    return made
