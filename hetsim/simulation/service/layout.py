"""Layout of all served plans as tasks of one engine, and the memory that they hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import sub

import numpy as np
from numpy.typing import NDArray

from hetsim.core.units import format_bytes
from hetsim.errors import NoRoute, OutOfMemory
from hetsim.hardware.spec import Platform
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.autoscaling.serving import Scaling
from hetsim.simulation.clock.runs import once
from hetsim.simulation.clock.templates import (
    PlanTasks,
    Template,
    TemplateLayout,
    Transfer,
    laid_out,
    template_of,
)
from hetsim.simulation.service.resolution import Resolved, devices_of
from hetsim.simulation.serving.setup import Clients, ModelSetup, RequestSource, Turns
from hetsim.workload.arrivals import Closed
from hetsim.workload.deployment import Instances, Served
from hetsim.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes that one model holds on each device: weights, and `whole` with activations.

    `copy`: bytes of weights on devices other than the host, which are also kept in host memory if
    the model is loaded on demand or its replicas come and go.
    """

    weights: tuple[int, ...]
    whole: tuple[int, ...]
    copy: int


@dataclass(frozen=True, slots=True)
class DeploymentMemory:
    """Bytes that all models hold on each device.

    `stays` is held throughout; models loaded on demand take turns in `room`.
    """

    held: tuple[ModelMemory, ...]
    stays: tuple[int, ...]
    room: tuple[int, ...]


def check_together(resolved: Sequence[Resolved], platform: Platform) -> DeploymentMemory:
    """Return the memory of all models. Raises OutOfMemory if it does not fit.

    Weights are held once per model for all its instances, batch sizes and bindings; for an
    autoscaled model once per instance, as each replica is a process of its own. In addition each
    instance holds the live bytes of its largest batch, times its limit of concurrent batches (1
    without a limit).

    OutOfMemory names the first device that has less than all permanently loaded models hold, or
    less than one that is loaded on demand holds in addition. Complexity: one simulation per plan.
    """
    each = tuple(map(held, resolved))
    host = resolved[0].problem.host
    stays, rooms = [], []
    for p, (name, spec) in enumerate(platform.devices.items()):
        there = {
            one.served.model: row.whole[p]
            for one, row in zip(resolved, each, strict=True)
            if p == host or not one.on_demand
        }
        if p == host:
            for one, row in zip(resolved, each, strict=True):
                if one.on_demand or one.served.autoscaling:
                    there[f"{one.served.model} to be loaded from there"] = row.copy
        needed = sum(there.values())
        if needed > spec.memory_bytes:
            raise _refused(name, spec.memory_bytes, needed, "together", there, turns=p != host)
        for one, row in zip(resolved, each, strict=True):
            if not one.on_demand or p == host:
                continue
            alone = needed + row.whole[p]
            if row.whole[p] and alone > spec.memory_bytes:
                parts = {**there, one.served.model: row.whole[p]}
                raise _refused(name, spec.memory_bytes, alone, "at once", parts, turns=False)
        stays.append(needed)
        rooms.append(spec.memory_bytes - needed)
    return DeploymentMemory(each, tuple(stays), tuple(rooms))


def _refused(
    name: str, has: int, needed: int, how: str, parts: dict[str, int], *, turns: bool
) -> OutOfMemory:
    each = ", ".join(f"{model} {format_bytes(size)}" for model, size in parts.items() if size)
    hint = "give models separate devices (devices:), fewer instances, or smaller batches"
    if turns:
        hint += "; with loading: on_demand (--loading) they take turns"
    return OutOfMemory(
        f"the served models need {format_bytes(needed)} ({needed} bytes) {how}, but it has "
        f"{format_bytes(has)} ({has} bytes): {each}",
        where=f"device '{name}'",
        hint=hint,
        device=name,
        needed_bytes=needed,
        held_bytes=has,
    )


@dataclass(frozen=True, slots=True)
class InstanceHeld:
    """Bytes that one instance holds on each device, in the graph's own types.

    `constants`, by name, are shared with other instances of the model; `live` is the maximum over
    all its concurrent batches.
    """

    constants: tuple[dict[str, int], ...]
    live: tuple[int, ...]


def weights_of(rows: Sequence[Sequence[Plan]]) -> tuple[dict[str, int], ...]:
    """Return by device the constants of plans [variants][sizes], by name with bytes."""
    found: tuple[dict[str, int], ...] = tuple({} for _ in rows[0][0].problem.devices)
    for plan in _each(rows):
        _merge(found, _constants(plan))
    return found


def held_by_instance(
    one: Resolved, entry: Instances, rows: Sequence[Sequence[Plan]]
) -> InstanceHeld:
    """Return the memory of one instance of `entry` with the plans `rows` [variants][sizes]."""
    most = [0] * len(one.problem.devices)
    for plan in _each(rows):
        found = once(plan)
        most = list(map(max, most, map(sub, found.peaks, found.weights)))
    times = max(one.served.in_flight(entry), 1)
    return InstanceHeld(weights_of(rows), tuple(times * each for each in most))


def held(one: Resolved) -> ModelMemory:
    """Return a model's memory on each device; see ``check_together``."""
    devices = len(one.problem.devices)
    constants: tuple[dict[str, int], ...] = tuple({} for _ in range(devices))
    live, apart = [0] * devices, [0] * devices
    for entry, rows in zip(one.served.instances, one.plans, strict=True):
        mine = held_by_instance(one, entry, rows)
        _merge(constants, mine.constants)
        for p, there in enumerate(mine.constants):
            apart[p] += entry.count * sum(there.values())
        live = [total + entry.count * each for total, each in zip(live, mine.live, strict=True)]
    stored = [sum(there.values()) for there in constants]
    if one.served.autoscaling is not None:
        stored = apart
    whole = [size + more for size, more in zip(stored, live, strict=True)]
    host = one.problem.host
    elsewhere: dict[str, int] = {}
    for p, there in enumerate(constants):
        if p != host:
            elsewhere.update(there)
    if host is not None:
        elsewhere = {k: size for k, size in elsewhere.items() if k not in constants[host]}
    return ModelMemory(
        tuple(one.problem.held_bytes(p, size) for p, size in enumerate(stored)),
        tuple(one.problem.held_bytes(p, size) for p, size in enumerate(whole)),
        sum(elsewhere.values()),
    )


def _each(rows: Sequence[Sequence[Plan]]) -> Iterable[Plan]:
    """Return each plan once."""
    return {id(plan): plan for row in rows for plan in row}.values()


def _merge(whole: Sequence[dict[str, int]], more: Sequence[Mapping[str, int]]) -> None:
    """Add further constants by device, keeping the largest of each name."""
    for mine, others in zip(whole, more, strict=True):
        for name, nbytes in others.items():
            mine[name] = max(mine.get(name, 0), nbytes)


def _constants(plan: Plan) -> list[dict[str, int]]:
    """Return by device the constants that its nodes read, with bytes."""
    problem = plan.problem
    found: list[dict[str, int]] = [{} for _ in problem.devices]
    for constant in problem.constants:
        for node in constant.consumers:
            found[plan.assignment[node]][constant.name] = constant.nbytes
    return found


LOADED = -1
"""Marker for weights, instead of the value that a transfer moves."""


def turns_of(
    resolved: Sequence[Resolved], memory: DeploymentMemory, templates: int
) -> tuple[Turns | None, tuple[Template, ...]]:
    """Return how models share memory, and weight-loading templates numbered from `templates`."""
    devices = len(memory.room)
    host = resolved[0].problem.host
    weight = np.zeros((len(resolved), devices), dtype=np.int64)
    fetch = np.full((len(resolved), devices), -1)
    loads: list[Template] = []
    for m, (one, held) in enumerate(zip(resolved, memory.held, strict=True)):
        if not one.on_demand:
            continue
        for p in range(devices):
            if p == host or not held.whole[p]:
                continue
            weight[m, p] = held.whole[p]
            if held.weights[p]:
                fetch[m, p] = templates + len(loads)
                loads.append(load_template(one, p, held.weights[p]))
    if not weight.any():
        return None, ()
    places = tuple(
        tuple(
            tuple(p for p in np.flatnonzero(weight[m]).tolist() if one.problem.devices[p] in used)
            for used in map(devices_of, one.each(one.plans))
        )
        for m, one in enumerate(resolved)
    )
    return Turns(memory.room, weight, fetch, places), tuple(loads)


def load_s(problem: Problem, device: int, nbytes: int) -> float:
    """Return the seconds to move `nbytes` from the host to a device over idle links."""
    assert problem.host is not None
    return problem.routes[problem.host][device].seconds(nbytes)


def load_template(one: Resolved, device: int, nbytes: int) -> Template:
    """Return the template of one transfer of weights from the host to a device."""
    problem = one.problem
    assert problem.host is not None
    route = problem.routes[problem.host][device]
    seconds = load_s(problem, device, nbytes)
    if not math.isfinite(seconds):
        raise NoRoute(
            f"no route takes its weights from '{problem.devices[problem.host]}' "
            f"to '{problem.devices[device]}'",
            where=f"model '{one.served.model}'",
            hint="add a link between the devices, or remove loading: and autoscaling:",
            source=problem.devices[problem.host],
            target=problem.devices[device],
        )
    fifo = problem.contention == "fifo"
    transfer = Transfer(
        LOADED, problem.host, device, -1, (), seconds, route.resources if fifo else ()
    )
    return Template(
        plan=one.plans[0][0][0],
        group_device=(),
        transfers=(transfer,),
        owner=(),
        duration=np.array([seconds]),
        predecessors=((),),
        links=problem.link_names if fifo else (),
    )


def scalings_of(
    resolved: Sequence[Resolved], templates: int
) -> tuple[tuple[Scaling | None, ...] | None, tuple[Template, ...]]:
    """Return the scaling of each model, and replica-loading templates numbered from `templates`."""
    loads: list[Template] = []
    found: list[Scaling | None] = []
    for one in resolved:
        config = one.served.autoscaling
        if config is None:
            found.append(None)
            continue
        each: list[tuple[int, ...]] = []
        for entry, rows in zip(one.served.instances, one.plans, strict=True):
            first = templates + len(loads)
            for p, there in enumerate(weights_of(rows)):
                nbytes = one.problem.held_bytes(p, sum(there.values()))
                if nbytes and p != one.problem.host:
                    loads.append(load_template(one, p, nbytes))
            each += [tuple(range(first, templates + len(loads)))] * entry.count
        found.append(Scaling(config, tuple(each)))
    return (None if not any(found) else tuple(found)), tuple(loads)


US = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class EngineArguments:
    """Arguments of the engine.

    `plan_tasks` are the tasks of all plans without duplicates, with their `layout` and `duration`
    [tasks]. `sources` and `variant` are by stream of the workload: the latter has the index in its
    model's variants of each of its own. `clients` are those of closed streams. By model, `alone_s`
    [variants, instances, sizes] are the seconds of a batch of 1, 2, ... alone. `turns` is the
    memory in which models take turns, `scalings` the scaling of replicas by model, None if no model
    is scaled.
    """

    plan_tasks: PlanTasks
    layout: TemplateLayout
    duration: NDArray[np.float64]
    models: tuple[ModelSetup, ...]
    sources: tuple[RequestSource, ...]
    clients: tuple[Clients, ...]
    variant: tuple[NDArray[np.int64], ...]
    alone_s: tuple[NDArray[np.float64], ...]
    turns: Turns | None
    memory: DeploymentMemory
    scalings: tuple[Scaling | None, ...] | None = None


def set_up(
    resolved: Sequence[Resolved], workload: Workload, memory: DeploymentMemory
) -> EngineArguments:
    """Return the layout of every plan once, with the plan of each batch size.

    A batch runs with the smallest planned size that holds it. `memory` is the result of
    ``check_together``.
    """
    templates: list[Template] = []
    number: dict[int, int] = {}

    def template(plan: Plan) -> int:
        if id(plan) not in number:
            number[id(plan)] = len(templates)
            templates.append(template_of(plan, plan.problem.contention))
        return number[id(plan)]

    models = tuple(
        _model(
            one.served,
            [[[template(plan) for plan in row] for row in rows] for rows in one.each(one.plans)],
        )
        for one in resolved
    )
    turns, loads = turns_of(resolved, memory, len(templates))
    templates += loads
    scalings, loads = scalings_of(resolved, len(templates))
    templates += loads
    plan_tasks = PlanTasks(templates[0].plan, tuple(templates))
    of_model = {one.served.model: at for at, one in enumerate(resolved)}
    sources = []
    variant = []
    for at, stream in enumerate(workload.streams):
        served = resolved[of_model[stream.model]].served
        level = served.default_priority_level if stream.priority is None else stream.priority
        sources.append(RequestSource(of_model[stream.model], max(level - 1, 0)))
        places = resolved[of_model[stream.model]].of_stream[at]
        variant.append(np.asarray(places, dtype=np.int64))
    clients = tuple(
        Clients(
            at,
            stream.arrivals.concurrency,
            partial(stream.arrivals.think_times_s, stream.numbers(workload.seed)),
            int(variant[at][0]),
        )
        for at, stream in enumerate(workload.streams)
        if isinstance(stream.arrivals, Closed)
    )
    return EngineArguments(
        plan_tasks,
        laid_out(plan_tasks),
        np.concatenate([one.duration for one in templates]),
        models,
        tuple(sources),
        clients,
        tuple(variant),
        tuple(_alone(one) for one in resolved),
        turns,
        memory,
        scalings,
    )


def _model(served: Served, numbers: list[list[list[int]]]) -> ModelSetup:
    """Return the model; `numbers`: template by instance, variant and index in `served.sizes`."""
    batching = served.dynamic_batching
    template = np.asarray(numbers, dtype=np.int64).swapaxes(0, 1)[:, :, _holds(served)]
    policy = served.queue_policy
    levels = max(served.priority_levels, 1)
    return ModelSetup(
        template,
        tuple(served.in_flight(entry) for entry in served.instances for _ in range(entry.count)),
        served.routing,
        ranks=tuple(min(level, int(np.iinfo(np.int8).max)) for level in range(levels)),
        max_queue_size=policy.max_queue_size or None,
        timeout_s=policy.default_timeout_us / US if policy.default_timeout_us else np.inf,
        timeout_action=policy.timeout_action,
        preferred=() if batching is None else batching.preferred_batch_size,
        delay_s=0.0 if batching is None else batching.max_queue_delay_us / US,
    )


def _alone(one: Resolved) -> NDArray[np.float64]:
    rows = one.each(one.seconds)
    return np.asarray(rows).swapaxes(0, 1)[:, :, _holds(one.served)]


def _holds(served: Served) -> NDArray[np.int64]:
    """Return by batch of 1, 2, ... requests the index of the smallest size that holds it."""
    batching = served.dynamic_batching
    largest = 1 if batching is None else batching.max_batch_size
    return np.searchsorted(np.asarray(served.sizes), np.arange(1, largest + 1))
