"""Rates judged one by one: long runs of the same requests, faster or slower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hetsim.simulation.service.figures import judged
from hetsim.simulation.service.layout import Setup
from hetsim.simulation.service.resolving import Resolved
from hetsim.simulation.service.running import Run, engine_of
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import service_of
from hetsim.simulation.serving.tables import SERVED
from hetsim.statistics.verdict import Answer, End, Verdict, confidence_of_look
from hetsim.workload.workload import Workload

CONFIDENCE = 0.95
"""That no verdict is wrong of all that are asked for at once: over rates, looks and losses."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What a run at one rate says.

    Attributes
    ----------
    factor : float
        On the rate of the workload.
    answer : "meets", "misses" or "undecided"
        Of all objectives together.
    requests : int
        That were played.
    more : int
        How many more would about tell; 0 where it is told.
    run : Run
    end : "answered", "budget" or "ended"
    """

    factor: float
    answer: Answer
    requests: int
    more: int
    run: Run
    end: End


class Judge:
    """A deployment, ready to be asked about one rate after another.

    All verdicts together are right in 95 of 100 cases: each new rate has less to err by. Every
    rate sees the same requests, by the seed, closer or further apart.

    Parameters
    ----------
    resolved, setup
        As ``resolve`` and ``set_up`` give them.
    workload : Workload
        Its rate is what factors are on; how long it is does not matter.
    budget : int
        Requests after which a run ends that has told nothing.
    confidence : float
        That none of its verdicts is wrong.
    """

    def __init__(
        self,
        resolved: Sequence[Resolved],
        setup: Setup,
        workload: Workload,
        *,
        budget: int,
        confidence: float = CONFIDENCE,
    ) -> None:
        self._resolved, self._setup = resolved, setup
        self._confidence = confidence
        self._workload = replace(workload, duration_s=None, requests=budget)
        self.seen: dict[float, Judged] = {}

    def at(self, factor: float) -> Judged:
        """Return what a run says that is long enough, or has spent its budget."""
        if factor not in self.seen:
            workload = self._workload.faster(factor)
            engine = engine_of(workload, self._setup, machine_code=True)
            run = Run(workload, self._setup, engine)
            confidence = confidence_of_look(len(self.seen) + 1, self._confidence)
            end = run.play(until_answered=True, confidence=confidence)
            verdicts = self._verdicts(run)
            answers = {one.answer for one in verdicts}
            # Of a stream of which nothing came nothing is known.
            asked = sum(len(stream.slos) for stream in workload.streams)
            all_met = answers == {"meets"} and len(verdicts) == asked
            answer: Answer = "meets" if all_met else "undecided"
            if "misses" in answers:
                answer = "misses"
            more = max((one.more for one in verdicts), default=0) if answer == "undecided" else 0
            self.seen[factor] = Judged(factor, answer, run.told, more, run, end)
        return self.seen[factor]

    def service(self, factor: float) -> Service:
        """Return all that the run at a factor says."""
        one = self.at(factor)
        return service_of(one.run, self._resolved, one.end)

    def _verdicts(self, run: Run) -> list[Verdict]:
        """Those of the run, but where a model is overloaded that needs no interval."""
        if all(one.answer != "undecided" for one in run.verdicts.values()):
            return list(run.verdicts.values())
        found = []
        for (at, place), verdict in run.verdicts.items():
            _, kept_up = run.of_model(self._setup.sources[at].model)
            rejects = bool((run.counted(at).why != SERVED).any())
            slo = run.workload.streams[at].slos[place]
            found.append(judged(slo, verdict, kept_up, rejects=rejects))
        return found
