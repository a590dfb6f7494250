"""Simulation of a vector's deployment, and its verdict."""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hetsim.provisioning.platforms.policies import PlacedInstances, Policy, up_to
from hetsim.provisioning.platforms.question import Arrivals, Question, Way
from hetsim.provisioning.rates.answer import ANSWERS
from hetsim.simulation.clock.templates import TemplateLayout, TemplatePart, structure_of
from hetsim.simulation.service.figures import chosen, judged, latencies_of
from hetsim.simulation.service.service import Stability, stability_of
from hetsim.simulation.serving.engine import Serving, events_of, pays
from hetsim.simulation.serving.setup import ModelSetup, Outcomes, RequestSource
from hetsim.simulation.serving.tables import loads, seconds_alone
from hetsim.statistics.verdict import FIRST_LOOK, Answer, confidence_of_look, verdict_of

Ints = np.ndarray[Any, np.dtype[np.int64]]

RUNS = 8
"""Number of runs of the same length that machine code is likely to serve."""

WINDOW_S = 1e9
"""Window of queue lengths, which are not needed: one window covers all."""

MEANS = 20
"""Number of batches of one run whose means are compared."""

SEEN = 3
"""Number of looks after which a run is long enough to show lasting overload."""


class ObjectiveResult(NamedTuple):
    """Verdict of a run on one objective, from its first `requests`.

    Of the stream's requests `late` were late; the answer is wrong with probability at most `error`.
    The required share was answered within `latency_s`.
    """

    stream: int
    slo: int
    requests: int
    late: int
    answer: Answer
    error: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class SimulatedDeployment:
    """Result of a run: one ``ObjectiveResult`` for each objective of each stream."""

    played: int
    said: tuple[ObjectiveResult, ...]

    @property
    def answer(self) -> Answer:
        """Answer for all objectives together."""
        return max((one.answer for one in self.said), key=ANSWERS.index, default="undecided")

    def worst(self, question: Question) -> ObjectiveResult:
        """Return the verdict of the objective with the largest ratio of latency to limit."""
        return max(self.said, key=lambda one: _over(one, question))

    def margin(self, question: Question) -> float:
        """Return the largest ratio of latency to limit; above 1 an objective is missed."""
        return max((_over(one, question) for one in self.said), default=0.0)


def _over(one: ObjectiveResult, question: Question) -> float:
    return one.latency_s / question.streams[one.stream].slos[one.slo].latency_s


def objective_result_of(
    question: Question,
    outcomes: Outcomes,
    stream: int,
    slo: int,
    requests: int,
    error: float,
    kept_up: Stability | None = None,
) -> ObjectiveResult:
    """Return the verdict of the first `requests` on one objective.

    Given requests are counted; random ones give a verdict with error probability `error`, none at
    0. `kept_up` is the stability of the stream's model.
    """
    asked = question.streams[stream].slos[slo]
    mine = judged_of(question, outcomes, [stream], requests)
    latency_s = _latencies(outcomes, mine)
    late = int(np.count_nonzero(latency_s > asked.latency_s))
    answer: Answer = "undecided"
    if question.given:
        meets = len(latency_s) - late >= asked.share * len(latency_s)
        answer = "meets" if meets else "misses"
    elif error:
        verdict = verdict_of(
            latency_s, outcomes.fresh[mine], asked.share, asked.latency_s, 1 - error
        )
        answer = judged(asked, verdict, kept_up, rejects=False).answer
    needed = max(math.ceil(asked.share * len(latency_s)), 1) - 1
    at_s = float(np.partition(latency_s, needed)[needed]) if len(latency_s) else 0.0
    return ObjectiveResult(stream, slo, requests, late, answer, error, at_s)


def judged_of(
    question: Question, outcomes: Outcomes, streams: Sequence[int], requests: int
) -> NDArray[np.bool_]:
    """Return the mask of the first `requests` that belong to given streams, after the warm-up."""
    found: NDArray[np.bool_] = np.isin(outcomes.stream, streams)
    found &= outcomes.arrival_s >= question.warm_up_s
    found[requests:] = False
    return found


def _latencies(outcomes: Outcomes, mine: NDArray[np.bool_]) -> NDArray[np.float64]:
    each = (outcomes.arrival_s, outcomes.finish_s, outcomes.why)
    return latencies_of(*(column[mine] for column in each))


def siblings(question: Question, stream: int) -> list[int]:
    """Return the streams of the same model."""
    model = question.streams[stream].model
    return [at for at, one in enumerate(question.streams) if one.model == model]


def play_given(
    question: Question, where: PlacedInstances, policy: Policy, runs: int = RUNS
) -> SimulatedDeployment:
    """Simulate all requests of a given workload, and count late ones.

    `runs`: expected number of further runs; the result does not depend on it.
    """
    arrivals = question.arrivals
    assert arrivals is not None
    engine = engine_for(question, where, policy, len(arrivals) * runs)
    outcomes = engine.serve_all(arrivals.time_s, *_columns(question, arrivals.ask))
    said = [
        objective_result_of(question, outcomes, at, place, len(arrivals), 0.0)
        for at, stream in enumerate(question.streams)
        for place in range(len(stream.slos))
    ]
    return SimulatedDeployment(len(arrivals), tuple(said))


def play_drawn(
    question: Question,
    blocks: Iterable[Arrivals],
    where: PlacedInstances,
    policy: Policy,
    *,
    error: float,
    budget: int,
    by_batches: bool = False,
) -> SimulatedDeployment:
    """Return the result of random requests until all objectives are decided or `blocks` end.

    At most `budget` requests, at the rates of the question, checked after 16,384 requests and at
    each doubling; over all looks an answer is wrong with probability at most `error`. An overloaded
    model misses, as in ``simulate``. With `by_batches`, objectives undecided at the end because
    many devices are never all idle are decided by ``batch_means``, which are right for long runs.
    """
    engine = engine_for(question, where, policy, min(budget, 2 * FIRST_LOOK) * RUNS)
    parts: list[Outcomes] = []
    said: dict[tuple[int, int], ObjectiveResult] = {}
    fed = told = looks = 0
    due = FIRST_LOOK
    for block in blocks:
        fed += len(block)
        out = engine.serve(block.time_s, *_columns(question, block.ask))
        parts.append(out)
        told += len(out.arrival_s)
        if told >= due:
            looks += 1
            each = 1 - confidence_of_look(looks, 1 - error)
            parts = [Outcomes.joined(parts)]
            if _look(question, parts[0], said, each, long=looks >= SEEN):
                return SimulatedDeployment(fed, tuple(said.values()))
            due *= 2
    parts.extend(engine.rest())
    last = 1 - confidence_of_look(looks + 1, 1 - error)
    outcomes = Outcomes.joined(parts)
    _look(question, outcomes, said, last, long=True)
    if by_batches:
        for (at, place), one in said.items():
            if one.answer == "undecided":
                mine = judged_of(question, outcomes, [at], one.requests)
                slo = question.streams[at].slos[place]
                late = _latencies(outcomes, mine) > slo.latency_s
                said[at, place] = one._replace(answer=batch_means(late, slo.share, last))
    return SimulatedDeployment(fed, tuple(said.values()))


def batch_means(late: NDArray[np.bool_], share: float, error: float) -> Answer:
    """Return the verdict on the share of late requests by means of ``MEANS`` batches of one run.

    Batches are consecutive and equally large; the first is dropped, as a run starts idle. Means of
    long batches are nearly normal and independent, so a t interval holds for their mean (Law,
    Simulation Modeling and Analysis, 5th ed., section 9.5.3). If later requests are late more often
    than allowed, it is undecided.
    """
    length = len(late) // (MEANS + 1)
    if not length:
        return "undecided"
    means = late[length : length * (MEANS + 1)].reshape(MEANS, length).mean(axis=1)
    reach = float(special.stdtrit(MEANS - 1, 1 - error / 2))
    half = reach * float(means.std(ddof=1)) / math.sqrt(MEANS)
    allowed, mean = 1 - share, float(means.mean())
    if mean - half > allowed:
        return "misses"
    later = float(means[MEANS // 2 :].mean())
    return "meets" if mean + half <= allowed and later <= allowed else "undecided"


def _look(
    question: Question,
    outcomes: Outcomes,
    said: dict[tuple[int, int], ObjectiveResult],
    error: float,
    *,
    long: bool,
) -> bool:
    """Decide open objectives, also after a `long` overloaded run; return whether all are."""
    requests = len(outcomes.arrival_s)
    asked = [
        (at, place)
        for at, stream in enumerate(question.streams)
        for place in range(len(stream.slos))
        if judged_of(question, outcomes, [at], requests).any()
    ]
    for at, place in asked:
        if (at, place) not in said or said[at, place].answer == "undecided":
            said[at, place] = objective_result_of(question, outcomes, at, place, requests, error)
    for at, place in asked if long else ():
        if said[at, place].answer == "undecided":
            mine = siblings(question, at)
            own = chosen(outcomes, judged_of(question, outcomes, mine, requests))
            rate = sum(ask.rate_per_s or 0.0 for ask in question.asks if ask.stream in mine)
            kept_up = stability_of(own.arrival_s, own.finish_s, own.fresh, rate)
            said[at, place] = objective_result_of(
                question, outcomes, at, place, requests, error, kept_up
            )
    every = sum(len(stream.slos) for stream in question.streams)
    return len(said) == every and all(one.answer != "undecided" for one in said.values())


# Input of the engine


def _columns(question: Question, ask: Ints) -> tuple[Ints, Ints]:
    """Return the stream of each request, and its class within its model."""
    stream_of = np.array([one.stream for one in question.asks], dtype=np.int64)
    row_of = [
        question.classes_of[question.classes[one.of_class].model].index(one.of_class)
        for one in question.asks
    ]
    return stream_of[ask], np.array(row_of, dtype=np.int64)[ask]


def engine_for(
    question: Question, where: PlacedInstances, policy: Policy, requests: float
) -> Serving:
    """Return the engine of a deployment, compiled if worthwhile for `requests`.

    O(devices, classes, sizes and their tasks).
    """
    # By unit of a kind: the first of its links.
    first: dict[tuple[int, int], int] = {}
    links = 0
    for place in where.places:
        if place.slot == 0:
            first[place.kind, place.unit] = links
            links += question.kinds[place.kind].links
    parts: list[TemplatePart] = []
    seconds: list[float] = []
    known: list[tuple[float, float]] = []
    models = []
    for model, mine in enumerate(where.instances):
        classes = question.classes_of[model]
        table: list[list[list[int]]] = [[] for _ in classes]
        largest = 1
        for one in mine:
            # Slot -1, for transfers, is the last.
            on, streams = (*one.devices, -1), where.streams(question, one)
            held = [
                first[place.kind, place.unit] + link
                for place in (where.places[at] for at in where.units(question, one))
                for link in range(question.kinds[place.kind].links)
            ]
            for row, of_class in zip(table, classes, strict=True):
                ways = up_to(where.ways(question, one, of_class), policy.max_batch)
                begin = len(parts)
                for way in ways:
                    part, takes = _part(way)
                    parts.append(
                        TemplatePart(
                            [on[slot] for slot in part.device],
                            part.before,
                            [tuple(sorted(held[link] for link in own)) for own in part.held],
                        )
                    )
                    seconds += takes
                    if policy.routing == "least_finish":
                        known.append(alone_and_load(way, streams))
                largest = max(largest, ways[-1].batch)
                holds = sizes_of(tuple(way.batch for way in ways), policy.max_batch)
                row.append([begin + at for at in holds])
        limits = tuple(policy.limit(where.streams(question, one)) for one in mine)
        by_size = np.array(table, dtype=np.int64)[:, :, :largest]
        models.append(ModelSetup(by_size, limits, routing=policy.routing))
    names: Any = SimpleNamespace(
        strategy="single",
        problem=SimpleNamespace(
            devices=tuple(f"{question.types[at.of_type].name} {at.unit}" for at in where.places),
            link_names=tuple(f"link {at}" for at in range(links)),
        ),
    )
    of_all = [question.types[place.of_type].streams for place in where.places]
    layout = TemplateLayout(names, links, structure_of(parts, of_all))
    return Serving(
        layout,
        np.array(seconds),
        tuple(models),
        tuple(RequestSource(stream.model) for stream in question.streams),
        window_s=WINDOW_S,
        machine_code=pays(requests * events_of(layout)),
        known=(np.array([one for one, _ in known]), np.array([one for _, one in known]))
        if known
        else None,
    )


@functools.lru_cache(maxsize=1 << 10)
def sizes_of(sizes: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return by requests in a batch, 1 to `most`, the index of the smallest size that holds them.

    Batches above the largest size of the model run one by one.
    """
    last = len(sizes) - 1
    return tuple(min(bisect_left(sizes, batch), last) for batch in range(1, most + 1))


@functools.lru_cache(maxsize=1 << 14)
def _part(way: Way) -> tuple[TemplatePart, list[float]]:
    """Return a way as a template on its own slots and links, and the seconds of its tasks."""
    part = TemplatePart(
        [task.slot for task in way.tasks],
        [task.before for task in way.tasks],
        [task.links for task in way.tasks],
    )
    return part, [task.seconds for task in way.tasks]


@functools.lru_cache(maxsize=1 << 14)
def alone_and_load(way: Way, streams: tuple[int, ...]) -> tuple[float, float]:
    """Return the seconds of a batch on idle devices, and its maximum use of a device or link."""
    part, takes = _part(way)
    links = 1 + max((link for held in part.held for link in held), default=-1)
    alone: Any = SimpleNamespace(strategy="single")
    layout = TemplateLayout(alone, links, structure_of([part], streams))
    seconds = np.array(takes)
    return float(seconds_alone(layout, seconds)[0]), float(loads(layout, seconds)[0])
