"""Probability that a recommendation meets, given errors of figures and demand.

In each *sample* the times of all devices and links are multiplied by factors, with common parts
shared, and arrivals are sped up or slowed down. The vectors near the front are excluded or
simulated again, by the same policies and with their best deployment; other placements are not
enumerated, so it may meet more often than stated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter

import numpy as np

from hetsim.analysis.confidence import normals
from hetsim.core.progress import say
from hetsim.errors import UsageError
from hetsim.provisioning.platforms.placements import remaining_placements
from hetsim.provisioning.platforms.policies import PlacedInstances, Policy
from hetsim.provisioning.platforms.question import SLACK, Counts, Question, TimeUncertainty, Way
from hetsim.provisioning.platforms.question import drawn as requests_drawn
from hetsim.provisioning.platforms.search import ERROR, Search, SearchResult
from hetsim.provisioning.platforms.simulation import play_drawn, play_given
from hetsim.statistics.verdict import FIRST_LOOK
from hetsim.workload.workload import Workload

Demand = tuple[tuple[float, float], ...]
"""Factors on the demand with weights that sum to 1."""

AS_SAID: Demand = ((1.0, 1.0),)

SAMPLES = 30
"""Default number of Monte Carlo samples in which only the answer is simulated."""

LEAST_SAMPLES = 16
"""Number of samples if runs have too many requests for SAMPLES of them."""

MOST_REQUESTS = 100_000
"""Total number of requests of all samples above which there are fewer samples."""

MOST_NEAR = 4
"""Number of tried vectors, and of those with one more of a kind, to evaluate."""


@dataclass(frozen=True, slots=True)
class SampledVector:
    """Vector near the front, over all Monte Carlo samples.

    `meets` and `cheapest` are the shares of samples in which it meets every objective, and is the
    cheapest that does. `regret` is its mean cost above the cheapest that meets; if it does not
    meet, the full cost of that one, which is then needed in addition. Samples in which none meets
    count for none of them.
    """

    counts: Mapping[str, int]
    cost: float
    meets: float
    cheapest: float
    regret: float


@dataclass(frozen=True, slots=True)
class Robustness:
    """Shares of samples times `demand` in which candidates, by cost, meet.

    `answer` is the index of the recommended one, `none` the share in which none meets. Unless
    `near`, it is the only candidate, simulated with the recommended deployment.
    """

    draws: int
    demand: Demand
    candidates: tuple[SampledVector, ...]
    answer: int
    none: float
    near: bool = True

    @property
    def meets(self) -> float:
        """Probability that the recommendation meets every objective."""
        return self.candidates[self.answer].meets

    @property
    def right(self) -> float:
        """Probability that the recommendation is the cheapest candidate that meets."""
        return self.candidates[self.answer].cheapest

    @property
    def least_regret(self) -> SampledVector:
        """Candidate of the least mean regret; of equal ones the cheapest."""
        return min(self.candidates, key=lambda one: one.regret)


def demand_of_text(text: str) -> Demand:
    """Return the demand of ``0.8,1,1.3`` or ``0.8:0.2,1:0.5,1.3:0.3``: factors and weights.

    Three without weights are low, middle and high, weighted 30, 40 and 30 of 100 (Swanson's rule
    for the 10th, 50th and 90th percentile); others are equally likely. Raises UsageError for
    invalid text.
    """
    factors, weights = [], []
    for part in text.split(","):
        factor, colon, weight = part.partition(":")
        try:
            factors.append(float(factor))
            weights.append(float(weight) if colon else np.nan)
        except ValueError:
            factors.append(np.nan)
    given = [weight for weight in weights if not np.isnan(weight)]
    fine = all(0 < factor < np.inf for factor in factors) and len(given) in (0, len(factors))
    if not fine or any(not 0 < weight < np.inf for weight in given):
        raise UsageError(
            f"'{text}' is not a demand",
            hint="write 0.8,1,1.3, or with weights 0.8:0.2,1:0.5,1.3:0.3",
        )
    if not given:
        given = [0.3, 0.4, 0.3] if len(factors) == 3 else [1.0] * len(factors)
    return tuple(
        (factor, weight / sum(given)) for factor, weight in zip(factors, given, strict=True)
    )


def robustness_of(
    found: SearchResult,
    workload: Workload,
    *,
    draws: int,
    demand: Demand = AS_SAID,
    budget: int,
    near: Counts | None = None,
) -> Robustness | None:
    """Return the shares of samples in which the answer and its neighbours meet; None without one.

    `draws` of factors, each with every demand; `near` is a further candidate, the nearest cheaper
    one. A run ends after `budget` random requests; undecided counts as a miss. Complexity: runs of
    about ten vectors by a few policies in each sample.
    """
    if found.answer is None:
        return None
    vectors = _near(found, near)
    first = {
        one.counts: best
        for one in (*found.tried, found.answer, found.runner_up)
        if one is not None and (best := one.best(found.question)) is not None
    }

    def meets(question: Question, factor: float) -> list[bool]:
        search = Search(question, workload.faster(factor), budget=budget, sampled=False)
        search.policies = found.policies
        return [search.meets(counts, first.get(counts)) for counts in vectors]

    return _sampled(found, vectors, meets, draws, demand)


def probability_of_meeting(
    found: SearchResult,
    workload: Workload,
    *,
    samples: int | None = None,
    over: Callable[[], bool] = lambda: False,
) -> Robustness | None:
    """Return the share of samples in which the answer meets every objective with its deployment.

    None without a recommendation, or if all figures are exact. `samples` are simulated; absent:
    SAMPLES, or fewer for many requests; for random ones the first FIRST_LOOK, whose percentiles
    decide if no verdict is certain yet. Stops once `over` is true after a sample. Complexity: that
    many runs of one deployment.
    """
    sources = found.question.sources
    if found.answer is None or not sources:
        return None
    best = found.answer.best(found.question)
    assert best is not None
    assert isinstance(best.placed, PlacedInstances)
    policy, arrivals = found.policies[best.policies[0]], found.question.arrivals
    requests = FIRST_LOOK if arrivals is None else len(arrivals)
    if samples is None:
        samples = min(max(MOST_REQUESTS // max(requests, 1), LEAST_SAMPLES), SAMPLES)
    placed = best.placed

    def meets(question: Question, _: float) -> list[bool]:
        return [_holds(question, workload, placed, policy, samples or 0)]

    counts = [found.answer.counts]
    return replace(_sampled(found, counts, meets, samples, AS_SAID, over), near=False)


def _holds(
    question: Question, workload: Workload, where: PlacedInstances, policy: Policy, runs: int
) -> bool:
    """Return whether a deployment meets every objective, also after the allowed losses."""
    for _, left in remaining_placements(question, where):
        if isinstance(left, str):
            return False
        if question.given:
            played = play_given(question, left, policy, runs)
        else:
            played = play_drawn(
                question,
                requests_drawn(workload, FIRST_LOOK),
                left,
                policy,
                error=ERROR,
                budget=FIRST_LOOK,
            )
        for said in played.said:
            limit_s = question.streams[said.stream].slos[said.slo].latency_s
            late = said.answer == "undecided" and said.latency_s > limit_s
            if late or said.answer == "misses":
                return False
    return True


def _near(found: SearchResult, near: Counts | None) -> list[Counts]:
    """Return the answer, the next one, the nearest of the others, and one more of each kind."""
    question = found.question
    assert found.answer is not None
    order = sorted((off, one.counts) for off, one, _ in found.ran())
    vectors = {found.answer.counts, *(counts for _, counts in order[:MOST_NEAR])}
    if found.runner_up is not None:
        vectors.add(found.runner_up.counts)
    if near is not None:
        vectors.add(near)
    more = []
    for k, kind in enumerate(question.kinds):
        counts = tuple(count + (at == k) for at, count in enumerate(found.answer.counts))
        if not kind.slots and question.allows(counts):
            more.append(counts)
    vectors |= set(sorted(more, key=question.key)[:MOST_NEAR])
    return sorted(vectors, key=question.key)


def drawn(question: Question, value: Mapping[str, float], factor: float) -> Question:
    """Return the question with times of one sample, and arrival rates times `factor`.

    `value` are standard normal numbers by source. O(ways and their tasks).
    """

    def slower(way: Way, model: int, types: Sequence[int]) -> Way:
        exact = TimeUncertainty({}, {})
        each = [
            tuple(
                float(np.exp(sum(weight * value[name] for name, weight in part.items())))
                for part in question.off.get((of_type, model), exact)
            )
            for of_type in types
        ]
        return _off_by(way, each)

    ways = {
        (of_type, of_class): tuple(
            slower(way, question.classes[of_class].model, (of_type,)) for way in each
        )
        for (of_type, of_class), each in question.ways.items()
    }
    splits = []
    for split in question.splits:
        types = question.types_of(split)
        made = {
            of_class: tuple(slower(way, split.model, types) for way in each)
            for of_class, each in split.ways.items()
        }
        splits.append(replace(split, ways=made))
    arrivals = question.arrivals
    if arrivals is not None:
        arrivals = replace(arrivals, time_s=arrivals.time_s / factor)
    asks = tuple(
        ask if ask.rate_per_s is None else replace(ask, rate_per_s=ask.rate_per_s * factor)
        for ask in question.asks
    )
    return replace(
        question,
        ways=ways,
        splits=tuple(splits),
        arrivals=arrivals,
        asks=asks,
        # The requests that are not judged are the same.
        warm_up_s=question.warm_up_s / factor if question.given else question.warm_up_s,
    )


def _off_by(way: Way, each: Sequence[tuple[float, ...]]) -> Way:
    """Return a way with factors on each slot's device and route."""
    ends_at: list[set[int]] = [set() for _ in way.tasks]
    for at, task in enumerate(way.tasks):
        for before in task.before:
            if task.slot >= 0:
                ends_at[before].add(task.slot)
            if way.tasks[before].slot >= 0:
                ends_at[at].add(way.tasks[before].slot)
    tasks = tuple(
        task._replace(
            seconds=task.seconds
            * (each[task.slot][0] if task.slot >= 0 else max(each[slot][1] for slot in ends_at[at]))
        )
        for at, task in enumerate(way.tasks)
    )
    after = {at: task.before for at, task in enumerate(tasks)}
    end = [0.0] * len(tasks)
    for at in TopologicalSorter(after).static_order():
        end[at] = max((end[before] for before in tasks[at].before), default=0.0) + tasks[at].seconds
    return replace(way, tasks=tasks, alone_s=max(end) * (1 - SLACK))


def _sampled(
    found: SearchResult,
    vectors: Sequence[Counts],
    meets_in: Callable[[Question, float], Sequence[bool]],
    draws: int,
    demand: Demand,
    over: Callable[[], bool] = lambda: False,
) -> Robustness:
    """Return the vectors that meet in each sample at each demand, until `over`, as shares."""
    question, sources = found.question, found.question.sources
    assert found.answer is not None
    rows: list[Sequence[bool]] = []
    for at, row in enumerate(normals(draws, len(sources), 0).tolist()):
        value = dict(zip(sources, row, strict=True))
        for factor, _ in demand:
            say(len(rows) / (draws * len(demand)), f"sample {at + 1} of {draws}")
            rows.append(meets_in(drawn(question, value, factor), factor))
        if over():
            break
    meets = np.array(rows, dtype=np.bool_)
    draws = len(rows) // len(demand)
    weight = np.tile([part / draws for _, part in demand], draws)
    cost = np.array([question.amount(counts) for counts in vectors])
    some = meets.any(axis=1)
    # Vectors are in order: the first that meets is the cheapest.
    best = meets.argmax(axis=1)
    candidates = []
    for at, counts in enumerate(vectors):
        is_best = some & (best == at)
        regret = np.where(meets[:, at], cost[at] - cost[best], cost[best])
        candidates.append(
            SampledVector(
                question.named(counts),
                float(cost[at]),
                float(weight[meets[:, at]].sum()),
                float(weight[is_best].sum()),
                float((weight * regret)[some].sum()),
            )
        )
    return Robustness(
        draws,
        demand,
        tuple(candidates),
        list(vectors).index(found.answer.counts),
        float(weight[~some].sum()),
    )
