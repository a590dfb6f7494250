"""Runs that go on until they answer: what a long run says at each look, as ``Run`` takes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from hetsim.statistics.intervals import Percentile, located
from hetsim.statistics.verdict import FIRST_LOOK, Verdict, confidence_of_look, verdict_of
from hetsim.workload.workload import Slo


class Answered(NamedTuple):
    """What a run said of one objective, and after how many requests."""

    verdict: Verdict
    percentile: Percentile
    requests: int


def until(
    blocks: Iterable[tuple[Any, ...]], slo: Slo, budget: int, precision: float | None = None
) -> Answered:
    """Play blocks of (latencies, where busy periods begin[, innovations]) until it is answered.

    With a precision, until half of the percentile's interval is so narrow, too.
    """
    parts: list[tuple[Any, ...]] = []
    requests, due, look = 0, FIRST_LOOK, 0
    verdict: Verdict | None = None
    for block in blocks:
        parts.append(block)
        requests += len(block[0])
        if requests < min(due, budget):
            continue
        look += 1
        parts = [tuple(map(np.concatenate, zip(*parts, strict=True)))]
        latency_s, fresh, *innovation = parts[0]
        at = located(latency_s, fresh, slo.percentile, *innovation)
        if verdict is None or verdict.answer == "undecided":
            confidence = confidence_of_look(look)
            verdict = verdict_of(latency_s, fresh, slo.share, slo.latency_s, confidence, at)
        found = at.within(0.95)
        known = verdict.answer != "undecided"
        narrow = precision is None or (found.enough and found.half_width <= precision)
        if (known and narrow) or requests >= budget:
            return Answered(verdict, found, requests)
        due = 2 * requests
        if precision is not None and (known or not found.enough):
            due = found.requests_for(precision)
    raise AssertionError("the run ended before its budget")
