"""Cheapest purchase or rent for one model at a rate, over all priced kinds of a catalog.

Kinds are priced in order of cost, up to the cost of the first answer of one kind alone; then
cheaper mixes are excluded or simulated.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, inf
from pathlib import Path

import numpy as np

from hetsim.core.deadline import now_s
from hetsim.core.progress import part, say
from hetsim.errors import UsageError
from hetsim.hardware.files.catalog_files import is_path
from hetsim.hardware.files.inventory import Catalog, load_catalog
from hetsim.provisioning.platforms.answer import (
    ExclusionReason,
    Recommendation,
    binding_of,
    excuses_of_tried,
)
from hetsim.provisioning.platforms.bounds.bound import choices, in_the_long_run
from hetsim.provisioning.platforms.bounds.prices import alike, usable
from hetsim.provisioning.platforms.catalog_search import (
    UnpricedQuestion,
    chosen_of,
    draft_of,
    one_of_kind,
)
from hetsim.provisioning.platforms.policies import Policy, policies_for_one
from hetsim.provisioning.platforms.priced import (
    LIFETIME_YEARS,
    TARIFF_USD_PER_KWH,
    KindMix,
    PricedOffer,
    Purchase,
    SingleKind,
    Standing,
    priced_catalog,
)
from hetsim.provisioning.platforms.question import (
    SLACK,
    UNIT,
    Counts,
    DeviceSplit,
    Question,
    TimeUncertainty,
)
from hetsim.provisioning.platforms.robustness import probability_of_meeting
from hetsim.provisioning.platforms.search import Search, SearchResult, TriedVector
from hetsim.provisioning.platforms.splits import splits_of
from hetsim.provisioning.platforms.vectors import survey
from hetsim.simulation.service.cost import ServicePrices
from hetsim.simulation.service.resolution import ModelOptions
from hetsim.statistics.verdict import FIRST_LOOK
from hetsim.workload.arrivals import Poisson
from hetsim.workload.workload import Slo, Stream, Workload

SIZES = (1, 4, 16)
"""Batch sizes to plan."""

TIME_LIMIT_S = 45.0
MAX_DEVICES = 64
REQUESTS = 2**16
"""Number of requests after which a run ends undecided."""

OF_ALONE, OF_OTHERS, OF_GUESSES, OF_MIXES = 0.5, 0.55, 0.65, 0.8
"""Shares of the time at which kinds alone, alternatives, guesses, and mixes end.

The answer is prepared in the rest.
"""

LONGER = 4
"""Factor on the requests simulated for a mix that was undecided."""

BEFORE = 1000
"""Number of runs charged to the error of such longer runs beforehand, above their actual number."""

AT_ONCE = 2**18
"""Number of mixes enumerated at a time."""

MANY, MISSES = 64, 16
"""Number of mixes above which some are guessed first, until that many misses in a row."""

MOST_NAMED = 8
"""Maximum number of undecided mixes to name."""


def purchased(
    model: str,
    *,
    rate_per_s: float,
    slos: Sequence[Slo],
    catalog: str | os.PathLike[str] | Catalog | None = None,
    dims: Mapping[str, int] | None = None,
    prices: ServicePrices | None = None,
    asked: ModelOptions | None = None,
    max_devices: int = MAX_DEVICES,
    budget: int = REQUESTS,
    samples: int | None = None,
    time_limit_s: float = TIME_LIMIT_S,
) -> Recommendation:
    """Return the cheapest purchase or rent that sustains `rate_per_s` within every objective.

    Plans: the model whole on one device, or split across devices of one board or machine, in
    batches of ``SIZES``. Requests are a Poisson process and reach each node over its network link.

    *Why nothing cheaper meets.* By prices of the time of devices and links (``bound_of``) one of
    kind k sustains at most s_k requests per second within the limit, and r = share x rate must be
    on time. So a mix n needs ``sum n_k s_k >= r``. With e the least cost per request ``c_k / s_k``
    of all kinds, a mix costs ``sum n_k c_k >= e r + sum n_k (c_k - e s_k)``, and no term is below
    0. Hence a mix that costs less than the best known answer C has ``n_k (c_k - e s_k) < C - e r``
    for each kind: a kind for which one is too many is in no cheaper mix, and others are limited. A
    kind that costs more than C need not even be priced. A kind with ``s_k = 0`` answers no request
    in time: without it a mix is cheaper and does as much. All remaining mixes are excluded by the
    bounds of the search or simulated with every policy, in order of cost, until one meets.

    Parameters are those of ``recommend`` for one model: `asked` has options for reading and pricing
    it, `prices` override those of the catalog, runs end undecided after `budget` requests, and
    `time_limit_s` counts CPU seconds as ``deadline.now_s``; after that the best answer so far is
    returned with the undecided mixes.

    Raises UsageError, WorkloadError, PlatformError or ModelError if a name has no price, or a file
    cannot be used.

    Complexity: one plan per kind cheaper than the answer, and the runs of cheaper mixes that are
    not excluded.
    """
    began_s = now_s()
    terms = ServicePrices() if prices is None else prices
    if terms.tariff_usd_per_kwh is None:
        terms = replace(terms, tariff_usd_per_kwh=TARIFF_USD_PER_KWH)
    if terms.depreciation_years is None:
        terms = replace(terms, depreciation_years=LIFETIME_YEARS)
    can_be_had, had, unpriced = _catalog(catalog)
    label = model.removeprefix("zoo:") if model.startswith("zoo:") else Path(model).stem
    stream = Stream(label, model, Poisson(rate_per_s), slos=tuple(slos), dims=dict(dims or {}))
    workload = Workload((stream,), requests=budget)
    with part(0.0, 0.05, "prices"):
        draft = draft_of(
            workload,
            can_be_had,
            aim="cost",
            max_devices=max_devices,
            terms=terms,
            asked=asked,
            batches=SIZES,
            apart=True,
        )
    market = Market(draft, workload, budget, began_s, time_limit_s)
    with part(0.05, 0.5):
        market.alone()
    with part(0.5, 0.8):
        found, complete, rest = market.mixes()
    with part(0.8, 1.0):
        return _told(market, found, complete, rest, asked, samples, had, unpriced, terms)


def _catalog(
    given: str | os.PathLike[str] | Catalog | None,
) -> tuple[Catalog, Mapping[str, PricedOffer], tuple[str, ...]]:
    """Return available kinds, their offers, and hardware without a price."""
    if given is None or (not isinstance(given, Catalog) and not is_path(os.fspath(given))):
        names = [] if given is None else [one.strip() for one in os.fspath(given).split(",")]
        found = priced_catalog(names)
        return found.catalog, found.had, found.unpriced
    read = given if isinstance(given, Catalog) else load_catalog(given)
    if read.hosts:
        raise UsageError(
            "a catalog file with hosts is for --workload",
            hint="write the model and its rate in a workload file, or each host with its cards "
            "as a platform of its own",
        )
    return read, {}, ()


class Market:
    """Kinds priced so far, their results alone, and the cheapest known answer."""

    def __init__(
        self,
        draft: UnpricedQuestion,
        workload: Workload,
        budget: int,
        began_s: float,
        limit_s: float,
    ) -> None:
        self.draft, self.workload, self.budget = draft, workload, budget
        self.question = draft.question
        self._began_s, self._limit_s = began_s, limit_s
        self._within_s = max(slo.latency_s for slo in workload.streams[0].slos)
        self._splits: list[DeviceSplit] = []
        self._off: dict[tuple[int, int], TimeUncertainty] = {}
        self.singles: dict[int, SingleKind] = {}
        # By undecided kind: minimum cost of its copies, and for priced ones the number of these
        # copies
        self._front = {k: float(kind.cost) for k, kind in enumerate(self.question.kinds)}
        self._least: dict[int, int] = {}
        self.runs = 0
        # Vectors that meet, with the policies that their runs name
        self.met: dict[Counts, tuple[TriedVector, tuple[Policy, ...]]] = {}

    # Time and known answers

    def spent_s(self) -> float:
        """Return the CPU seconds of the process since the start."""
        return now_s() - self._began_s

    def over(self, share: float) -> bool:
        """Return whether this share of the time has passed."""
        return self.spent_s() > share * self._limit_s

    @property
    def best(self) -> Counts | None:
        """Cheapest vector known to meet."""
        return min(self.met, key=self.question.key, default=None)

    @property
    def best_cost(self) -> float:
        """Its cost, in ``UNIT``; infinite without a known answer."""
        return inf if self.best is None else self.question.cost(self.best)

    @property
    def second(self) -> Counts | None:
        """Return the cheapest known to meet that is not a superset of the best."""
        best = self.best
        mine = [
            counts
            for counts in self.met
            if best is not None and any(n < of for n, of in zip(counts, best, strict=True))
        ]
        return min(mine, key=self.question.key, default=None)

    def say(self, share: float, what: str) -> None:
        """Report progress with the best answer so far."""
        best = self.best
        if best is not None:
            usd = float(self.question.cost(best) * UNIT["cost"])
            what += f"; best so far: {self.question.told(best)} at ${usd:.3g}/h"
        say(share, what)

    # Single kinds

    def alone(self) -> None:
        """Price and simulate each kind alone if it may be an answer.

        In order of the possible cost of its copies (one copy if not priced): except for the first
        that may meet, no kind is priced or simulated that cannot beat the answer.
        """
        kinds = self.question.kinds
        everything = range(len(kinds))
        self._explore(everything, OF_ALONE, lambda: self.best_cost)
        self._explore(
            everything,
            OF_OTHERS,
            lambda: inf if self.second is None else self.question.cost(self.second),
        )

        def least_of(mine: Sequence[int]) -> float:
            """Return the least cost of copies of one of these kinds that meet."""
            singles = ((k, self.singles.get(k)) for k in mine)
            return min(
                (
                    one.copies * kinds[k].cost
                    for k, one in singles
                    if one and one.copies is not None
                ),
                default=inf,
            )

        for rents in (False, True):
            mine = [k for k in everything if self._rents(k) == rents]
            self._explore(mine, OF_OTHERS, partial(least_of, mine))
        for k, least in self._front.items():
            if least < self.best_cost:
                self._stands(k, "open")
            else:
                self._stands(k, "weak" if k in self._least else "dearer", self._least.get(k))

    def _explore(self, mine: Sequence[int], share: float, below: Callable[[], float]) -> None:
        """Examine the kinds, most promising first, for a cost less than `below`."""
        kinds = self.question.kinds
        while found := [k for k in mine if k in self._front]:
            k = min(found, key=lambda k: (self._front[k], k))
            if self._front[k] >= below() or self.over(share):
                return
            done = 1 - len(self._front) / len(kinds)
            if k not in self._least:
                self.say(done, f"price of {kinds[k].name}")
                self._price(k)
                self._bound(k)
                if self.best is not None or k not in self._front:
                    continue
            self.say(done, f"{kinds[k].name} alone")
            del self._front[k]
            copies = self._played(k, self._least[k], below())
            self._stands(k, "misses" if copies is None else "meets", self._least[k], copies)

    def _rents(self, k: int) -> bool:
        price = self.question.kinds[k].price
        return price is not None and price.rented

    def _stands(
        self,
        k: int,
        standing: Standing,
        least: int | None = None,
        copies: int | None = None,
        figure: float | None = None,
    ) -> None:
        kind = self.question.kinds[k]
        usd = None if kind.price is None else kind.price.usd
        hourly = float(kind.cost * UNIT["cost"])
        self.singles[k] = SingleKind(kind.name, hourly, usd, standing, least, copies, figure)

    def _bound(self, k: int) -> None:
        """Set the minimum number of copies of a priced kind by the bound, and their cost."""
        kind = self.question.kinds[k]
        quickest = min(
            [
                *(way.alone_s for p in kind.devices for way in self.question.ways.get((p, 0), ())),
                *(way.alone_s for one in self._splits if one.kinds == (k,) for way in one.ways[0]),
            ],
            default=inf,
        )
        if quickest > self._within_s:
            del self._front[k]
            refused = quickest == inf
            self._stands(k, "refused" if refused else "slow", figure=None if refused else quickest)
            return
        sustained, needed = self.sustained()
        least = max(ceil(needed / sustained[k] * (1 - SLACK)), 1)
        if least > min(kind.most, self.question.max_devices):
            del self._front[k]
            self._stands(k, "many", least)
            return
        self._least[k] = least
        self._front[k] = least * kind.cost

    def _price(self, k: int) -> None:
        """Price the model on a kind: whole on each device, and split across several."""
        draft = self.draft
        draft.priced(k, one_of_kind(k, len(self.question.kinds)), self._within_s)
        self.question = replace(draft.so_far, splits=tuple(self._splits))
        splits, off = splits_of(self.question, draft.components, draft.planner, within=k)
        self._splits += splits
        self._off.update(off)
        self.question = replace(
            self.question, splits=tuple(self._splits), off={**self._off, **self.question.off}
        )

    def sustained(self) -> tuple[list[float], float]:
        """Return by kind the bound on requests per second, and the rate that must be on time.

        Uses the prices of device and link time by which the cheapest mix costs most.
        """
        question = self.question
        found: tuple[list[float], float] = ([0.0] * len(question.kinds), 1.0)
        dearest = -1.0
        for slo in choices(question):
            for capacity, worth in usable(alike(question, slo)):
                each = [
                    float(capacity[question.resources_of(k)].sum())
                    for k in range(len(question.kinds))
                ]
                needed = in_the_long_run(question, slo, worth)
                least = min(
                    needed * kind.cost / mine
                    for kind, mine in zip(question.kinds, each, strict=True)
                    if mine > 0
                )
                if least > dearest:
                    found, dearest = (each, needed), least
        return found

    def least_costs(self) -> list[float]:
        """Return the least cost of the rate by each kind alone, in fractional numbers."""
        sustained, needed = self.sustained()
        each = zip(self.question.kinds, sustained, strict=True)
        return [needed * kind.cost / mine for kind, mine in each if mine > 0]

    def _played(self, k: int, least: int, below: float) -> int | None:
        """Return the fewest copies seen to meet at a cost less than `below`, or None."""
        search = self._search(self.question, min(self.budget, 2 * FIRST_LOOK), self.runs)
        cost, most = self.question.kinds[k].cost, self.question.max_devices
        most = min(self.question.kinds[k].most, most)
        misses, step = least - 1, max(1, least // 16)
        number, found = least, None
        while found is None and number <= most and number * cost < below:
            if self._meets(search, k, number):
                found = number
            else:
                misses, number, step = number, number + step, 2 * step
        while found is not None and found - misses > 1:
            middle = (misses + found) // 2
            if self._meets(search, k, middle):
                found = middle
            else:
                misses = middle
        self.runs = search.runs
        return found

    def _search(
        self, question: Question, budget: int, before: int, *, sampled: bool = False
    ) -> Search:
        """Return a search by the policies for one model, without prices for each vector."""
        return Search(
            question,
            self.workload,
            budget=budget,
            sampled=sampled,
            cut=False,
            before=before,
            policies=policies_for_one(question),
            by_batches=True,
        )

    def _meets(self, search: Search, k: int, number: int) -> bool:
        counts = tuple(number * n for n in one_of_kind(k, len(self.question.kinds)))
        one = search.play(counts)
        if one.answer == "meets":
            self.met[counts] = (one, search.policies)
        return one.answer == "meets"

    # Mixes

    def _limited(self) -> Question:
        """Return the question with each kind limited to its maximum in a cheaper mix."""
        question = self.question
        sustained, needed = self.sustained()
        kinds = list(zip(question.kinds, sustained, strict=True))
        unit = min((kind.cost / mine for kind, mine in kinds if mine > 0), default=0.0)
        found = []
        for kind, mine in kinds:
            most = 0
            if mine > 0 and self.best_cost < inf:
                most = min(kind.most, ceil(self.best_cost / kind.cost) - 1)
                more = kind.cost - unit * mine
                gap = self.best_cost - unit * needed
                if more > kind.cost * SLACK:
                    most = min(most, int((gap + self.best_cost * SLACK) / (more * (1 - SLACK))))
            elif mine > 0:
                most = kind.most
            found.append(replace(kind, most=max(most, 0)))
        return replace(question, kinds=tuple(found))

    def mixes(self) -> tuple[SearchResult, bool, Sequence[Counts]]:
        """Simulate cheaper mixes in order; return the result, whether all were, and which were not.

        The first that meets is the answer.
        """
        limited = self._limited()
        search = self._search(limited, self.budget, self.runs, sampled=True)
        longer = self._search(limited, self.budget * LONGER, self.runs + BEFORE)
        policies = search.policies
        tried: list[TriedVector] = []
        rest: list[Counts] = []
        complete = all(one.standing != "open" for one in self.singles.values())
        below = self.best_cost
        most = limited.dearest if below == inf else int(below) - 1
        try:
            rows = survey(limited, search.tests, most, counted=False, at_once=AT_ONCE).left
            listed = [tuple(row) for row in rows.tolist() if any(row)]
        except UsageError:
            # Too many to enumerate: as many as the time allows, cheapest first.
            listed, complete = [], False

        def plays(counts: Counts) -> bool:
            one = search.play(counts)
            if one.answer == "undecided" and not self.over(OF_MIXES):
                one = longer.play(counts)
            if one.answer == "meets":
                self.met[counts] = (one, policies)
            else:
                tried.append(one)
            return one.answer == "meets"

        if len(listed) > MANY:
            # More than can be simulated: highest rate first, to find a cheaper answer early.
            each = np.array(self.sustained()[0])
            misses = 0
            for counts in sorted(listed, key=lambda counts: -float(each @ np.array(counts))):
                if self.over(OF_GUESSES) or misses == MISSES:
                    break
                if limited.cost(counts) < self.best_cost:
                    self.say(0.0, f"one of {len(listed)} mixes")
                    misses = 0 if plays(counts) else misses + 1
        played, cost = {one.counts for one in tried}, self.best_cost
        listed = [
            counts for counts in listed if counts not in played and limited.cost(counts) < cost
        ]
        for at, counts in enumerate(listed):
            if self.over(OF_MIXES):
                rest = listed[at:]
                break
            self.say(at / len(listed), f"mix {at + 1} of {len(listed)}")
            if plays(counts):
                break
        cost = self.best_cost
        tried = sorted(
            (one for one in tried if limited.cost(one.counts) < cost),
            key=lambda one: limited.key(one.counts),
        )
        best = self.best
        answer, policies = (None, policies) if best is None else self.met[best]
        found = SearchResult(
            self.question,
            policies,
            tuple(search.bounds),
            tuple(search.tests),
            tuple(tried),
            answer,
            None if self.second is None else self.met[self.second][0],
        )
        return found, complete, rest

    def choice(self, label: str, counts: Counts) -> KindMix:
        """Return a known answer with its purchase price, latency and utilization."""
        question = self.question
        best = self.met[counts][0].best(question)
        assert best is not None
        assert best.played is not None
        said = best.played.worst(question)
        sustained, _ = self.sustained()
        most = sum(n * mine for n, mine in zip(counts, sustained, strict=True))
        rate = sum(ask.rate_per_s or 0.0 for ask in question.asks)
        bought = [
            n * kind.price.usd
            for n, kind in zip(counts, question.kinds, strict=True)
            if n and kind.price is not None and kind.price.usd is not None
        ]
        return KindMix(
            label,
            question.named(counts),
            sum(bought) if bought else None,
            question.amount(counts),
            question.streams[said.stream].slos[said.slo].percentile,
            said.latency_s,
            rate / most,
        )

    def choices(self) -> tuple[KindMix, ...]:
        """Return the best, the next best, and the cheapest bought and rented known to meet."""
        question, best = self.question, self.best
        if best is None:
            return ()

        def rents(counts: Counts) -> set[bool]:
            return {self._rents(k) for k, n in enumerate(counts) if n}

        rows = {best: "best"}
        for label, wanted in (("best bought", {False}), ("best rented", {True})):
            mine = [counts for counts in self.met if rents(counts) == wanted]
            if mine:
                rows.setdefault(min(mine, key=question.key), label)
        second = self.second
        if second is not None:
            rows.setdefault(second, "alternative")
        return tuple(
            self.choice(label, counts)
            for counts, label in sorted(rows.items(), key=lambda row: question.key(row[0]))
        )

    def cheaper(self) -> int | None:
        """Return the number of cheaper mixes of priced kinds; None if too many to count."""
        below = self.best_cost
        if below == inf:
            return None
        kinds = tuple(kind for kind in self.question.kinds if kind.cost < below)
        if not kinds:
            return 0
        cheap = replace(self.question, kinds=kinds, losses=0)
        try:
            return len(survey(cheap, (), int(below) - 1, counted=False, at_once=AT_ONCE).left) - 1
        except UsageError:
            return None


def _told(
    market: Market,
    found: SearchResult,
    complete: bool,
    rest: Sequence[Counts],
    asked: ModelOptions | None,
    samples: int | None,
    had: Mapping[str, PricedOffer],
    unpriced: tuple[str, ...],
    terms: ServicePrices,
) -> Recommendation:
    """Return the full answer: proofs, deployment and robustness."""
    question, workload, budget = market.question, market.workload, market.budget
    answer = found.answer
    made = market.draft.planner.common
    best = None
    if answer is not None:
        market.say(0.0, "the answer")
        best = chosen_of(found, market.draft.components, answer, workload, asked, budget, made)
    robustness = None
    if samples != 0 and answer is not None:
        robustness = probability_of_meeting(
            found, workload, samples=samples, over=lambda: market.over(1.0)
        )
    left = [*found.undecided, *rest]
    cheaper = market.cheaper()
    wrong = sum(one.answer == "misses" for one in found.tried)
    least = min((question.cost(counts) for counts in left), default=market.best_cost)
    if not complete or least == inf:
        # A mix with a kind that was not priced costs at least as much as one of it.
        unpriced_costs = (
            kind.cost
            for k, kind in enumerate(question.kinds)
            if market.singles[k].standing == "open"
        )
        least = min([least, *market.least_costs(), *unpriced_costs], default=0.0)
    singles = tuple(
        market.singles[k] for k in sorted(market.singles, key=lambda k: (question.kinds[k].cost, k))
    )

    proved = None if cheaper is None else cheaper - wrong - len(left)
    what = "the devices that are quick enough, with their links, sustain less than the rate"
    if all(one.standing in ("slow", "refused") for one in singles):
        what = "no plan answers one request within the limit"
    excuses = [ExclusionReason(what, proved or 0, True)] if proved is None or proved else []
    excuses += excuses_of_tried(found)
    return Recommendation(
        workload,
        best,
        tuple(question.named(counts) for counts in left[:MOST_NAMED]),
        tuple(excuses),
        0,
        (cheaper or 0) + int(answer is not None),
        binding_of(found, None if answer is None else answer.counts) if found.ran() else None,
        None,
        found,
        market.draft.components,
        robustness,
        Purchase(
            had,
            singles,
            unpriced,
            terms.depreciation_years or 0.0,
            terms.tariff_usd_per_kwh or 0.0,
            float(least * float(UNIT["cost"])),
            cheaper,
            wrong,
            tuple(question.named(counts) for counts in rest[:MOST_NAMED]),
            len(left),
            market.choices(),
            complete and not left,
            market.spent_s(),
        ),
    )
