"""Cheapest platform of a catalog that meets every objective of a workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from hetsim.core.progress import each, part, stage
from hetsim.errors import UsageError
from hetsim.hardware.files.inventory import Catalog
from hetsim.hardware.routes import build_routes
from hetsim.hardware.spec import Platform
from hetsim.provisioning.platforms.answer import (
    Chosen,
    Recommendation,
    binding_of,
    excuses_of,
    impossible,
)
from hetsim.provisioning.platforms.components import (
    FRONT,
    Components,
    components_of,
    composed,
    costs_of,
    deployment_of,
    platform_of,
)
from hetsim.provisioning.platforms.planner import Planner
from hetsim.provisioning.platforms.policies import PlacedInstances
from hetsim.provisioning.platforms.question import (
    BATCHES,
    Aim,
    ClassRequests,
    Counts,
    DeviceType,
    Kind,
    Question,
    QuestionStream,
    RequestClass,
    arrivals_of,
)
from hetsim.provisioning.platforms.robustness import (
    AS_SAID,
    Demand,
    probability_of_meeting,
    robustness_of,
)
from hetsim.provisioning.platforms.search import BUDGET, Search, SearchResult, TriedVector
from hetsim.provisioning.platforms.splits import splits_of
from hetsim.provisioning.platforms.vectors import all_vectors, survey
from hetsim.provisioning.rates.answer import Loss
from hetsim.provisioning.rates.ceiling import rates_of
from hetsim.provisioning.rates.redundancy import survive
from hetsim.simulation.service.cost import ServicePrices
from hetsim.simulation.service.resolution import ModelOptions, PlanCache
from hetsim.simulation.service.run import expected
from hetsim.simulation.service.serving import serve
from hetsim.workload.workload import Workload

MAX_DEVICES = 8

MOST_GIVEN = 2**24
"""Maximum number of given requests to simulate."""


def recommended(
    workload: Workload,
    catalog: Catalog,
    *,
    aim: Aim,
    max_devices: int,
    terms: ServicePrices,
    asked: ModelOptions | None = None,
    budget: int = BUDGET,
    samples: int | None = None,
    demand: Demand = AS_SAID,
    losses: int = 0,
) -> Recommendation:
    """Return the result of ``recommend``, with models read and priced by `asked`."""
    with stage("of planning"):
        draft = draft_of(
            workload,
            catalog,
            aim=aim,
            max_devices=max_devices,
            terms=terms,
            asked=asked,
            losses=losses,
        )
        question, components = question_of(draft), draft.components
    with stage("of the search"):
        found = Search(question, workload, budget=budget).found()
    answer = found.answer
    cap = question.dearest if answer is None else question.cost(answer.counts)
    looked = survey(question, found.tests, cap)
    binding = binding_of(found, None if answer is None else answer.counts)
    robustness = None
    if samples or demand != AS_SAID:
        near = None
        if binding is not None:
            near = tuple(binding.counts.get(kind.name, 0) for kind in question.kinds)
        with stage():
            robustness = robustness_of(
                found, workload, draws=samples or 1, demand=demand, budget=budget, near=near
            )
    elif samples is None:
        with stage():
            robustness = probability_of_meeting(found, workload)
    return Recommendation(
        workload,
        None
        if answer is None
        else chosen_of(found, components, answer, workload, asked, budget, draft.planner.common),
        tuple(question.named(counts) for counts in found.undecided),
        excuses_of(found, looked.excluded),
        looked.dearer,
        all_vectors(question),
        binding,
        impossible(question) if answer is None else None,
        found,
        components,
        robustness,
    )


def chosen_of(
    found: SearchResult,
    components: tuple[Components, ...],
    one: TriedVector,
    workload: Workload,
    asked: ModelOptions | None,
    budget: int,
    made: PlanCache | None = None,
) -> Chosen:
    """Return a vector that meets, with the results of the workload on its platform.

    `made` has the loaded models.
    """
    question = found.question
    best = one.best(question)
    assert best is not None
    assert isinstance(best.placed, PlacedInstances)
    policy = found.policies[best.policies[0]]
    platform = platform_of(question, components, one.counts)
    deployment = deployment_of(question, components, best.placed, policy)
    drawn = not question.given
    comes = replace(workload, duration_s=None, requests=budget) if drawn else workload
    service = serve(deployment, comes, platform, asked=asked, made=made, until_answered=drawn)
    survived = None
    if question.losses:
        survived = survive(
            deployment,
            comes,
            platform=platform,
            losses=question.losses,
            settings=asked,
            until_answered=drawn,
        )
        if not drawn:
            # For given requests, late ones are counted instead of estimated.
            every = sorted(
                map(_counted, survived.losses), key=lambda row: row.badness, reverse=True
            )
            intact = _counted(survived.intact)
            survived = replace(survived, intact=intact, losses=tuple(every))
    return Chosen(
        question.named(one.counts),
        question.amount(one.counts),
        policy,
        platform,
        deployment,
        service,
        survived,
    )


def _counted(loss: Loss) -> Loss:
    if loss.service is None:
        return loss
    late = [
        (one.slo.share, one.verdict.late)
        for stream in loss.service.streams
        for one in stream.objectives
    ]
    meets = all(of.requests - of.late >= share * of.requests for share, of in late)
    return replace(loss, answer="meets" if meets else "misses")


# Conversion of files to numbers


class UnpricedQuestion(NamedTuple):
    """Question whose models are not priced yet, and the data to price them.

    Its first kinds are `hosts`. By kind: its components, the platform of one of it alone, and the
    names of its devices there.
    """

    question: Question
    planner: Planner
    components: tuple[Components, ...]
    alone: tuple[Platform, ...]
    names: tuple[tuple[str, ...], ...]
    hosts: int

    def priced(self, k: int, counts: Counts, within_s: float = inf) -> None:
        """Price the models on the devices of a kind, on the platform of `counts`."""
        kind = self.question.kinds[k]
        self.planner.add(counts, self.alone[k], self.names[k], kind.devices, within_s)

    @property
    def so_far(self) -> Question:
        """Return the question with what is priced so far."""
        planner = self.planner
        return replace(
            self.question, ways=dict(planner.ways), off=dict(planner.off), priced=planner.priced
        )


def question_of(draft: UnpricedQuestion) -> Question:
    """Return the question of a draft with all of its models priced.

    Each model is planned on each device alone, in each batch size that it takes, and on sets of
    devices. Raises as ``recommend``.
    """
    nodes, kinds = draft.hosts, draft.question.kinds
    together = tuple(int(k >= nodes) for k in range(len(kinds)))
    for k in each(
        (*range(nodes, len(kinds)), *range(nodes)),
        lambda k: kinds[k].name,
        lambda k: len(draft.names[k]) or 1,
        high=0.8,
    ):
        draft.priced(k, together if k >= nodes else one_of_kind(k, len(kinds)))
    question = replace(draft.so_far, free=draft.planner.free())
    with part(0.8, 1.0, "splits"):
        splits, off = splits_of(question, draft.components, draft.planner)
    return replace(question, splits=splits, off={**off, **question.off})


def one_of_kind(k: int, kinds: int) -> Counts:
    """Return the vector with one of a kind."""
    return tuple(int(at == k) for at in range(kinds))


def draft_of(
    workload: Workload,
    catalog: Catalog,
    *,
    aim: Aim,
    max_devices: int,
    terms: ServicePrices,
    asked: ModelOptions | None = None,
    losses: int = 0,
    batches: Sequence[int] = BATCHES,
    apart: bool = False,
) -> UnpricedQuestion:
    """Return the question and the available hardware, before any model is priced.

    `batches` and `apart` as in ``Planner``. Raises as ``recommend``.
    """
    _check(workload)
    asked = ModelOptions() if asked is None else asked
    entries = (*catalog.hosts, *catalog.kinds)
    components = tuple(components_of(one, catalog.folder) for one in entries)
    ones = [one_of_kind(k, len(components)) for k in range(len(components))]
    alone = [
        replace(composed(components, row, one.name), price=one.price)
        for one, row in zip(components, ones, strict=True)
    ]
    costs = costs_of(aim, entries, alone, terms)
    nodes = len(catalog.hosts)
    types: list[DeviceType] = []
    kinds: list[Kind] = []
    names: list[tuple[str, ...]] = []
    for k, (entry, platform) in enumerate(zip(entries, alone, strict=True)):
        whole, parts, price = costs[k]
        mine = tuple(name for name in platform.devices if k < nodes or name != FRONT)
        first = len(types)
        for name in mine:
            spec = platform.devices[name]
            types.append(DeviceType(name, spec.streams, spec.memory_bytes))
        kinds.append(
            Kind(
                entry.name,
                tuple(range(first, len(types))),
                len(build_routes(platform)[0]),
                whole,
                min(entry.most or max_devices, max_devices),
                entry.slots,
                entry.on_link,
                price=price,
                parts=parts,
            )
        )
        names.append(mine)
    models = tuple(dict.fromkeys(stream.model for stream in workload.streams))
    every = [
        RequestClass(at, dims)
        for at, model in enumerate(models)
        for stream in workload.streams
        if stream.model == model
        for dims in stream.variants
    ]
    classes = [one for k, one in enumerate(every) if one not in every[:k]]
    planner = Planner(models, classes, asked, components, batches=batches, apart=apart)
    given = not workload.drawn
    if given and expected(workload) > MOST_GIVEN:
        raise UsageError(
            f"about {expected(workload):.2g} requests come, above {MOST_GIVEN}",
            hint="write fewer requests:, or a shorter duration_s:",
        )
    rates = (None,) * len(workload.streams) if given else rates_of(workload)
    asks = [
        ClassRequests(
            at,
            classes.index(RequestClass(models.index(one.model), dims)),
            None if rate is None else rate / len(one.variants),
        )
        for at, (one, rate) in enumerate(zip(workload.streams, rates, strict=True))
        for dims in one.variants
    ]
    question = Question(
        aim,
        max_devices,
        tuple(types),
        tuple(kinds),
        models,
        tuple(classes),
        tuple(
            QuestionStream(one.name, models.index(one.model), one.slos) for one in workload.streams
        ),
        tuple(asks),
        {},
        given,
        workload.warm_up_s,
        arrivals_of(workload) if given else None,
        losses=losses,
    )
    return UnpricedQuestion(question, planner, components, tuple(alone), tuple(names), nodes)


def _check(workload: Workload) -> None:
    if not any(stream.slos for stream in workload.streams):
        raise UsageError("no stream has an objective", hint="write slos: [p99=50ms], say")
    if workload.failures is not None:
        raise UsageError(
            "no platform is searched for where devices fail", hint="leave failures out"
        )
    if workload.closed:
        raise UsageError(
            "clients wait for answers, so what comes depends on the platform",
            hint="write arrivals at a rate, or a replay",
        )
    if any(stream.priority is not None for stream in workload.streams):
        raise UsageError(
            "streams have priorities, and no deployment that is looked at has levels",
            hint="leave priority: out",
        )
    if workload.drawn and any(len(stream.variants) > 1 for stream in workload.streams):
        raise UsageError(
            "shapes follow a trace, and the requests of other streams are random",
            hint="write constant arrivals, or a replay, for each stream",
        )
