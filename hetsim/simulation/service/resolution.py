"""Plans of a deployment: one for each instance, batch size and binding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any, Literal, TypeVar

import numpy as np
import onnx

from hetsim.core.options import checked_fields
from hetsim.cost import DEFAULT_COST
from hetsim.errors import (
    Infeasible,
    PlanError,
    UnboundDimension,
    UsageError,
    WorkloadError,
    nearest,
)
from hetsim.graph.loading import load_model, read_source
from hetsim.graph.model import Model
from hetsim.graph.shapes.observed import Observed
from hetsim.hardware.spec import Platform
from hetsim.placement.constraints import NAMES, Constrained, check_runnable, only_devices
from hetsim.placement.objective import Objective, check_room
from hetsim.placement.planning import for_objective, under
from hetsim.placement.registry import option_types, strategy_names
from hetsim.problem.groups import Group
from hetsim.problem.measured import Asked as Measurements
from hetsim.problem.parts import Contention, scaled
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import repriced
from hetsim.problem.saved import load_plan
from hetsim.simulation.clock.runs import once
from hetsim.workload.deployment import Deployment, Instances, Served
from hetsim.workload.workload import Workload, by_model


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Options of ``load_model``, ``Problem.of`` and ``plan`` for every served model.

    Full shapes and inputs also fix the batch. Profiles belong to the single served model, in one
    shape. `constraints` maps a problem to further options that restrict its placement.
    """

    canonical: Literal["none", "basic", "extended"] | None = None
    extensions: tuple[Any, ...] = ()
    freeze: Mapping[str, object] = field(default_factory=dict, hash=False)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict, hash=False)
    inputs: Mapping[str, Any] | str | None = field(default=None, hash=False)
    observed: Observed | None = field(default=None, hash=False)
    contention: Contention = "fifo"
    cost: str = DEFAULT_COST
    execute: Mapping[str, str] = field(default_factory=dict, hash=False)
    pessimistic: bool = False
    profiles: Mapping[str, str] = field(default_factory=dict, hash=False)
    measured: Measurements = field(default_factory=dict, hash=False)
    objective: Objective | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    constraints: Callable[[Problem], Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        """Check that some strategy has each option; plans take those that their own has."""
        if not self.options:
            return
        known = {key for name in strategy_names() for key in option_types(name)}
        for key in self.options:
            if key not in known:
                raise UsageError(f"no strategy has an option '{key}'", hint=nearest(key, known))

    def options_for(self, problem: Problem) -> dict[str, Any]:
        """Return the strategy options for planning `problem`."""
        more = {} if self.constraints is None else self.constraints(problem)
        return {**self.options, **more}

    @property
    def shaped(self) -> bool:
        """Whether the shapes of all inputs are given, including the batch."""
        return bool(self.shapes) or self.inputs is not None


Inputs = list[onnx.ValueInfoProto]
"""Inputs of a model as in its file."""


def batch_dims(
    served: Served,
    dims: Mapping[str, int],
    *,
    shaped: bool = False,
    read: dict[str, Inputs] | None = None,
) -> list[dict[str, int]]:
    """Return, for each of `served.sizes`, the dimensions that give the model that batch size.

    `dims` are the dimensions bound by streams; `shaped`, whether the shapes of all inputs are
    given; `read` caches the inputs of model files.

    Raises WorkloadError if the model cannot take a size: its first dimension is fixed or bound by a
    stream, or the named dimension does not exist; ModelError if the file cannot be read.
    """
    alone = served.dynamic_batching is None and served.sizes == (1,)
    if shaped and alone:
        return [{}]
    if shaped:
        raise WorkloadError(
            f"cannot run batches of {', '.join(map(str, served.sizes))}: its full shapes are "
            "given, batch dimension included",
            where=served.model,
            hint="bind its other dimensions by --dim instead of --shape or --input",
        )
    read = {} if read is None else read
    if served.model not in read:
        read[served.model] = _inputs(served.model)
    inputs = read[served.model]
    name, size = _batch_of(served, inputs)
    if size is not None or name is None:
        if alone or served.sizes == (size,):
            return [{} for _ in served.sizes]
        if size == 1 and served.batch_dim is None:
            ones = _ones(inputs)
            return [{} if b == 1 else dict.fromkeys(ones, b) for b in served.sizes]
        if size == 1 and name is not None and name.endswith("[0]"):
            return [{} if b == 1 else {name: b} for b in served.sizes]
        has = "has no first dimension" if name is None else f"is {size} in the file"
        first = f"of input '{inputs[0].name}' " if inputs else ""
        sizes = ", ".join(map(str, served.sizes))
        raise WorkloadError(
            f"cannot run batches of {sizes}: the first dimension {first}{has}",
            where=served.model,
            hint="export the model with an open batch dimension, or remove --batching, or "
            "dynamic_batching and batch_sizes",
        )
    if name in dims:
        if alone:
            return [{}]
        raise WorkloadError(
            f"a stream binds '{name}' to {dims[name]}, and it is the batch dimension",
            where=served.model,
            hint="remove it from dims: or --dim, or name another one by batch_dim:",
        )
    return [{name: size} for size in served.sizes]


def _ones(inputs: Inputs) -> list[str]:
    """Return the first dimensions that are 1 in a model of one request at a time."""
    return [
        f"{value.name}[0]"
        for at, value in enumerate(inputs)
        if [_size(dim) for dim in value.type.tensor_type.shape.dim[:1]] == [1]
        and (at == 0 or len(value.type.tensor_type.shape.dim) > 1)
    ]


def _inputs(source: str) -> Inputs:
    graph = read_source(source)[1].proto.graph
    stored = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in stored]


def _batch_of(served: Served, inputs: Inputs) -> tuple[str | None, int | None]:
    """Return the name of the batch dimension, and its size if fixed; None without one."""
    if served.batch_dim is None:
        shape = inputs[0].type.tensor_type.shape.dim if inputs else ()
        if not shape:
            return None, None
        place = f"{inputs[0].name}[0]"
        return shape[0].dim_param or place, _size(shape[0])
    known: dict[str, int | None] = {}
    for value in inputs:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            known.setdefault(f"{value.name}[{axis}]", _size(dim))
            if dim.dim_param:
                known.setdefault(dim.dim_param, None)
    if served.batch_dim not in known:
        raise WorkloadError(
            f"no input has a dimension '{served.batch_dim}', the batch_dim:",
            where=served.model,
            hint=nearest(served.batch_dim, known),
        )
    return served.batch_dim, known[served.batch_dim]


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | None:
    return int(dim.dim_value) if dim.dim_value > 0 else None


Dims = Mapping[str, int]
T = TypeVar("T")

MAX_PLANS = 1024
"""Maximum number of plans per model: distinct instances x bindings x batch sizes."""

MAX_CHOICES = 2**24
"""Maximum size of the table of plans: instances x bindings x requests per batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """Served model, with a plan for everything that one of its instances may run.

    In `served`, an entry of the deployment whose plan has replicas counts once per replica, and
    routing chooses among all. `variants` are the distinct bindings of the model's open dimensions
    among its requests, and `of_stream` has, by stream of the workload, the index there of each of
    the stream's own. `plans` are by entry of `served.instances`, variant and index in
    `served.sizes`.
    """

    served: Served
    variants: tuple[Dims, ...]
    of_stream: Mapping[int, tuple[int, ...]]
    plans: tuple[tuple[tuple[Plan, ...], ...], ...]

    @property
    def seconds(self) -> tuple[tuple[tuple[float, ...], ...], ...]:
        """Seconds of a single batch alone, indexed like `plans`."""
        return tuple(
            tuple(tuple(once(plan).latency_s for plan in row) for row in rows)
            for rows in self.plans
        )

    @property
    def on_demand(self) -> bool:
        """Whether its weights are loaded when a batch needs them, instead of permanently."""
        return self.served.loading == "on_demand"

    def each(self, of_entries: Sequence[T]) -> list[T]:
        """Return the entries' values, repeated for each instance."""
        return [
            one
            for entry, one in zip(self.served.instances, of_entries, strict=True)
            for _ in range(entry.count)
        ]

    @property
    def problem(self) -> Problem:
        """Problem of its first variant and batch size, which names it in reports."""
        return self.plans[0][0][0].problem


def devices_of(rows: Sequence[Sequence[Plan]]) -> frozenset[str]:
    """Return the devices used by the plans [variants][sizes] of one instance."""
    return frozenset(name for row in rows for plan in row for name in plan.devices_used)


@dataclass(frozen=True, slots=True, eq=False)
class PlanCache:
    """Cache of problems, plans and inputs shared by deployments on one platform.

    Loaded `models` do not depend on the platform and may be shared with other platforms.
    """

    problems: dict[Any, Problem] = field(default_factory=dict)
    plans: dict[Any, tuple[Plan, ...]] = field(default_factory=dict)
    inputs: dict[str, Inputs] = field(default_factory=dict)
    models: dict[Any, Model] = field(default_factory=dict)

    def elsewhere(self) -> PlanCache:
        """Return one for another platform, with the same models."""
        return PlanCache(inputs=self.inputs, models=self.models)


def resolve(
    deployment: Deployment,
    workload: Workload,
    platform: Platform,
    asked: ModelOptions | None = None,
    made: PlanCache | None = None,
) -> tuple[Resolved, ...]:
    """Load, bind, price and plan every served model.

    A batch takes at least as long as one request alone: a plan with a shorter time is stretched to
    that. Entries of `made`, from other deployments of the same models on the same platform with the
    same `asked`, are reused.

    Raises
    ------
    WorkloadError
        If a stream asks for a model that is not served, a model cannot take a batch size, a
        dimension stays open, or a saved plan is of another model or platform.
    UsageError
        If a device or strategy does not exist, or a profile would apply to several models or
        shapes.
    UnsupportedNode, Infeasible
        If a model fits none of its devices; the error names the model and batch size.

    Complexity: one plan per entry of ``instances``, variant and batch size.
    """
    asked = ModelOptions() if asked is None else asked
    made = PlanCache() if made is None else made
    deployment = deployment.named_as(workload)
    deployment.check(workload)
    if asked.profiles and len(deployment.models) > 1:
        raise UsageError(
            f"profiles were given for {len(deployment.models)} models",
            hint="a profile belongs to one model: use separate workloads",
        )
    return tuple(resolve_model(one, workload, platform, asked, made) for one in deployment.models)


def resolve_model(
    served: Served, workload: Workload, platform: Platform, asked: ModelOptions, made: PlanCache
) -> Resolved:
    """Return the result of ``resolve`` for one model alone."""
    # A model without requests holds its memory all the same.
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
            f"a profile was given for {len(variants) * len(served.sizes)} shapes",
            where=served.model,
            hint="a profile belongs to one shape: serve one batch size, and bind every dimension",
        )
    _check_many(served, len(variants))
    problems = [_problems(served, dims, platform, asked, made) for dims in variants]
    plans = []
    entries = []
    for entry in served.instances:
        rows = [_plans(served, entry, sizes, asked, made) for sizes in problems]
        for replica in range(_replicas(served, rows)):
            entries.append(entry)
            plans.append(tuple(tuple(each[replica] for each in row) for row in rows))
    served = replace(served, instances=tuple(entries))
    return Resolved(served, variants, of_stream, tuple(plans))


def _check_many(served: Served, variants: int) -> None:
    """Raise WorkloadError if the number of plans is above MAX_PLANS or MAX_CHOICES."""
    entries, sizes = len(served.instances), len(served.sizes)
    if entries * variants * sizes > MAX_PLANS:
        raise WorkloadError(
            f"{sizes} batch sizes, {variants} bindings of dimensions and {entries} kinds of "
            f"instances need {entries * variants * sizes} plans, above {MAX_PLANS}",
            where=served.model,
            hint="use fewer batch_sizes:, e.g. [1, 8, 64]: a batch runs as the least size that "
            "fits it",
        )
    batching = served.dynamic_batching
    largest = 1 if batching is None else batching.max_batch_size
    choices = sum(entry.count for entry in served.instances) * variants * largest
    if choices > MAX_CHOICES:
        raise WorkloadError(
            f"{choices} ways to run a batch, above {MAX_CHOICES}",
            where=served.model,
            hint="use fewer instances, or a smaller max_batch_size",
        )


def _replicas(served: Served, rows: Sequence[Sequence[Sequence[object]]]) -> int:
    """Return the number of replicas of an entry's plans, each an instance."""
    found = {len(each) for row in rows for each in row}
    if len(found) > 1:
        raise UsageError(
            f"the plans have {min(found)} replicas for one batch size and {max(found)} for another",
            where=served.model,
            hint="use a strategy without replicas, and list the instances one by one",
        )
    return found.pop()


def _problems(
    served: Served, dims: Dims, platform: Platform, asked: ModelOptions, made: PlanCache
) -> list[Problem]:
    """Return one problem per batch size."""
    found: list[Problem] = []
    sizes = batch_dims(served, dims, shaped=asked.shaped, read=made.inputs)
    for size, batch in zip(served.sizes, sizes, strict=True):
        bound = {**dims, **batch}
        key = (served.model, size, tuple(sorted(bound.items())))
        if key not in made.problems:
            made.problems[key] = _problem(served, bound, size, platform, asked, made)
        found.append(made.problems[key])
    return found


def _problem(
    served: Served, bound: Dims, size: int, platform: Platform, asked: ModelOptions, made: PlanCache
) -> Problem:
    key = (served.model, tuple(sorted(bound.items())))
    try:
        if key not in made.models:
            made.models[key] = load_model(
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
            made.models[key],
            platform,
            cost=asked.cost,
            contention=asked.contention,
            profiles=asked.profiles,
            measured=asked.measured,
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
    served: Served,
    entry: Instances,
    problems: Sequence[Problem],
    asked: ModelOptions,
    made: PlanCache,
) -> list[list[Plan]]:
    """Return by batch size the replicas of an entry's plan."""
    strategy = entry.strategy or served.strategy
    found: list[list[Plan]] = []
    for size, problem in zip(served.sizes, problems, strict=True):
        where = f"'{served.model}' in batches of {size}"
        try:
            key = (problem, entry.devices, entry.plan or strategy)
            if key not in made.plans:
                made.plans[key] = _planned(entry, strategy, problem, asked)
            least_s = [once(plan).latency_s for plan in found[0]] if found else []
            replicas = zip(made.plans[key], chain(least_s, repeat(0.0)), strict=False)
            found.append([no_quicker(plan, least) for plan, least in replicas])
        except (Infeasible, UsageError) as error:
            error.where = where if error.where is None else f"{where}: {error.where}"
            error.args = (str(error),)
            raise
    return found


def _planned(
    entry: Instances, strategy: str, problem: Problem, asked: ModelOptions
) -> tuple[Plan, ...]:
    """Return the replicas of an entry's plan for one batch size."""
    narrow = only_devices(problem, entry.devices)
    check_runnable(narrow)
    if entry.plan is None:
        options = asked.options_for(narrow)
        if asked.objective is not None:
            options |= for_objective(strategy, asked.objective)
        options |= checked_fields(Constrained, options)
        limits = Constrained(**{key: value for key, value in options.items() if key in NAMES})
        plan = under(limits, narrow, strategy, **options)
    else:
        given = load_plan(entry.plan, extensions=asked.extensions)
        plan = _as_given(given, narrow, entry.plan)
        check_room(plan)
    return plan.replicas


def no_quicker(made: Plan, least_s: float) -> Plan:
    """Return the plan, with all times stretched (rounded up) if it takes less than `least_s`."""
    took_s = once(made).latency_s
    if took_s >= least_s:
        return made
    by = math.nextafter(least_s / took_s, math.inf) * (1 + 1e-12)
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
                (f"the plan belongs to another {what}"),
                where=path,
                hint=("use a plan saved for this deployment"),
            )
    if was.node_names != now.node_names:
        raise WorkloadError(
            "the model has other nodes at this batch size than in the plan",
            where=path,
            hint="use a strategy instead of the plan",
        )
    groups = tuple(Group(group.device, group.nodes) for group in given.groups)
    made = replace(given, problem=now, groups=groups)
    try:
        made.validate()
    except PlanError as error:
        raise WorkloadError(error.what, where=path, hint=error.hint) from None
    return made


def kept_on(resolved: Sequence[Resolved], platform: Platform) -> tuple[Resolved, ...]:
    """Return the served models with unchanged plans, priced on `platform`.

    A batch takes at least as long as one request alone, as in ``resolve``. Raises as
    ``Problem.of``, and Infeasible if a plan no longer fits.

    Complexity: one pricing per binding and batch size, and one simulation per plan.
    """
    known: dict[str, Problem] = {}

    def anew(plan: Plan) -> Plan:
        model = plan.problem.model
        assert model is not None
        # A model in one binding has one set of shapes, however its plans are stretched.
        key = repr((model.source, sorted(model.dims.items()), sorted(model.shapes.items())))
        if key not in known:
            known[key] = repriced(plan.problem, platform)
        return replace(plan, problem=known[key])

    return tuple(kept_as(one, anew) for one in resolved)


def kept_as(one: Resolved, change: Callable[[Plan], Plan]) -> Resolved:
    """Return a served model with `change` applied to each plan."""
    known: dict[int, Plan] = {}

    def row(plans: Sequence[Plan]) -> tuple[Plan, ...]:
        found: list[Plan] = []
        for plan in plans:
            if id(plan) not in known:
                known[id(plan)] = change(plan)
                check_room(known[id(plan)])
            least_s = once(found[0]).latency_s if found else 0.0
            found.append(no_quicker(known[id(plan)], least_s))
        return tuple(found)

    return replace(one, plans=tuple(tuple(map(row, rows)) for rows in one.plans))
