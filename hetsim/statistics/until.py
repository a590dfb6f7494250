"""A run that goes on until it answers what is asked of it, or its budget is spent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from hetsim.core.checks import number, whole
from hetsim.errors import InvalidInput
from hetsim.statistics.arrays import Flags, Latencies
from hetsim.statistics.percentile import Located, Percentile, checked, located
from hetsim.statistics.verdict import CONFIDENCE, Verdict, confidence_of_look, verdict_of
from hetsim.workload.slo import Slo

FIRST_LOOK = 2**14
"""Requests after which a run is looked at first; then each time that it is twice as long."""

Block: TypeAlias = tuple[Latencies, Flags] | tuple[Latencies, Flags, Latencies]

End = Literal["answered", "budget", "ended"]


@dataclass(frozen=True, slots=True)
class Answered:
    """What a run said.

    Attributes
    ----------
    verdicts : tuple of Verdict
        Of each objective, from the look that told it, else from the last.
    percentiles : tuple of Percentile
        At the percentile of each objective, of the whole run.
    requests : int
        How many were played.
    end : "answered", "budget" or "ended"
        All was answered, the budget was spent, or no more requests came.
    """

    verdicts: tuple[Verdict, ...]
    percentiles: tuple[Percentile, ...]
    requests: int
    end: End


def until(
    blocks: Iterable[Block],
    slos: Sequence[Slo],
    budget: int,
    *,
    precision: float | None = None,
    confidence: float = CONFIDENCE,
) -> Answered:
    """Play a run until each objective is met or missed.

    Parameters
    ----------
    blocks : iterable of (float64[n], bool[n]) or (float64[n], bool[n], float64[n])
        Latencies of requests that follow each other, with which of them a busy period begins,
        and, of all blocks or of none, their innovations as ``percentile_of`` takes them. No more
        are asked for than are needed.
    slos : sequence of Slo
        One or more.
    budget : int
        Requests after which it ends in any case.
    precision : float, optional
        Half of an interval over the estimate: it goes on until those of the percentiles, at 95 %,
        are so narrow, too.
    confidence : float
        That no verdict is wrong, over all looks at the run.

    Raises
    ------
    InvalidInput
        Where an argument makes no sense, or no request came.

    Complexity: linear in the requests that are played; memory for their latencies.
    """
    whole(1)(budget, "budget")
    if not slos:
        raise InvalidInput("no objective", hint="give one or more")
    if precision is not None:
        number(above=0)(precision, "precision")
    run = _Run(tuple(slos), precision, confidence)
    due = min(FIRST_LOOK, budget)
    for block in blocks:
        count = checked(*block[:2])
        first = 0
        while first < count:
            end = min(count, first + due - run.requests)
            run.add(tuple(column[first:end] for column in block))
            first = end
            if run.requests < due:
                continue
            if run.look():
                return run.answered("answered")
            if run.requests >= budget:
                return run.answered("budget")
            due = min(run.next_look(), budget)
    if not run.requests:
        raise InvalidInput("there is no request")
    # What came after the last look.
    return run.answered("answered" if run.look() else "ended")


class _Run:
    """The requests so far, and what they said."""

    def __init__(self, slos: tuple[Slo, ...], precision: float | None, confidence: float) -> None:
        self.slos = slos
        self.precision = precision
        self.confidence = confidence
        self.verdicts: list[Verdict | None] = [None] * len(slos)
        self.parts: list[Any] = []
        self.requests = 0
        self.looks = 0
        self.at: tuple[Located, ...] | None = None

    def add(self, block: Any) -> None:
        """Take further requests in."""
        self.parts.append(block)
        self.requests += len(block[0])
        self.at = None

    def whole(self) -> tuple[Latencies, Flags, Latencies | None]:
        """Return all requests."""
        if len(self.parts) > 1:
            self.parts = [tuple(map(np.concatenate, zip(*self.parts, strict=True)))]
        latency_s, fresh, *innovation = self.parts[0]
        return latency_s, fresh, innovation[0] if innovation else None

    def look(self) -> bool:
        """Ask what is not answered yet; return whether all is."""
        self.looks += 1
        latency_s, fresh, _ = self.whole()
        confidence = confidence_of_look(self.looks, self.confidence)
        for at, slo in enumerate(self.slos):
            before = self.verdicts[at]
            if before is None or before.answer == "undecided":
                self.verdicts[at] = verdict_of(
                    latency_s, fresh, slo.share, slo.latency_s, confidence, self.located()[at]
                )
        if self.undecided():
            return False
        return self.precision is None or all(
            one.enough and one.half_width <= self.precision for one in self.percentiles()
        )

    def undecided(self) -> bool:
        """Return whether some verdict is still out."""
        return any(one is None or one.answer == "undecided" for one in self.verdicts)

    def next_look(self) -> int:
        """Return after how many requests to look again."""
        found = self.percentiles()
        if self.precision is None or (self.undecided() and all(one.enough for one in found)):
            return 2 * self.requests
        return max(one.requests_for(self.precision) for one in found)

    def located(self) -> tuple[Located, ...]:
        """Return where the percentiles of all requests are."""
        if self.at is None:
            latency_s, fresh, innovation = self.whole()
            self.at = tuple(
                located(latency_s, fresh, slo.percentile, innovation) for slo in self.slos
            )
        return self.at

    def percentiles(self) -> tuple[Percentile, ...]:
        """Return the percentiles of all requests."""
        return tuple(one.within(0.95) for one in self.located())

    def answered(self, end: End) -> Answered:
        """Return what the run said."""
        verdicts = tuple(one for one in self.verdicts if one is not None)
        return Answered(verdicts, self.percentiles(), self.requests, end)
