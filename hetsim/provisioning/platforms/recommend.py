"""The verb ``recommend``: the cheapest platform that meets every objective of a workload."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hetsim.analysis.sureness import MOST_DRAWS
from hetsim.core import checks
from hetsim.core.going import Pace, say, stage
from hetsim.hardware.price import Price, parse_price
from hetsim.provisioning.platforms.answer import (
    Chosen,
    Recommendation,
    excuses_of,
)
from hetsim.provisioning.platforms.any_plan import too_slow
from hetsim.provisioning.platforms.binding import binding_of
from hetsim.provisioning.platforms.bounds.bound import Bound, choices
from hetsim.provisioning.platforms.bounds.capacity import bound_of
from hetsim.provisioning.platforms.bounds.needs import needs
from hetsim.provisioning.platforms.catalog import MOST, Catalog, load_catalog
from hetsim.provisioning.platforms.composing import Pieces
from hetsim.provisioning.platforms.deploying import deployment_of, platform_of, told
from hetsim.provisioning.platforms.doubt import AS_SAID, Demand, chance_of, demand_of_text, doubt_of
from hetsim.provisioning.platforms.policies import Placed
from hetsim.provisioning.platforms.question import AIMS, SLACK, UNIT, UNITS, Aim, Counts, Question
from hetsim.provisioning.platforms.searching import BUDGET, Found, Search, Tried, excluded_by
from hetsim.provisioning.platforms.tables import question_of
from hetsim.provisioning.platforms.vectors import Level, all_vectors
from hetsim.provisioning.rates.redundancy.answer import Loss, Survived
from hetsim.provisioning.rates.surviving import survive_as
from hetsim.simulation.service.asked import Asked
from hetsim.simulation.service.cost import Prices
from hetsim.simulation.service.serving import serve
from hetsim.workload.workload import Workload

MAX_DEVICES = 8

MOST_LOSSES = 4
"""Devices that may be lost at once: each such set of a platform is played."""


@checks.takes(
    workload=checks.instance("hetsim.workload.workload:Workload"),
    catalog=checks.either(
        checks.instance("hetsim.provisioning.platforms.catalog:Catalog"), checks.path
    ),
    objective=checks.one_of(*AIMS),
    max_devices=checks.whole(1, MOST),
    most_requests=checks.whole(1),
    draws=checks.whole(0, MOST_DRAWS),
    prices=checks.mapping(
        checks.text, checks.either(checks.instance("hetsim.hardware.price:Price"), checks.text)
    ),
    tariff_usd_per_kwh=checks.number(least=0),
    lifetime_years=checks.number(above=0),
    demand=checks.text,
    losses=checks.whole(0, MOST_LOSSES),
)
def recommend(
    workload: Workload,
    catalog: Catalog | str | os.PathLike[str],
    *,
    objective: Aim = "cost",
    max_devices: int = MAX_DEVICES,
    prices: Mapping[str, Price | str] | None = None,
    tariff_usd_per_kwh: float | None = None,
    lifetime_years: float | None = None,
    most_requests: int = BUDGET,
    draws: int | None = None,
    demand: str | None = None,
    losses: int = 0,
) -> Recommendation:
    """Return the cheapest platform that meets every objective, and what excludes the rest.

    Platforms are *vectors*: so many of each kind of the catalog, in order of what they cost, then
    of fewer devices. What comes before the answer is excluded by a bound that holds for every
    policy over the plans that are looked at: each model whole on one device, and split over sets
    of devices that carry more than these do alone, in every batch size. Or it was tried: each of a
    few stated policies was played on the same requests, and misses; or it is named as undecided.
    Requests of traces and even streams are given, and counted; of drawn ones the verdicts are of
    the long run, all together right in 95 of 100 cases.

    Parameters
    ----------
    workload : Workload
        With objectives. Its requests come at rates or by a trace; no clients, no failures.
    catalog : Catalog, or path or names
        What can be had, as ``load_catalog`` takes it.
    objective : "cost", "energy" or "devices"
        US dollars an hour; watts where all devices are busy; how many devices.
    max_devices : int
        How many there are at most, hosts not counted.
    prices : mapping of str to Price or str, optional
        By kind or a pattern of kinds, e.g. ``{"rock-5b": "150/3y"}``; before what files say.
    tariff_usd_per_kwh, lifetime_years : float, optional
        For what is bought.
    most_requests : int
        Drawn requests after which a run ends undecided.
    draws : int, optional
        Monte Carlo samples of what figures may be off by, in which the answer and what is near it
        are asked again, see ``doubt``; 0: none. Absent: the answer alone, in SAMPLES of them.
    demand : str, optional
        Factors on what comes, ``0.8,1,1.3`` or ``0.8:0.2,1:0.5,1.3:0.3``, for the same.
    losses : int
        Objectives are to be met without any so many devices, too, as ``survive`` has it; what loses
        the last instance of a model is not looked at with other plans, and misses.

    Raises
    ------
    UsageError
        Where a price is not known; or what is asked cannot be answered: closed loops, failures,
        priorities.
    WorkloadError, PlatformError
        Where what is read cannot be used.

    Complexity: the plans of each model on each kind, and some runs of the workload.
    """
    terms = Prices(
        {
            name: parse_price(price) if isinstance(price, str) else price
            for name, price in (prices or {}).items()
        },
        tariff_usd_per_kwh,
        lifetime_years,
    )
    return recommended(
        workload,
        catalog if isinstance(catalog, Catalog) else load_catalog(catalog),
        aim=objective,
        max_devices=max_devices,
        terms=terms,
        budget=most_requests,
        draws=draws,
        demand=AS_SAID if demand is None else demand_of_text(demand),
        losses=losses,
    )


def recommended(
    workload: Workload,
    catalog: Catalog,
    *,
    aim: Aim,
    max_devices: int,
    terms: Prices,
    asked: Asked | None = None,
    budget: int = BUDGET,
    draws: int | None = None,
    demand: Demand = AS_SAID,
    losses: int = 0,
) -> Recommendation:
    """Return what ``recommend`` does, of models read and priced as `asked`."""
    asks_near = bool(draws) or demand != AS_SAID
    with stage("of planning"):
        question, pieces = question_of(
            workload,
            catalog,
            aim=aim,
            max_devices=max_devices,
            terms=terms,
            asked=asked,
            losses=losses,
        )
    with stage("of the search"):
        search = Search(question, workload, budget=budget, tell=Telling(question))
        found = search.found()
    answer, second = found.answer, found.runner_up
    cap = question.dearest if answer is None else question.cost(answer.counts)
    excluded, dearer = excluded_by(found, cap)
    vectors = all_vectors(question)
    binding = binding_of(found, None if answer is None else answer.counts)
    doubt = None
    if draws is None and not asks_near:
        with stage():
            doubt = chance_of(found, workload)
    if asks_near:
        near = None
        if binding is not None:
            near = tuple(binding.counts.get(kind.name, 0) for kind in question.kinds)
        with stage():
            doubt = doubt_of(
                found, workload, draws=draws or 1, demand=demand, budget=budget, near=near
            )
    return Recommendation(
        workload,
        None if answer is None else chosen(found, pieces, answer, workload, asked, budget),
        None if second is None else question.named(second.counts),
        None if second is None else question.amount(second.counts),
        tuple(question.named(counts) for counts in found.undecided),
        excuses_of(found, excluded),
        dearer,
        vectors,
        binding,
        impossible(question) if answer is None else None,
        found.policies,
        found,
        pieces,
        doubt,
    )


class Telling:
    """Progress of one search: the vector that is played, and what is left of its level.

    Where the answer lies is not known before it is found; how many vectors of a level are undecided
    is. So what is told to be left is until all vectors up to a cost are decided.

    Parameters
    ----------
    question : Question
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self._level: Level | None = None
        self._pace = Pace()

    def __call__(self, counts: Counts, level: Level, share: float) -> None:
        """Say which vector of a level is played, of which `share` is decided, in [0, 1)."""
        if level is not self._level:
            self._level, self._pace = level, Pace()
        question = self._question
        most = f"{float(level.cap * UNIT[question.aim]):.4g} {UNITS[question.aim]}"
        left_s = self._pace.left_s(share)
        say(0.0, f"{told(question, counts)} of those up to {most}", left_s, of="of these")


def impossible(question: Question) -> str | None:
    """Return why no vector can meet the objectives, with models cut however one likes.

    None where that is not proved: the bounds of the search are of the plans that are looked at,
    and others may do what these cannot.

    What nothing can run, or not in time, of an ask that is more than may be late; and more work,
    on time, than all devices of the largest vector have seconds for.
    """
    if not question.free:
        return None
    for bound in needs(question):
        ask = question.asks[bound.ask]
        which = bound.slo[ask.stream]
        assert which is not None
        limit_s = question.streams[ask.stream].slos[which].latency_s
        model = question.models[question.classes[ask.of_class].model]
        why = too_slow(model, question.free[ask.of_class], limit_s)
        if why is not None:
            return why
    most = most_devices(question)
    work_s = np.array([one.work_s for one in question.free])
    for slo in choices(question):
        each = np.zeros(question.resources)
        each[: len(question.types)] = 1.0
        busy = bound_of(question, slo, (each, work_s))
        if busy is not None and most < busy.least * (1 - SLACK):
            return _too_much(busy, most)
    return None


def most_devices(question: Question) -> int:
    """Return a number of devices that no vector exceeds."""
    kinds = [len(kind.devices) for kind in question.kinds if not kind.slots]
    hosts = [len(kind.devices) for kind in question.kinds if kind.slots]
    return question.max_devices * max(kinds, default=0) + max(hosts, default=0)


def _too_much(busy: Bound, most: int) -> str:
    return (
        f"what comes keeps {busy.least:.4g} devices busy, cut however one likes, and no platform "
        f"has more than {most}"
    )


def chosen(
    found: Found,
    pieces: tuple[Pieces, ...],
    one: Tried,
    workload: Workload,
    asked: Asked | None,
    budget: int,
) -> Chosen:
    """Return a vector that meets, with what becomes of the workload on its platform."""
    question = found.question
    best = one.best(question)
    assert best is not None
    assert isinstance(best.placed, Placed)
    policy = found.policies[best.policies[0]]
    platform = platform_of(question, pieces, one.counts)
    deployment = deployment_of(question, pieces, best.placed, policy)
    drawn = not question.given
    comes = replace(workload, duration_s=None, requests=budget) if drawn else workload
    service = serve(deployment, comes, platform, asked=asked, until_answered=drawn)
    survived = None
    if question.losses:
        survived = survive_as(
            deployment, comes, platform, losses=question.losses, asked=asked, until_answered=drawn
        )
        survived = survived if drawn else counted(survived)
    return Chosen(
        question.named(one.counts),
        question.amount(one.counts),
        policy,
        platform,
        deployment,
        service,
        survived,
    )


def counted(survived: Survived) -> Survived:
    """Return what survives where all requests are given: who is late is counted, not estimated."""
    losses = sorted(map(_counted, survived.losses), key=lambda one: one.badness, reverse=True)
    return replace(survived, intact=_counted(survived.intact), losses=tuple(losses))


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
