"""Plans of models on devices as tasks, with the evidence and uncertainty of their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hetsim.cost.kernels.float_equivalent import model_dtype
from hetsim.errors import Infeasible, WorkloadError
from hetsim.graph.work import graph_work
from hetsim.hardware.routes import build_routes
from hetsim.hardware.spec import Platform
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.provisioning.platforms.components import Components, composed
from hetsim.provisioning.platforms.question import (
    BATCHES,
    SLACK,
    AnyPlan,
    Counts,
    RequestClass,
    RequestTask,
    TimeEvidence,
    TimeUncertainty,
    Way,
)
from hetsim.simulation.clock.runs import play
from hetsim.simulation.clock.templates import PlanTasks, template_of
from hetsim.simulation.service.layout import held
from hetsim.simulation.service.resolution import (
    ModelOptions,
    PlanCache,
    Resolved,
    batch_dims,
    resolve,
)
from hetsim.workload.arrivals import Constant
from hetsim.workload.deployment import Deployment, DynamicBatching, Instances, Served
from hetsim.workload.workload import Stream, Workload


class Planner:
    """Planner of a question's models on platforms of vectors.

    `sizes` of batches are by model, at most those of `batches`; `ways`, `off` and `priced` as in
    ``Question``, for the devices added. With `apart` each kind is priced on a platform of its own,
    otherwise all on one. Models are loaded once, in `common`.
    """

    def __init__(
        self,
        models: Sequence[str],
        classes: Sequence[RequestClass],
        asked: ModelOptions,
        components: Sequence[Components],
        *,
        batches: Sequence[int] = BATCHES,
        apart: bool = False,
    ) -> None:
        self._models, self._classes = models, classes
        self._asked, self._components = asked, components
        self._batches, self.apart = tuple(batches), apart
        self.ways: dict[tuple[int, int], tuple[Way, ...]] = {}
        self.off: dict[tuple[int, int], TimeUncertainty] = {}
        self.priced: dict[tuple[int, int], TimeEvidence] = {}
        self._made: dict[Counts, tuple[Platform, PlanCache]] = {}
        self.common = PlanCache()
        self.sizes = [self._sizes_of(model) for model in range(len(models))]

    def _sizes_of(self, model: int) -> tuple[int, ...]:
        """Return the batch sizes that a model takes: only 1 if its file fixes it."""
        served = Served(
            self._models[model],
            batch_sizes=self._batches,
            dynamic_batching=DynamicBatching(self._batches[-1]),
        )
        try:
            for one in self._classes:
                if one.model == model:
                    read = self.common.inputs
                    batch_dims(served, dict(one.variant), shaped=self._asked.shaped, read=read)
        except WorkloadError:
            return (1,)
        return self._batches

    def platform(self, counts: Counts) -> Platform:
        """Return the platform of a vector."""
        return self._on(counts)[0]

    def _on(self, counts: Counts) -> tuple[Platform, PlanCache]:
        if counts not in self._made:
            self._made[counts] = (
                composed(self._components, counts, "kinds"),
                self.common.elsewhere(),
            )
        return self._made[counts]

    def resolved(
        self,
        counts: Counts,
        model: int,
        by: Instances,
        sizes: Sequence[int],
        within_s: float = np.inf,
    ) -> Resolved | None:
        """Return a model as one instance serves it, in the sizes that fit the memory.

        Only size 1 if that already takes longer than `within_s`. None if it cannot serve even that.
        """
        platform, made = self._on(counts)
        name = self._models[model]
        streams = tuple(
            Stream(str(k), name, Constant(1.0), dims=dict(one.variant))
            for k, one in enumerate(self._classes)
            if one.model == model
        )
        wanted = Workload(streams, requests=1)
        alone = None
        # A device that cannot serve one cannot serve more; plans are made once.
        for count in (1, *range(len(sizes), 1, -1)):
            served = Served(
                name,
                strategy=by.strategy or "single",
                batch_sizes=tuple(sizes[:count]),
                instances=(by,),
                dynamic_batching=DynamicBatching(sizes[count - 1]) if count > 1 else None,
            )
            try:
                (one,) = resolve(Deployment((served,)), wanted, platform, self._asked, made)
            except Infeasible:
                if count == 1:
                    return None
                continue
            if count > 1:
                return one
            alone = one
            if min(row[0] for rows in one.seconds for row in rows) > within_s:
                break
        return alone

    def add(
        self,
        counts: Counts,
        unit: Platform,
        names: Sequence[str],
        types: Sequence[int],
        within_s: float = np.inf,
    ) -> None:
        """Add the plans of each device of one kind, on the platform of `counts`.

        `unit` is the platform of that kind alone, which defines its links; `within_s` as in
        ``resolved``.
        """
        if self.apart:
            self._made.setdefault(counts, (unit, self.common.elsewhere()))
        links = {link: at for at, link in enumerate(build_routes(unit)[0])}
        for name, of_type in zip(names, types, strict=True):
            for model in range(len(self._models)):
                by = Instances(1, (name,))
                one = self.resolved(counts, model, by, self.sizes[model], within_s)
                if one is None:
                    # A device that cannot serve a model has no way for its classes.
                    continue
                mine = [k for k, each in enumerate(self._classes) if each.model == model]
                ways = ways_of(one, (name,), links)
                self.ways.update({(of_type, k): found for k, found in zip(mine, ways, strict=True)})
                p = one.problem.device_index(name)
                self.off[of_type, model] = time_uncertainty_of(one.problem, p)
                if one.problem.evidence:
                    self.priced[of_type, model] = priced_on(one.problem, p)

    def free(self) -> tuple[AnyPlan, ...]:
        """Return by class the lower bound of all plans on the devices added."""
        found = []
        for one in self._classes:
            sized: dict[int, list[Problem]] = {}
            for _, made in self._made.values():
                for (model, size, bound), problem in made.problems.items():
                    own = model == self._models[one.model]
                    if own and set(one.variant.items()) <= set(bound):
                        sized.setdefault(size, []).append(problem)
            found.append(any_plan(sorted(sized.items())))
        return tuple(found)


def any_plan(sized: Sequence[tuple[int, Sequence[Problem]]]) -> AnyPlan:
    """Return the minimum times of a class from its problems in each batch size and device.

    *Proof.* A node takes on a device no less than ``least_seconds``, in whichever subgraph. A chain
    of nodes is done one after another, so the longest chain of the least times is below every
    latency, with transfers and waiting for nothing; a batch ends no sooner than one request would.
    A device has as many seconds a second as it has streams.
    """
    quickest_s, work_s, lacking = 0.0, np.inf, ""
    for size, problems in sized:
        least = np.min([one.least_seconds.min(axis=1) for one in problems], axis=0)
        rate = [one.least_seconds / np.asarray(one.streams, dtype=float) for one in problems]
        work_s = min(work_s, float(np.min([one.min(axis=1) for one in rate], axis=0).sum()) / size)
        first = problems[0]
        if size == sized[0][0]:
            end = np.zeros(first.n)
            for node, before in enumerate(first.dag.preds):
                end[node] = max((end[one] for one in before), default=0.0) + least[node]
            quickest_s = float(end.max(initial=0.0))
            for node in np.flatnonzero(np.isinf(least)).tolist():
                name = first.node_names[node] if first.node_names else str(node)
                kind = f" ({first.op_types[node]})" if first.op_types else ""
                lacking = lacking or f"no device takes node '{name}'{kind}"
    return AnyPlan(quickest_s, work_s, lacking)


def time_uncertainty_of(problem: Problem, p: int) -> TimeUncertainty:
    """Return the uncertainty of a device and its route; none at the pessimistic end."""
    if problem.certain or problem.host is None:
        return TimeUncertainty({}, {})
    known = problem.uncertainty
    device, route = (
        {
            source: weight
            for source, weight in zip(known.sources, row.tolist(), strict=True)
            if weight
        }
        for row in (known.devices[p], known.routes[problem.host, p])
    )
    return TimeUncertainty(device, route)


def priced_on(problem: Problem, p: int) -> TimeEvidence:
    """Return the evidence of the times of device `p` of a problem."""
    evidence, model, name = problem.evidence[p], problem.model, problem.devices[p]
    precision = evidence.precision
    if model is not None and precision and problem.platform is not None:
        # Figures of one precision may be derived from those of another.
        spec = problem.platform.devices[name]
        precision = model_dtype(spec, model.graph, graph_work(model.graph))
    return TimeEvidence(evidence, name in problem.executed, precision)


def ways_of(one: Resolved, names: Sequence[str], links: Mapping[str, int]) -> list[tuple[Way, ...]]:
    """Return by class the ways of the only instance of a model, by size.

    `names` are its devices by slot, `links` the names of its links there. Complexity: two
    simulations of each plan.
    """
    slots = {name: slot for slot, name in enumerate(names)}
    at = [one.problem.device_index(name) for name in one.served.instances[0].devices]
    whole = []
    for place in range(len(one.served.sizes)):
        served = replace(
            one.served,
            batch_sizes=one.served.sizes[: place + 1],
            dynamic_batching=DynamicBatching(one.served.sizes[place]),
        )
        plans = tuple(tuple(row[: place + 1] for row in rows) for rows in one.plans)
        own = held(replace(one, served=served, plans=plans))
        whole.append(tuple(own.whole[p] for p in at))
    return [
        tuple(
            _way(size, plan, nbytes, links, slots)
            for size, plan, nbytes in zip(one.served.sizes, row, whole, strict=True)
        )
        for row in one.plans[0]
    ]


def _way(
    size: int,
    plan: Plan,
    held_bytes: tuple[int, ...],
    links: Mapping[str, int],
    slots: Mapping[str, int],
) -> Way:
    template = template_of(plan, plan.problem.contention)
    names = plan.problem.devices
    tasks = [
        RequestTask(slots[names[p]], float(seconds), (), before)
        for p, seconds, before in zip(
            template.group_device, template.duration, template.predecessors, strict=False
        )
    ]
    for transfer, before in zip(
        template.transfers, template.predecessors[template.groups :], strict=True
    ):
        holds = tuple(links[template.links[link]] for link in transfer.resources)
        tasks.append(RequestTask(-1, transfer.seconds, tuple(sorted(holds)), before))
    # Links as if each transfer had them exclusively.
    apart = tuple(transfer._replace(resources=()) for transfer in template.transfers)
    free = PlanTasks(plan, (replace(template, transfers=apart, links=()),))
    alone_s = float(play(free, np.zeros(1), traced=False).finish[0]) * (1 - SLACK)
    return Way(size, tuple(tasks), alone_s, max(held_bytes), held_bytes)
