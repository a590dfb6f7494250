"""The search: vectors in order, excluded by bounds, or played until one meets every objective."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hetsim.provisioning.platforms.arriving import drawn
from hetsim.provisioning.platforms.bounds.bound import Bound, choices
from hetsim.provisioning.platforms.bounds.capacity import bound_of
from hetsim.provisioning.platforms.bounds.needs import needs
from hetsim.provisioning.platforms.bounds.pooled import pooled, pooled_drawn
from hetsim.provisioning.platforms.bounds.prices import alike, at_vector, matters
from hetsim.provisioning.platforms.bounds.under import Under
from hetsim.provisioning.platforms.losing import lefts
from hetsim.provisioning.platforms.placements import Placements, routing_of
from hetsim.provisioning.platforms.playing import RUNS, Played, margin, play_drawn, play_given
from hetsim.provisioning.platforms.policies import Placed, Policy, placed, policies_of
from hetsim.provisioning.platforms.question import Arrivals, Counts, Question
from hetsim.provisioning.platforms.vectors import Level, Test, excludes, levels, survey
from hetsim.statistics.verdict import Answer
from hetsim.workload.workload import Workload

ERROR = 0.05
"""What all verdicts of a search together may be wrong by, where requests are drawn."""

OF_BOUNDS = 0.01
"""Of that: of bounds."""

SAMPLE = 2**16
"""Drawn requests that bounds are made of."""

BUDGET = 2**18
"""Drawn requests after which a run ends that has told nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One deployment of a vector, which several policies may come to.

    Attributes
    ----------
    policies : tuple of int
    placed : Placed or str
        Or why there is none.
    played : Played or None
        None where there is none, or a bound excludes it.
    bound : int or None
        Which of the search's, as the policy uses the devices.
    lost : tuple of int
        Devices without which this is so, where some may be lost.
    also : tuple of Run
        What meets without the one or the other, where all of it meets.
    """

    policies: tuple[int, ...]
    placed: Placed | str
    played: Played | None
    bound: int | None = None
    lost: tuple[int, ...] = ()
    also: tuple[Run, ...] = ()

    @property
    def answer(self) -> Answer:
        """Of all objectives; what cannot be deployed misses, and what a bound excludes."""
        return "misses" if self.played is None else self.played.answer

    def margin(self, question: Question) -> float:
        """The largest of latencies over their limits, whatever is lost; of what was played."""
        played = [run.played for run in (self, *self.also) if run.played is not None]
        return max(margin(one, question) for one in played)


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """A vector that was played.

    Attributes
    ----------
    counts : tuple of int
    runs : tuple of Run
        All policies, or up to one that meets.
    """

    counts: Counts
    runs: tuple[Run, ...]

    @property
    def answer(self) -> Answer:
        """It meets where one run does."""
        answers = {run.answer for run in self.runs}
        ends: tuple[Answer, ...] = ("meets", "undecided")
        for one in ends:
            if one in answers:
                return one
        return "misses"

    def best(self, question: Question) -> Run | None:
        """Return the run that is nearest to its limits, or most below them; None: none ran."""
        ran = [run for run in self.runs if run.played is not None]
        order: list[Answer] = ["meets", "undecided", "misses"]

        def key(run: Run) -> tuple[int, float]:
            return order.index(run.answer), run.margin(question)

        return min(ran, key=key, default=None)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What the search found.

    Attributes
    ----------
    question : Question
    policies : tuple of Policy
    bounds : tuple of Bound
    tests : tuple of Test
        Of the bounds, in their order.
    tried : tuple of Tried
        In order: what comes before the answer, and between it and the runner-up.
    answer, runner_up : Tried or None
    """

    question: Question
    policies: tuple[Policy, ...]
    bounds: tuple[Bound, ...]
    tests: tuple[Test, ...]
    tried: tuple[Tried, ...]
    answer: Tried | None
    runner_up: Tried | None

    @property
    def undecided(self) -> tuple[Counts, ...]:
        """What may meet every objective."""
        return tuple(one.counts for one in self.tried if one.answer == "undecided")

    def ran(self) -> list[tuple[float, Tried, Played]]:
        """Return what was tried and could be played, in order, with its best run.

        First stands how near that came to its limits, see ``margin``.
        """
        best = [(one, one.best(self.question)) for one in self.tried]
        return [
            (run.margin(self.question), one, run.played)
            for one, run in best
            if run is not None and run.played is not None
        ]


def bounds_of(question: Question) -> tuple[Bound, ...]:
    """Return the bounds that hold of all vectors, those that say most plainly why first."""
    found = list(needs(question))
    for slo in choices(question):
        prices = alike(question, slo)
        bounds = [bound_of(question, slo, one) for one in prices]
        found += [bound for bound in bounds if bound is not None]
        found += pooled(question, slo, prices)
        found += _mixed(question, slo)
    return tuple(found)


def _mixed(question: Question, slo: Sequence[int | None]) -> Iterator[Bound]:
    """Bounds by the prices of each kind alone, where classes are unlike."""
    demand = demand_of(question, slo)
    if np.count_nonzero(demand > 0) < 2:
        return
    for at in range(len(question.kinds)):
        counts = tuple(int(k == at) for k in range(len(question.kinds)))
        prices = at_vector(question, slo, demand * 1e6, counts)
        bound = None if prices is None else bound_of(question, slo, prices)
        if bound is not None:
            yield bound


def _of_drawn(question: Question, workload: Workload, count: int) -> Iterator[Bound]:
    """Bounds by the requests that are played, at rates that others from another seed suggest."""
    other = replace(workload, seed=workload.seed ^ 1)
    arrivals, others = (Arrivals.joined(drawn(one, count)) for one in (workload, other))
    yield from pooled_drawn(question, arrivals, others, OF_BOUNDS)


def demand_of(question: Question, slo: Sequence[int | None]) -> NDArray[np.float64]:
    """By class: requests a second that are to be on time, about."""
    found = np.zeros(len(question.classes))
    arrivals = question.arrivals
    for at, ask in enumerate(question.asks):
        which = slo[ask.stream]
        if which is None:
            continue
        rate = ask.rate_per_s or 0.0
        if arrivals is not None:
            judged = arrivals.time_s >= question.warm_up_s
            spans_s = float(arrivals.time_s[-1] - arrivals.time_s[judged][0])
            longest_s = question.streams[ask.stream].slos[which].latency_s
            rate = float((arrivals.ask[judged] == at).sum()) / (spans_s + longest_s)
        found[ask.of_class] += rate * question.streams[ask.stream].slos[which].share
    return found


class Search:
    """One search, and what it has found so far.

    Parameters
    ----------
    question : Question
    workload : Workload, optional
        That of drawn requests.
    budget : int
        Drawn requests after which a run ends undecided.
    tell : function, optional
        Called with the vector that is played, the level that it is of, and how much of that level
        is decided, in [0, 1).
    sampled : bool
        Whether drawn requests are asked for bounds, too.
    """

    def __init__(
        self,
        question: Question,
        workload: Workload | None = None,
        *,
        budget: int = BUDGET,
        tell: Callable[[Counts, Level, float], None] | None = None,
        sampled: bool = True,
    ) -> None:
        self.question, self._workload, self._budget, self._tell = question, workload, budget, tell
        self.policies = policies_of(question)
        self.bounds = list(bounds_of(question))
        if sampled and workload is not None and not question.given:
            self.bounds += _of_drawn(question, workload, min(budget, SAMPLE))
        # Of one class, on devices alone, `alike` has all the prices that matter.
        demands = {slo: demand_of(question, slo) for slo in choices(question)}
        self._demands = {
            slo: each
            for slo, each in demands.items()
            if np.count_nonzero(each > 0) > 1 or matters(question)
        }
        self.tests = [bound.test(question) for bound in self.bounds]
        self.tried: list[Tried] = []
        self._under = Under(question, self.bounds)
        self._placements = Placements(question, self._under)
        self._runs = self._played = 0

    def found(self) -> Found:
        """Look for the answer, and the runner-up."""
        answer: Tried | None = None
        second: Tried | None = None
        for level, at in self._places(self.question):
            counts = level.counts[at]
            one = self.play(counts, to_the_end=answer is None, told=partial(self._say, level, at))
            if one.answer != "meets":
                self.tried.append(one)
            elif answer is None:
                answer = one
            else:
                second = one
                break
        return Found(
            self.question,
            self.policies,
            tuple(self.bounds),
            tuple(self.tests),
            tuple(self.tried),
            answer,
            second,
        )

    def left(self, question: Question) -> Iterator[Counts]:
        """Yield the vectors of something that no bound excludes, in order.

        `question`: the one that is asked, or the same at other prices, which order them.
        """
        for level, at in self._places(question):
            yield level.counts[at]

    def _places(self, question: Question) -> Iterator[tuple[Level, int]]:
        """Yield in which level, and where in it, each vector is that no bound excludes."""
        for level in levels(question, self.tests):
            for at, counts in enumerate(level.counts):
                if any(counts) and not excludes(self.tests, counts) and not self._cut(counts):
                    yield level, at

    def _say(self, level: Level, at: int, share: float) -> None:
        if self._tell is not None:
            self._tell(level.counts[at], level, (at + share) / len(level.counts))

    def _cut(self, counts: Counts) -> bool:
        """Whether prices made for a vector exclude it; they are kept for those that follow."""
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
    ) -> Tried:
        """Play a vector by each policy, until one meets, or all of them.

        `told` is called with how much of it is done, before each.
        """
        runs: list[Run] = []
        deployments = self._deployments(counts)
        for at, (group, where) in enumerate(deployments):
            told(at / len(deployments))
            policy = self.policies[group[0]]
            if isinstance(where, str):
                runs.append(Run(group, where, None))
                continue
            runs.append(self._run(group, where, policy))
            if runs[-1].answer == "meets" and not to_the_end:
                break
        if all(run.answer != "meets" for run in runs):
            runs += self._one_by_one(counts, deployments)
        return Tried(counts, tuple(runs))

    def _one_by_one(
        self, counts: Counts, known: Sequence[tuple[tuple[int, ...], Placed | str]]
    ) -> Iterator[Run]:
        """Play the placements that no bound excludes and that are not known, until one meets."""
        others = self._placements.others(counts, self.policies, known)
        if others is None:
            every = tuple(at for at, one in enumerate(self.policies) if one.placement == "each")
            yield Run(every, "more placements than are played one by one", None)
            return
        for at, where in others:
            run = self._run((at,), where, self.policies[at])
            yield run
            if run.answer == "meets":
                return

    def _run(self, group: tuple[int, ...], where: Placed, policy: Policy) -> Run:
        """What a deployment does, with all devices and without those that may be lost.

        It ends with the first of these that misses.
        """
        found: list[Run] = []
        every = lefts(self.question, where)
        for lost, left in every:
            if isinstance(left, str):
                return Run(group, left, None, lost=lost)
            bound = self._under.excludes(left, policy)
            if bound is not None:
                return Run(group, left, None, bound, lost)
        # What has lost something misses sooner.
        for lost, left in reversed(every):
            assert isinstance(left, Placed)
            found.append(Run(group, left, self._play(left, policy), lost=lost))
            if found[-1].answer == "misses":
                return found[-1]
        undecided = [run for run in found if run.answer == "undecided"]
        return undecided[0] if undecided else replace(found[-1], also=tuple(found[:-1]))

    def meets(self, counts: Counts, first: Run | None = None) -> bool:
        """Whether a vector is seen to meet: by no bound excluded, and by some policy met.

        What `first` had, with nothing lost, is tried before the policies, of which placements one
        by one are left out.
        """
        if excludes(self.tests, counts) or self._cut(counts):
            return False
        deployments = self._deployments(counts)
        if first is not None and isinstance(first.placed, Placed) and not first.lost:
            mine = (first.policies, first.placed)
            deployments = [mine, *(one for one in deployments if one != mine)]
        for group, where in deployments:
            policy = self.policies[group[0]]
            if isinstance(where, Placed) and self._run(group, where, policy).answer == "meets":
                return True
        return False

    def _deployments(self, counts: Counts) -> list[tuple[tuple[int, ...], Placed | str]]:
        """The deployments that policies come to, each once."""
        found: dict[object, tuple[list[int], Placed | str]] = {}
        # Routing is no matter to where models are.
        known: dict[object, Placed | str] = {}
        for at, policy in enumerate(self.policies):
            if policy.placement == "each":
                continue
            same = (
                policy.placement,
                policy.strategy,
                policy.max_batch,
                policy.line,
                policy.by_device,
            )
            if same not in known:
                known[same] = placed(self.question, counts, policy)
            where = known[same]
            key: object = where
            if isinstance(where, Placed):
                key = (where.instances, policy.max_batch, policy.line, routing_of(where, policy))
            found.setdefault(key, ([], where))[0].append(at)
        return [(tuple(group), where) for group, where in found.values()]

    def _play(self, where: Placed, policy: Policy) -> Played:
        if self._workload is None or self.question.given:
            self._played += 1
            # After so many there are as many more to come, as far as one knows.
            return play_given(self.question, where, policy, max(RUNS, self._played))
        self._runs += 1
        return play_drawn(
            self.question,
            self._workload,
            where,
            policy,
            error=(ERROR - OF_BOUNDS) / (self._runs * (self._runs + 1)),
            budget=self._budget,
        )


def excluded_by(found: Found, most_cost: int) -> tuple[tuple[int, ...], int]:
    """Return how many vectors each bound excludes, and how many are dearer, as far as was seen."""
    looked = survey(found.question, found.tests, most_cost)
    return looked.excluded, looked.dearer
