"""Search: vectors in order, excluded by bounds, or simulated until one meets every objective."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hetsim.core.progress import Pace, say
from hetsim.provisioning.platforms.bounds.bound import Bound, Slos, bound_of, choices, needs
from hetsim.provisioning.platforms.bounds.pooled import pooled, pooled_drawn
from hetsim.provisioning.platforms.bounds.prices import PolicyBounds, alike, at_vector, matters
from hetsim.provisioning.platforms.placements import Placements, remaining_placements, routing_of
from hetsim.provisioning.platforms.policies import PlacedInstances, Policy, placed, policies_of
from hetsim.provisioning.platforms.question import UNIT, UNITS, Arrivals, Counts, Question, drawn
from hetsim.provisioning.platforms.simulation import (
    RUNS,
    SimulatedDeployment,
    play_drawn,
    play_given,
)
from hetsim.provisioning.platforms.vectors import Level, Test, excludes, levels
from hetsim.provisioning.rates.answer import ANSWERS
from hetsim.statistics.verdict import Answer
from hetsim.workload.workload import Workload

ERROR = 0.05
"""Maximum probability that any verdict of a search is wrong, for random requests."""

OF_BOUNDS = 0.01
"""Part of that probability reserved for bounds."""

SAMPLE = 2**16
"""Number of random requests used for bounds."""

BUDGET = 2**18
"""Number of random requests after which an undecided run ends."""

Deployments = list[tuple[tuple[int, ...], PlacedInstances | str]]
"""Policies with the same deployment, and that deployment or the reason against it."""


@dataclass(frozen=True, slots=True, eq=False)
class DeploymentRun:
    """Run of one deployment of a vector, which several policies may share.

    `placed` may be the reason against it; `played` is then None, as it is if `bound` of the search
    excludes the policy's use of the devices. `lost` are the missing devices; `also` holds the runs
    with other losses, if all meet.
    """

    policies: tuple[int, ...]
    placed: PlacedInstances | str
    played: SimulatedDeployment | None
    bound: int | None = None
    lost: tuple[int, ...] = ()
    also: tuple[DeploymentRun, ...] = ()

    @property
    def answer(self) -> Answer:
        """Answer for all objectives; infeasible or excluded deployments miss."""
        return "misses" if self.played is None else self.played.answer

    def margin(self, question: Question) -> float:
        """Return the largest ratio of latency to limit over all losses that were simulated."""
        played = [run.played for run in (self, *self.also) if run.played is not None]
        return max(one.margin(question) for one in played)


@dataclass(frozen=True, slots=True, eq=False)
class TriedVector:
    """Simulated vector: by all policies, or up to one that meets.

    `bounds` is the number of bounds of the search at that time.
    """

    counts: Counts
    runs: tuple[DeploymentRun, ...]
    bounds: int = 0

    @property
    def answer(self) -> Answer:
        """Answer of the vector: it meets if one run does."""
        return min((run.answer for run in self.runs), key=ANSWERS.index, default="misses")

    def best(self, question: Question) -> DeploymentRun | None:
        """Return the run nearest to its limits, or furthest below them; None if none ran."""
        return min(
            (run for run in self.runs if run.played is not None),
            key=lambda run: (ANSWERS.index(run.answer), run.margin(question)),
            default=None,
        )


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """Result of the search; `tried` precede the answer, and the runner-up."""

    question: Question
    policies: tuple[Policy, ...]
    bounds: tuple[Bound, ...]
    tests: tuple[Test, ...]
    tried: tuple[TriedVector, ...]
    answer: TriedVector | None
    runner_up: TriedVector | None

    @property
    def undecided(self) -> tuple[Counts, ...]:
        """Vectors that may meet every objective."""
        return tuple(one.counts for one in self.tried if one.answer == "undecided")

    def ran(self) -> list[tuple[float, TriedVector, SimulatedDeployment]]:
        """Return the vectors that ran, in order: margin and result of their best runs."""
        best = [(one, one.best(self.question)) for one in self.tried]
        return [
            (run.margin(self.question), one, run.played)
            for one, run in best
            if run is not None and run.played is not None
        ]


def bounds_of(question: Question) -> tuple[Bound, ...]:
    """Return bounds that hold for all vectors, those with the simplest reasons first."""
    found = list(needs(question))
    for slo in choices(question):
        prices = alike(question, slo)
        # Then the prices of each kind alone, if classes differ.
        demand, mixed = demand_of(question, slo), []
        if np.count_nonzero(demand > 0) > 1:
            for at in range(len(question.kinds)):
                counts = tuple(int(k == at) for k in range(len(question.kinds)))
                mixed.append(at_vector(question, slo, demand * 1e6, counts))
        found += [bound for one in prices if (bound := bound_of(question, slo, one))]
        found += pooled(question, slo, prices)
        found += [bound for one in mixed if one and (bound := bound_of(question, slo, one))]
    return tuple(found)


def demand_of(question: Question, slo: Slos) -> NDArray[np.float64]:
    """Return by class the approximate requests per second that must be on time."""
    found = np.zeros(len(question.classes))
    arrivals = question.arrivals
    for at, ask in enumerate(question.asks):
        which = slo[ask.stream]
        if which is None:
            continue
        asked = question.streams[ask.stream].slos[which]
        rate = ask.rate_per_s or 0.0
        if arrivals is not None:
            judged = arrivals.time_s >= question.warm_up_s
            spans_s = float(arrivals.time_s[-1] - arrivals.time_s[judged][0])
            rate = float((arrivals.ask[judged] == at).sum()) / (spans_s + asked.latency_s)
        found[ask.of_class] += rate * asked.share
    return found


class Search:
    """Search in progress, with its results so far.

    Runs on random requests of `workload` end undecided after `budget` of them. With `sampled`,
    random requests also give bounds; with `cut`, prices are computed for each vector that these
    leave. The error of verdicts is spent over the runs, of which `before` precede. `policies` are
    tried; absent: those of ``policies_of``; `bounds`, absent: ``bounds_of``; `by_batches` as in
    ``play_drawn``.
    """

    def __init__(
        self,
        question: Question,
        workload: Workload | None = None,
        *,
        budget: int = BUDGET,
        sampled: bool = True,
        cut: bool = True,
        before: int = 0,
        policies: tuple[Policy, ...] | None = None,
        bounds: Sequence[Bound] | None = None,
        by_batches: bool = False,
    ) -> None:
        self._by_batches = by_batches
        self.question, self._workload, self._budget = question, workload, budget
        self.policies = policies_of(question) if policies is None else policies
        self.bounds = list(bounds_of(question) if bounds is None else bounds)
        if sampled and workload is not None and not question.given:
            # From the simulated requests, at rates suggested by others from another seed.
            count = min(budget, SAMPLE)
            each = (workload, replace(workload, seed=workload.seed ^ 1))
            arrivals, others = (Arrivals.joined(drawn(one, count)) for one in each)
            self.bounds += pooled_drawn(question, arrivals, others, OF_BOUNDS)
        # For one class, on devices alone, `alike` has all the prices that matter.
        demands = {slo: demand_of(question, slo) for slo in choices(question)}
        self._demands = {
            slo: each
            for slo, each in demands.items()
            if cut and (np.count_nonzero(each > 0) > 1 or matters(question))
        }
        self.tests = [bound.test(question) for bound in self.bounds]
        self.tried: list[TriedVector] = []
        self._under = PolicyBounds(question, self.bounds)
        self._placements = Placements(question, self._under)
        self.runs, self._played = before, 0

    def found(self) -> SearchResult:
        """Return the answer and the runner-up."""
        met: list[TriedVector] = []
        # The answer's position is unknown, but not when all vectors up to a cost are decided.
        last: Level | None = None
        for level, at in self._places():
            if level is not last:
                last, pace = level, Pace()
            told = partial(self._say, level, at, pace)
            one = self.play(level.counts[at], to_the_end=not met, told=told)
            (met if one.answer == "meets" else self.tried).append(one)
            if len(met) == 2:
                break
        answer, second, *_ = (*met, None, None)
        return SearchResult(
            self.question,
            self.policies,
            tuple(self.bounds),
            tuple(self.tests),
            tuple(self.tried),
            answer,
            second,
        )

    def _places(self) -> Iterator[tuple[Level, int]]:
        """Yield the level, and the index in it, of each vector that no bound excludes."""
        for level in levels(self.question, self.tests):
            for at, counts in enumerate(level.counts):
                if any(counts) and not excludes(self.tests, counts) and not self._cut(counts):
                    yield level, at

    def _say(self, level: Level, at: int, pace: Pace, share: float) -> None:
        """Report the current vector of a level, and the remainder of that level."""
        question = self.question
        most = f"{float(level.cap * UNIT[question.aim]):.4g} {UNITS[question.aim]}"
        what = f"{question.told(level.counts[at])} of those up to {most}"
        say(0.0, what, pace.left_s((at + share) / len(level.counts)), of="of these")

    def _cut(self, counts: Counts) -> bool:
        """Return whether prices for a vector exclude it; they are kept for later vectors."""
        question = self.question
        fewer = [counts]
        if question.losses:
            rows = range(len(counts))
            fewer += [
                tuple(n - (k == at) for k, n in enumerate(counts)) for at in rows if counts[at]
            ]
        for (slo, demand), has in product(self._demands.items(), fewer):
            prices = at_vector(question, slo, demand, has)
            bound = None if prices is None else bound_of(question, slo, prices)
            if bound is None:
                continue
            test = bound.test(question)
            if excludes([test], counts):
                self.bounds.append(bound)
                self.tests.append(test)
                return True
        return False

    def play(
        self,
        counts: Counts,
        *,
        to_the_end: bool = False,
        told: Callable[[float], None] = lambda share: None,
    ) -> TriedVector:
        """Simulate a vector with each policy, until one meets, or all of them.

        `told` is called with the completed share before each.
        """
        runs: list[DeploymentRun] = []
        deployments = self._deployments(counts)
        for at, (group, where) in enumerate(deployments):
            told(at / len(deployments))
            runs.append(self._run(group, where))
            if runs[-1].answer == "meets" and not to_the_end:
                break
        if all(run.answer != "meets" for run in runs):
            runs += self._one_by_one(counts, deployments)
        return TriedVector(counts, tuple(runs), len(self.bounds))

    def _one_by_one(self, counts: Counts, known: Deployments) -> Iterator[DeploymentRun]:
        """Yield runs of unknown placements that no bound excludes, until one meets."""
        others = self._placements.others(counts, self.policies, known)
        if others is None:
            every = tuple(at for at, one in enumerate(self.policies) if one.placement == "each")
            yield DeploymentRun(every, "more placements than are played one by one", None)
            return
        for at, where in others:
            run = self._run((at,), where)
            yield run
            if run.answer == "meets":
                return

    def _run(self, group: tuple[int, ...], where: PlacedInstances | str) -> DeploymentRun:
        """Return the result of a deployment, with all devices and after the allowed losses."""
        if isinstance(where, str):
            return DeploymentRun(group, where, None)
        policy = self.policies[group[0]]
        rest: list[tuple[tuple[int, ...], PlacedInstances]] = []
        for lost, left in remaining_placements(self.question, where):
            if isinstance(left, str):
                return DeploymentRun(group, left, None, lost=lost)
            bound = self._under.excludes(left, policy)
            if bound is not None:
                return DeploymentRun(group, left, None, bound, lost)
            rest.append((lost, left))
        found: list[DeploymentRun] = []
        # With losses it misses sooner.
        for lost, left in reversed(rest):
            found.append(DeploymentRun(group, left, self._play(left, policy), lost=lost))
            if found[-1].answer == "misses":
                return found[-1]
        undecided = [run for run in found if run.answer == "undecided"]
        return undecided[0] if undecided else replace(found[-1], also=tuple(found[:-1]))

    def meets(self, counts: Counts, first: DeploymentRun | None = None) -> bool:
        """Return whether a vector is seen to meet: not excluded by bounds, and some policy meets.

        The deployment of `first`, without losses, is tried before the policies, without enumerated
        placements.
        """
        if excludes(self.tests, counts) or self._cut(counts):
            return False
        deployments = self._deployments(counts)
        if first is not None and isinstance(first.placed, PlacedInstances) and not first.lost:
            mine = (first.policies, first.placed)
            deployments = [mine, *(one for one in deployments if one != mine)]
        return any(self._run(group, where).answer == "meets" for group, where in deployments)

    def _deployments(self, counts: Counts) -> Deployments:
        """Return the distinct deployments of all policies."""
        found: dict[object, tuple[list[int], PlacedInstances | str]] = {}
        # Routing does not affect the assignment of models.
        known: dict[Policy, PlacedInstances | str] = {}
        for at, policy in enumerate(self.policies):
            if policy.placement == "each":
                continue
            same = replace(policy, routing="least_finish")
            if same not in known:
                known[same] = placed(self.question, counts, policy)
            where = known[same]
            key: object = where
            if isinstance(where, PlacedInstances):
                key = (where.instances, policy.max_batch, policy.line, routing_of(where, policy))
            found.setdefault(key, ([], where))[0].append(at)
        return [(tuple(group), where) for group, where in found.values()]

    def _play(self, where: PlacedInstances, policy: Policy) -> SimulatedDeployment:
        if self.question.given:
            self._played += 1
            # After this number, about as many more are expected.
            return play_given(self.question, where, policy, max(RUNS, self._played))
        self.runs += 1
        return play_drawn(
            self.question,
            self._comes(),
            where,
            policy,
            error=(ERROR - OF_BOUNDS) / (self.runs * (self.runs + 1)),
            budget=self._budget,
            by_batches=self._by_batches,
        )

    def _comes(self) -> Iterator[Arrivals]:
        """Yield the requests of a run, if random."""
        assert self._workload is not None
        return drawn(self._workload, self._budget)
