"""One vector under one policy, played on what comes, and judged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hetsim.provisioning.platforms.arriving import drawn
from hetsim.provisioning.platforms.laying import Laid, laid
from hetsim.provisioning.platforms.policies import Placed, Policy
from hetsim.provisioning.platforms.question import Arrivals, Question
from hetsim.simulation.service.figures import chosen, judged, latencies, latencies_of, stability
from hetsim.simulation.serving import compiling
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.outcomes import Outcomes
from hetsim.simulation.serving.tables import SERVED
from hetsim.statistics.until import FIRST_LOOK
from hetsim.statistics.verdict import Answer, confidence_of_look, verdict_of
from hetsim.workload.workload import Workload


class Said(NamedTuple):
    """What a run says of one objective.

    Attributes
    ----------
    stream, slo : int
    requests : int
        The first so many of all that came were judged.
    late : int
        Of the stream's own.
    answer : "meets", "misses" or "undecided"
    error : float
        What this answer may be wrong by.
    latency_s : float
        The latency within which as many were answered as are asked for.
    """

    stream: int
    slo: int
    requests: int
    late: int
    answer: Answer
    error: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Played:
    """What became of the requests.

    Attributes
    ----------
    played : int
        How many were given to it.
    said : tuple of Said
        One for each objective of each stream.
    """

    played: int
    said: tuple[Said, ...]

    @property
    def answer(self) -> Answer:
        """Of all objectives together."""
        answers = {one.answer for one in self.said}
        if "misses" in answers:
            return "misses"
        return "meets" if answers == {"meets"} else "undecided"


RUNS = 8
"""Runs of the same length that machine code is likely to be used for."""


def play_given(question: Question, where: Placed, policy: Policy, runs: int = RUNS) -> Played:
    """Play all requests of a workload that are given, and count who is late.

    `runs`: as many more are likely to come; the answer does not depend on it.
    """
    assert question.arrivals is not None
    outcomes = outcomes_of(question, where, policy, question.arrivals, runs)
    return Played(len(question.arrivals), tuple(_counted(question, outcomes)))


def _counted(question: Question, outcomes: Outcomes) -> Iterator[Said]:
    counts = outcomes.arrival_s >= question.warm_up_s
    for at, stream in enumerate(question.streams):
        mine = (outcomes.stream == at) & counts
        latency_s = latencies_of(
            outcomes.arrival_s[mine], outcomes.finish_s[mine], outcomes.why[mine]
        )
        for place, slo in enumerate(stream.slos):
            late = int(np.count_nonzero(latency_s > slo.latency_s))
            meets = len(latency_s) - late >= slo.share * len(latency_s)
            yield Said(
                at,
                place,
                len(outcomes.arrival_s),
                late,
                "meets" if meets else "misses",
                0.0,
                _at_share(latency_s, slo.share),
            )


def _at_share(latency_s: np.ndarray[Any, Any], share: float) -> float:
    """The least limit within which so many were answered."""
    if not len(latency_s):
        return 0.0
    needed = max(math.ceil(share * len(latency_s)), 1)
    return float(np.partition(latency_s, needed - 1)[needed - 1])


def outcomes_of(
    question: Question, where: Placed, policy: Policy, arrivals: Arrivals, runs: int = RUNS
) -> Outcomes:
    """Return what becomes of requests on a deployment; `runs` as of ``play_given``."""
    one = laid(question, where, policy)
    stream, variant = columns(question, arrivals.ask)
    return engine_for(one, len(arrivals) * runs).serve_all(arrivals.time_s, stream, variant)


def columns(
    question: Question, ask: np.ndarray[Any, np.dtype[np.int64]]
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]]]:
    """The stream of each request, and which of its model's classes it is of."""
    stream_of = np.array([one.stream for one in question.asks], dtype=np.int64)
    row_of = np.array(
        [
            question.classes_of(question.classes[one.of_class].model).index(one.of_class)
            for one in question.asks
        ],
        dtype=np.int64,
    )
    return stream_of[ask], row_of[ask]


def engine_for(one: Laid, requests: float) -> Serving:
    """Return the engine that plays it, compiled where so many requests to come make it worth it."""
    tasks = float(np.diff(one.layout.first).mean())
    return Serving(
        one.layout,
        one.seconds,
        one.models,
        one.sources,
        window_s=WINDOW_S,
        machine_code=compiling.pays(requests * tasks),
        known=one.known,
    )


WINDOW_S = 1e9
"""Queue lengths are not asked for: one window has all of them."""


SEEN = 3
"""Looks after which a run is long enough to say that a model falls behind for good."""


def play_drawn(
    question: Question,
    workload: Workload,
    where: Placed,
    policy: Policy,
    *,
    error: float,
    budget: int,
) -> Played:
    """Play drawn requests until every objective is answered, or the budget is spent.

    It is looked at after 16,384 requests, and whenever there are twice as many; over all looks no
    answer is wrong but by `error`. A model that is overloaded misses, as ``simulate`` says it.
    """
    engine = engine_for(laid(question, where, policy), min(budget, 2 * FIRST_LOOK) * RUNS)
    parts: list[Outcomes] = []
    said: dict[tuple[int, int], Said] = {}
    fed = told = looks = 0
    due = FIRST_LOOK
    for block in drawn(workload, budget):
        fed += len(block.time_s)
        stream, variant = columns(question, block.ask)
        out = engine.serve(block.time_s, stream, variant)
        parts.append(out)
        told += len(out.arrival_s)
        if told >= due:
            looks += 1
            each = 1 - confidence_of_look(looks, 1 - error)
            answered = _look(question, parts, said, each)
            if not answered and looks >= SEEN:
                _overloaded(question, workload, parts, said, each)
                answered = all(one.answer != "undecided" for one in said.values())
            if answered:
                return Played(fed, tuple(said.values()))
            due *= 2
    parts.extend(engine.rest())
    looks += 1
    last = 1 - confidence_of_look(looks, 1 - error)
    if not _look(question, parts, said, last):
        _overloaded(question, workload, parts, said, last)
    return Played(fed, tuple(said.values()))


def _joined(parts: list[Outcomes]) -> Outcomes:
    if len(parts) != 1:
        parts[:] = [Outcomes.joined(parts)]
    return parts[0]


def _look(
    question: Question,
    parts: list[Outcomes],
    said: dict[tuple[int, int], Said],
    error: float,
) -> bool:
    """Ask what is not answered yet; return whether all is."""
    whole = _joined(parts)
    for at, stream in enumerate(question.streams):
        mine = chosen(whole, (whole.stream == at) & (whole.arrival_s >= question.warm_up_s))
        if not len(mine.arrival_s):
            continue
        latency_s = latencies(mine)
        for place, slo in enumerate(stream.slos):
            before = said.get((at, place))
            if before is None or before.answer == "undecided":
                verdict = verdict_of(latency_s, mine.fresh, slo.share, slo.latency_s, 1 - error)
                said[at, place] = Said(
                    at,
                    place,
                    len(whole.arrival_s),
                    verdict.late.late,
                    verdict.answer,
                    error,
                    _at_share(latency_s, slo.share),
                )
    asked = sum(len(stream.slos) for stream in question.streams)
    return len(said) == asked and all(one.answer != "undecided" for one in said.values())


def _overloaded(
    question: Question,
    workload: Workload,
    parts: list[Outcomes],
    said: dict[tuple[int, int], Said],
    error: float,
) -> None:
    """Say of what is undecided of an overloaded model that it misses."""
    whole = _joined(parts)
    for (at, place), one in list(said.items()):
        if one.answer != "undecided":
            continue
        model = question.streams[at].model
        mine = [k for k, stream in enumerate(question.streams) if stream.model == model]
        own = chosen(whole, np.isin(whole.stream, mine) & (whole.arrival_s >= question.warm_up_s))
        kept_up = stability(workload, [workload.streams[k] for k in mine], own)
        stream = chosen(whole, (whole.stream == at) & (whole.arrival_s >= question.warm_up_s))
        slo = question.streams[at].slos[place]
        verdict = verdict_of(latencies(stream), stream.fresh, slo.share, slo.latency_s, 1 - error)
        rejects = bool((stream.why != SERVED).any())
        again = judged(slo, verdict, kept_up, rejects=rejects)
        if again.answer != "undecided":
            said[at, place] = one._replace(answer=again.answer)


def margin(played: Played, question: Question) -> float:
    """The largest of latencies over their limits; above 1 something is missed."""
    return max((_over(one, question) for one in played.said), default=0.0)


def worst(played: Played, question: Question) -> Said:
    """What a run says of the objective whose latency is the largest part of its limit."""
    return max(played.said, key=lambda one: _over(one, question))


def _over(one: Said, question: Question) -> float:
    return one.latency_s / question.streams[one.stream].slos[one.slo].latency_s
