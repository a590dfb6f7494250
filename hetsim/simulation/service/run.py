"""Run of a workload on an engine, with interim verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core.room import memory_bytes
from hetsim.errors import UsageError, WorkloadError
from hetsim.simulation.autoscaling.serving import ScalingServing
from hetsim.simulation.failures.serving import FailingServing
from hetsim.simulation.orders import foreseeable
from hetsim.simulation.service.failures import failing_engine, under_failures
from hetsim.simulation.service.figures import chosen, ended, latencies, rate_of, stability
from hetsim.simulation.service.layout import EngineArguments
from hetsim.simulation.service.service import Stability
from hetsim.simulation.serving.batcher import account, lengths_of
from hetsim.simulation.serving.engine import Serving, events_of, pays, python_until
from hetsim.simulation.serving.setup import Lengths, Outcomes
from hetsim.simulation.serving.tables import new_spans
from hetsim.statistics.batches import innovations_of
from hetsim.statistics.intervals import located
from hetsim.statistics.verdict import (
    CONFIDENCE,
    FIRST_LOOK,
    End,
    Verdict,
    confidence_of_look,
    verdict_of,
    verdict_of_all,
    verdict_of_none,
)
from hetsim.workload.arrivals import Gamma, Poisson
from hetsim.workload.requests import Requests, requests_of
from hetsim.workload.workload import Workload


class RecordedRequests:
    """Outcomes of one model's requests in order of arrival, for engines that record them.

    Request outcomes have the form of an engine's own; requests of instance k ran template k.
    """

    machine_code = False

    def __init__(self, outcomes: Outcomes, templates: int) -> None:
        before = np.maximum.accumulate(outcomes.finish_s)
        fresh = np.concatenate([[True], before[:-1] <= outcomes.arrival_s[1:]])
        self.outcomes = outcomes._replace(fresh=fresh)
        self.now_s = float(before[-1])
        self.ran: NDArray[np.int64] = np.bincount(outcomes.instance, minlength=templates)
        self.lengths = _lengths(self.outcomes, self.now_s)


def _lengths(outcomes: Outcomes, now_s: float) -> Lengths:
    """Return the waiting and ongoing requests over time, from one event to the next."""
    begin_s = float(outcomes.arrival_s[0])
    spans = new_spans(1, None, arrays=False)
    spans.length[1] = spans.since[0] = begin_s
    present = SimpleNamespace(waiting=[0], inside=[0])
    moves = [
        *((time_s, 1, 1) for time_s in outcomes.arrival_s.tolist()),
        *((time_s, -1, 0) for time_s in outcomes.sent_s.tolist()),
        *((time_s, 0, -1) for time_s in outcomes.finish_s.tolist()),
    ]
    for time_s, waits, stays in sorted(moves, key=lambda move: move[0]):
        account(present, spans, 0, time_s)
        present.waiting[0] += waits
        present.inside[0] += stays
    return lengths_of(present, spans, now_s)


Floats = NDArray[np.float64]

BLOCK = 1 << 14
"""Number of requests simulated at a time."""

EARLY = FIRST_LOOK
"""Initial assumption for the number of requests of a run that ends when it is answered."""

MOST_REQUESTS, MOST_TASKS = 2**20, 2**24
"""Number of requests, and of their task events, after which an undecided run ends by default: a few
seconds."""

KEPT_BYTES = 128
"""Bytes of memory per request, for its outcome and the final figures."""

PRECISE = 99.0
"""Percentile to be made precise for a stream without an objective."""


def expected(workload: Workload) -> float:
    """Return the approximate number of requests of a workload."""
    counts = [math.inf if workload.requests is None else float(workload.requests)]
    if workload.duration_s is not None:
        rate = rate_of(workload, workload.streams, 0.0, workload.duration_s)
        if rate is not None:
            counts.append(rate * workload.duration_s)
    if workload.duration_s is None and workload.requests is None:
        counts.append(sum(len(one.trace().arrival_s) for one in workload.traces))
    return min(counts)


def most_requests(setup: EngineArguments, most_tasks: float = MOST_TASKS) -> int:
    """Return the number of requests after which an undecided run ends by default."""
    return max(FIRST_LOOK, int(min(MOST_REQUESTS, most_tasks / events_of(setup.layout))))


def check_room(requests: float) -> None:
    """Raise WorkloadError if this machine's memory cannot hold the outcomes."""
    most = memory_bytes() // KEPT_BYTES
    if requests > most:
        raise WorkloadError(
            f"about {requests:.2g} requests come, and this machine keeps {most:.2g} at most",
            hint="use fewer requests:, or a shorter duration_s:",
        )


def blocks_of(workload: Workload, setup: EngineArguments) -> Iterator[Requests]:
    """Yield the open-loop requests in blocks, with variants numbered by model."""
    for block in requests_of(workload):
        for first in range(0, len(block), BLOCK):
            piece = slice(first, first + BLOCK)
            stream, variant = block.stream[piece], block.variant[piece]
            own = np.empty_like(variant)
            for at, places in enumerate(setup.variant):
                mine = stream == at
                own[mine] = places[variant[mine]]
            yield Requests(block.arrival_s[piece], stream, own)


def engine_of(
    workload: Workload,
    setup: EngineArguments,
    *,
    machine_code: bool | None = None,
    early: bool = False,
) -> Serving:
    """Return the engine that plays a workload in virtual time.

    `machine_code` absent: if it costs less than it saves over the expected requests, or over EARLY
    at most for a run that may end `early`.
    """
    if machine_code is None:
        coming = min(expected(workload), EARLY if early else math.inf)
        machine_code = pays(coming * events_of(setup.layout))
    given: Any = {"until_s": until_s(workload), "machine_code": machine_code}
    if workload.failures is not None and setup.scalings is None:
        return failing_engine(workload, setup, **given)
    given["requests"] = workload.requests
    parts = (setup.layout, setup.duration, setup.models, setup.sources, setup.clients)
    if setup.scalings is None:
        return Serving(*parts, turns=setup.turns, **given)
    if workload.failures is not None or setup.turns is not None:
        raise UsageError(
            "autoscaling cannot be combined with "
            + ("devices that fail" if workload.failures is not None else "turns in memory"),
            hint="remove one of them: autoscaled replicas need devices that stay up, and weights "
            "in memory",
        )
    return ScalingServing(*parts, scalings=setup.scalings, **given)


def until_s(workload: Workload) -> float:
    """Return the time after which clients no longer send."""
    return math.inf if workload.duration_s is None else workload.duration_s


class ServiceRun:
    """Workload in progress on an engine, with its outcomes so far."""

    def __init__(
        self,
        workload: Workload,
        setup: EngineArguments,
        engine: Serving | RecordedRequests,
        *,
        machine_code: bool | None = None,
    ) -> None:
        self.workload, self.setup, self.engine = workload, setup, engine
        self._machine_code = machine_code
        # Whether percentiles are estimates over all runs instead of this run's own.
        self._of_all_runs = False
        self._begin()

    def _begin(self) -> None:
        self.parts: list[Outcomes] = []
        self.fed = 0
        self.told = 0
        self.verdicts: dict[tuple[int, int], Verdict] = {}

    def play(
        self,
        *,
        until_answered: bool,
        within: float | None = None,
        until_overloaded: bool = False,
        confidence: float = CONFIDENCE,
    ) -> End:
        """Run the engine; return why it ended. `confidence` covers all verdicts over all looks.

        `until_overloaded`: end as soon as no model keeps up, without further verdicts.
        """
        early = until_answered or within is not None
        self._of_all_runs = within is not None and self._foreseeable()
        due, look = FIRST_LOOK, 0
        plain = self._machine_code is None and not self.engine.machine_code
        plain_until = python_until(self.setup.layout) if plain else math.inf
        for block in blocks_of(self.workload, self.setup):
            self.fed += len(block)
            if self.fed >= plain_until:
                # Restart in machine code: the requests examined so far are the same.
                self.engine = engine_of(self.workload, self.setup, machine_code=True)
                self._begin()
                return self.play(
                    until_answered=until_answered,
                    within=within,
                    until_overloaded=until_overloaded,
                    confidence=confidence,
                )
            self.keep(self._playing().serve(block.arrival_s, block.stream, block.variant))
            if until_overloaded and self.told >= due:
                due *= 2
                if self._overloaded():
                    break
            if early and self.told >= due:
                look += 1
                if not self.look(confidence_of_look(look, confidence)):
                    due *= 2
                    continue
                due = self.told if within is None else self.requests_for(within)
                if due <= self.told:
                    self._rest()
                    return "answered"
        self._rest()
        # A single look at a run of given length may use the full error probability of a verdict.
        answered = self.look(
            confidence_of_look(look + 1, confidence) if early else confidence,
            whole=self._all_came(),
        )
        if not early:
            return "ended"
        if within is not None and self.told:
            answered = answered and self.requests_for(within) <= self.told
        return "answered" if answered else "budget"

    def requests_for(self, within: float) -> int:
        """Return the number of requests after which to check precision again; 0: precise.

        Checks the percentiles of each stream's objectives, or its p99; overloaded streams have
        none.
        """
        times = 0.0
        for at, stream in enumerate(self.workload.streams):
            mine = self.counted(at)
            kept_up = stability(self.workload, [stream], mine)
            if kept_up is None or kept_up.state == "overloaded":
                continue
            latency_s = latencies(mine)
            for percentile in {slo.percentile for slo in stream.slos} or {PRECISE}:
                found = located(
                    latency_s, mine.fresh, percentile, self.innovation(at, mine)
                ).within(0.95)
                if not found.enough or found.half_width > within:
                    times = max(times, found.requests_for(within) / len(latency_s))
        return math.ceil(times * self.told)

    def _foreseeable(self) -> bool:
        """Return whether no latency depends on later requests."""
        setup = self.setup
        world_changes = setup.turns is not None or setup.scalings is not None
        if world_changes or self.workload.failures is not None:
            return False
        return foreseeable(setup.layout, setup.duration, setup.models, setup.sources, setup.clients)

    def innovation(self, stream: int, outcomes: Outcomes) -> Floats | None:
        """Return arguments of ``percentile_of`` for consecutive requests of one stream.

        None if percentiles are those of this run, a latency may depend on later requests, or gaps
        are not independent.
        """
        arrivals, share = self.workload.arrivals_of(self.workload.streams[stream])
        if not self._of_all_runs or not isinstance(arrivals, Poisson | Gamma) or not share:
            return None
        # A thinned Poisson process is one too; for others, gaps depend on the other parts.
        if not arrivals.rate_per_s or (share < 1 and not isinstance(arrivals, Poisson)):
            return None
        return innovations_of(outcomes.arrival_s, arrivals.rate_per_s * share)

    def keep(self, outcomes: Outcomes) -> None:
        """Append the outcomes of further requests.

        Raises WorkloadError if they exceed the machine's memory.
        """
        self.parts.append(outcomes)
        self.told += len(outcomes.arrival_s)
        check_room(max(self.fed, self.told))

    def _playing(self) -> Serving:
        assert not isinstance(self.engine, RecordedRequests)
        return self.engine

    def _rest(self) -> None:
        for outcomes in self._playing().rest():
            self.keep(outcomes)

    def outcomes(self) -> Outcomes:
        """Return all outcomes so far in order of arrival."""
        if len(self.parts) != 1:
            self.parts = [Outcomes.joined(self.parts)]
        return self.parts[0]

    def counted(self, stream: int) -> Outcomes:
        """Return the outcomes of one stream's requests after the warm-up."""
        found = self.outcomes()
        return chosen(
            found, (found.stream == stream) & (found.arrival_s >= self.workload.warm_up_s)
        )

    def of_model(self, model: int) -> tuple[Outcomes, Stability | None]:
        """Return the outcomes of one model's requests, warm-up included, and its stability.

        The stability is None without requests.
        """
        found = self.outcomes()
        streams = [at for at, one in enumerate(self.setup.sources) if one.model == model]
        own = chosen(found, np.isin(found.stream, streams))
        counted = chosen(own, own.arrival_s >= self.workload.warm_up_s)
        asking = [self.workload.streams[at] for at in streams]
        return own, stability(self.workload, asking, counted)

    def _overloaded(self) -> bool:
        """Return whether no model keeps up with its requests."""
        kept_up = (self.of_model(at)[1] for at in range(len(self.setup.models)))
        return all(one is not None and one.state == "overloaded" for one in kept_up)

    def _all_came(self) -> bool:
        """Return whether all possible requests came: complete traces, streams without chance."""
        workload = self.workload
        if workload.drawn:
            return False
        if not workload.traces:
            kept_up = [self.of_model(at)[1] for at in range(len(self.setup.models))]
            return all(one is None or one.state == "stable" for one in kept_up)
        came = self.outcomes().arrival_s
        return len(came) > 0 and all(ended(one, float(came[-1])) for one in workload.traces)

    def look(self, confidence: float = CONFIDENCE, *, whole: bool = False) -> bool:
        """Check open objectives; return if all are decided. `whole`: there is no other run."""
        for at, stream in enumerate(self.workload.streams):
            if not stream.slos:
                continue
            mine = self.counted(at)
            if not len(mine.arrival_s):
                for place, slo in enumerate(() if whole else stream.slos):
                    self.verdicts[at, place] = verdict_of_none(slo.share)
                continue
            latency_s = latencies(mine)
            for place, slo in enumerate(stream.slos):
                before = self.verdicts.get((at, place))
                if whole:
                    self.verdicts[at, place] = verdict_of_all(
                        latency_s, mine.fresh, slo.share, slo.latency_s
                    )
                elif before is None or before.answer == "undecided":
                    verdict = verdict_of(
                        latency_s,
                        mine.fresh,
                        slo.share,
                        slo.latency_s,
                        confidence,
                        located(latency_s, mine.fresh, slo.percentile, self.innovation(at, mine)),
                    )
                    if isinstance(self.engine, FailingServing):
                        verdict = under_failures(
                            verdict, self.workload, self.engine, self.setup, mine, slo, confidence
                        )
                    self.verdicts[at, place] = verdict
        asked = sum(len(stream.slos) for stream in self.workload.streams)
        told = [one for one in self.verdicts.values() if one.answer != "undecided"]
        return len(told) == asked
