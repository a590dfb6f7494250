"""Plans of all that is served as one layout of tasks, and what the engine is told of each model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.plan import Plan
from hetsim.simulation.autoscaling.serving import Scaling
from hetsim.simulation.clock.templates import Layout, PlanTasks, Template, laid_out, template_of
from hetsim.simulation.service.memory import Memory
from hetsim.simulation.service.resolving import Resolved
from hetsim.simulation.service.scaling import scalings_of
from hetsim.simulation.service.turns import turns_of
from hetsim.simulation.serving.setup import Clients, Model, Source, Turns
from hetsim.workload.arrivals import Closed
from hetsim.workload.deployment import Served
from hetsim.workload.workload import Workload

US = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """What the engine takes.

    Attributes
    ----------
    plan_tasks : PlanTasks
        Of all plans, each once.
    layout : Layout
    duration : float array [tasks]
    models : tuple of Model
        In the order of the deployment.
    sources : tuple of Source
        One a stream of the workload.
    clients : tuple of Clients
        Of closed streams.
    variant : tuple of int array
        By stream: which of its model's variants each of its own is.
    alone_s : tuple of float array [variants, instances, sizes]
        By model: what a batch of 1, 2, ... takes alone.
    turns : Turns or None
        Memory in which models take turns.
    memory : Memory
        What models hold.
    scalings : tuple of Scaling or None, or None
        By model: how its replicas come and go; None where those of no model do.
    """

    plan_tasks: PlanTasks
    layout: Layout
    duration: NDArray[np.float64]
    models: tuple[Model, ...]
    sources: tuple[Source, ...]
    clients: tuple[Clients, ...]
    variant: tuple[NDArray[np.int64], ...]
    alone_s: tuple[NDArray[np.float64], ...]
    turns: Turns | None
    memory: Memory
    scalings: tuple[Scaling | None, ...] | None = None

    @property
    def mean_tasks(self) -> float:
        """Of a template: about so many task events a request takes."""
        return float(np.diff(self.layout.first).mean())


def set_up(resolved: Sequence[Resolved], workload: Workload, memory: Memory) -> Setup:
    """Lay out every plan once, and say which of them a batch runs.

    A batch runs as the least size that is planned for and holds it. `memory` is what models hold,
    as ``check_together`` says.
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
            [
                [[template(plan) for plan in row] for row in rows]
                for entry, rows in zip(one.served.instances, one.plans, strict=True)
                for _ in range(entry.count)
            ],
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
        sources.append(Source(of_model[stream.model], max(level - 1, 0)))
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
    return Setup(
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


def _model(served: Served, numbers: list[list[list[int]]]) -> Model:
    """`numbers`: template by instance, variant and place in `served.sizes`."""
    batching = served.dynamic_batching
    template = np.asarray(numbers, dtype=np.int64).swapaxes(0, 1)[:, :, _holds(served)]
    policy = served.queue_policy
    levels = max(served.priority_levels, 1)
    return Model(
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
    rows = [
        seconds
        for entry, seconds in zip(one.served.instances, one.seconds, strict=True)
        for _ in range(entry.count)
    ]
    return np.asarray(rows).swapaxes(0, 1)[:, :, _holds(one.served)]


def _holds(served: Served) -> NDArray[np.int64]:
    """The place, among its sizes, of the least that holds a batch of 1, 2, ... requests."""
    batching = served.dynamic_batching
    largest = 1 if batching is None else batching.max_batch_size
    return np.searchsorted(np.asarray(served.sizes), np.arange(1, largest + 1))
