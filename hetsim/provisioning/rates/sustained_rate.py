"""Rates that one deployment sustains: exactly, by a grid, or by verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from hetsim.core.units import format_percentile, format_seconds
from hetsim.errors import Infeasible, UsageError
from hetsim.provisioning.rates.answer import Rates, SustainedRate, nearest_miss
from hetsim.provisioning.rates.ceiling import Ceiling, ceiling_of, quickest_s
from hetsim.provisioning.rates.exact_rate import (
    SamplePath,
    exact_factor,
    sample_of,
    too_many,
    why_not,
)
from hetsim.provisioning.rates.search import (
    CONFIDENCE,
    LEAST,
    RateJudge,
    Span,
    lower_end,
    spans,
    upper_end,
)
from hetsim.simulation.service.layout import EngineArguments
from hetsim.simulation.service.resolution import Resolved
from hetsim.simulation.service.run import most_requests as most_requests_of
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import played
from hetsim.simulation.serving.engine import events_of, pays
from hetsim.statistics.verdict import Answer
from hetsim.workload.workload import Workload


def ends_of_trace(sample: SamplePath, rates: Sequence[Rates], *, exact: bool) -> str:
    """Return the reason why a trace cannot be faster."""
    if not rates:
        return f"too many requests are late at {'any' if exact else 'each simulated'} rate"
    if rates[-1].misses_above_per_s is None:
        return "the trace has too few requests to miss at any rate"
    most = max(sample.objectives, key=lambda one: one.most_late / len(one.which))
    few = f"{most.most_late} of {len(most.which)} requests may be late"
    return f"{few}, and more are at {'any' if exact else 'the next'} higher rate"


def ends_of_verdicts(
    judge: RateJudge,
    found: Sequence[Span],
    beyond: Service | None,
    above: float | None,
    missed: float,
    ceiling: Ceiling,
    rate_per_s: float,
) -> str:
    """Return the reason why no higher rate is shown to meet; `above` is the nearest that misses."""
    open_ = [
        one
        for one in judge.seen.values()
        if one.answer == "undecided"
        and (not found or one.factor > found[-1].high)
        and (not found or above is None or one.factor < above)
    ]
    parts = []
    if found and found[-1].below is not None:
        parts.append(f"it also misses at {found[-1].below * rate_per_s:.4g}/s and below")
    if open_:
        least = min(open_, key=lambda one: one.factor)
        low = f"{found[-1].high * rate_per_s if found else 0.0:.4g}/s"
        upper = "" if above is None else f" and {above * rate_per_s:.4g}/s"
        between = f"between {low}{upper}" if upper else f"above {low}"
        parts.append(f"not resolved {between}; try --requests {10 * least.run.told}")
    if beyond is not None and above is not None:
        parts.append(_missed(beyond, above * rate_per_s))
    elif found and above is not None and above >= missed:
        parts.append(f"{ceiling.binds} is overloaded from {above * rate_per_s:.4g}/s on")
    return "; ".join(parts) if parts else "no simulated rate misses"


def _missed(service: Service, rate_per_s: float) -> str:
    if service.state == "overloaded":
        return f"{service.bottleneck} is overloaded at {rate_per_s:.4g}/s"
    nearest = nearest_miss(service)
    if nearest is None:
        return f"it misses at {rate_per_s:.4g}/s"
    slo, percentile = nearest
    at = f"at {rate_per_s:.4g}/s {format_percentile(slo.percentile)} is"
    if math.isinf(percentile.estimate_s):
        return f"{at} beyond the answered requests"
    far = "" if math.isinf(percentile.high_s) else f" to {format_seconds(percentile.high_s)}"
    waits_s = max(one.queue.mean_s for one in service.streams if one.answered)
    return (
        f"{at} {format_seconds(percentile.estimate_s)} ({format_seconds(percentile.low_s)}{far}) "
        f"and the mean wait {format_seconds(waits_s)}"
    )


SAMPLE = 2**14
"""Number of random requests whose own capacity is the first guess of the rate."""

ROUGH, ROUGH_LOOKS = 2**12, 14
"""Number of requests if that capacity needs a grid, and the number of its cells."""

BELOW, ABOVE = 2.0**-7, 16.0
"""Range of rates of a grid for a trace, relative to the ceiling."""

MOST_SPANS = 3
"""Maximum number of spans whose ends are judged, the highest ones."""

EVALUATIONS = 200
"""Approximate number of evaluations of a grid."""


@dataclass(frozen=True, slots=True, eq=False)
class RateQuestion:
    """Deployment, set up for rates; `rates_per_s` is by stream, as in the workload."""

    name: str
    resolved: tuple[Resolved, ...]
    setup: EngineArguments
    workload: Workload
    rates_per_s: tuple[float, ...]

    @property
    def rate_per_s(self) -> float:
        """Rate of all streams."""
        return sum(self.rates_per_s)

    def ceiling(
        self, streams: Sequence[int] | None = None, sample: SamplePath | None = None
    ) -> Ceiling:
        """Return the ceiling of all arrivals, or of some streams only."""
        shares = []
        for at, places in enumerate(self.setup.variant):
            count = len(self.resolved[self.setup.sources[at].model].variants)
            if sample is None or len(places) == 1:
                share = np.bincount(places, minlength=count) / len(places)
            else:
                mine = np.bincount(sample.variant[sample.stream == at], minlength=count)
                share = mine / max(mine.sum(), 1)
            shares.append(share)
        rates = [
            rate if streams is None or at in streams else 0.0
            for at, rate in enumerate(self.rates_per_s)
        ]
        return ceiling_of(self.resolved, self.setup, rates, shares)


def refused(name: str, error: Infeasible) -> SustainedRate:
    """Return the row of a deployment that cannot be served."""
    return SustainedRate(
        name=name, resolved=(), how="exact", answer="misses", proved=True, ends=str(error),
        refused=error,
    )  # fmt: skip


def sustained_rate(
    question: RateQuestion, *, most_requests: int | None, gap: float, confidence: float = CONFIDENCE
) -> SustainedRate:
    """Return the rate of a deployment; `confidence`: probability that no verdict is wrong."""
    if question.workload.traces:
        return _of_trace(question)
    return _in_the_long_run(question, most_requests, gap, confidence)


def _of_trace(question: RateQuestion) -> SustainedRate:
    workload, setup = question.workload, question.setup
    if workload.closed:
        raise UsageError("a trace, and clients who wait for answers", hint="ask of one of them")
    if workload.duration_s is not None:
        raise UsageError(
            "a trace with duration_s, and its rate is looked for", hint="write requests: instead"
        )
    sample = sample_of(workload, setup)
    if not sample.objectives:
        raise UsageError("no request comes that an objective is of", hint="write another trace")
    why = why_not(question.resolved, setup)
    rate_per_s = question.rate_per_s
    ceiling = question.ceiling(sample=sample)
    exact: Fraction | None = None
    found: tuple[Span, ...]
    if why is None:
        factor = exact_factor(setup, sample)
        if factor is None:
            found = ()
        elif isinstance(factor, Fraction):
            exact = factor
            highest = _down(factor)
            found = (Span(0.0, highest, None, math.nextafter(highest, math.inf)),)
        else:
            found = (Span(0.0, math.inf, None, None),)
    else:
        top = ceiling.factor if math.isfinite(ceiling.factor) else 1.0
        compiled = pays(len(sample) * EVALUATIONS * events_of(setup.layout))
        count = partial(too_many, setup, sample, machine_code=compiled)
        found = spans(count, top * BELOW, top * ABOVE, precision=2.0**-40)
    rates = tuple(_rates(one, rate_per_s) for one in found)
    service = None
    if found:
        last = found[-1].high if math.isfinite(found[-1].high) else max(ceiling.factor, 1.0)
        comes = workload.faster(last if math.isfinite(last) else 1.0)
        service = played(comes, question.resolved, setup)
    return SustainedRate(
        name=question.name,
        resolved=question.resolved,
        how="exact" if why is None else "scan",
        one_span=why,
        answer="meets" if found else "misses",
        proved=why is None and not found,
        rates=rates,
        factor=exact,
        sample=len(sample),
        ceiling_per_s=ceiling.factor * rate_per_s,
        ceiling_binds=ceiling.binds,
        at=service,
        ends=ends_of_trace(sample, rates, exact=why is None),
        requests=len(sample),
    )


def _down(factor: Fraction) -> float:
    """Return the largest float that is not above `factor`."""
    near = float(factor)
    return near if Fraction(near) <= factor else math.nextafter(near, 0.0)


def _rates(span: Span, rate_per_s: float) -> Rates:
    return Rates(
        span.low * rate_per_s,
        span.high * rate_per_s,
        None if span.below is None else span.below * rate_per_s,
        None if span.above is None else span.above * rate_per_s,
    )


def _in_the_long_run(
    question: RateQuestion, budget: int | None, gap: float, confidence: float
) -> SustainedRate:
    setup, workload = question.setup, question.workload
    ceiling = question.ceiling()
    missed = _overloaded(question)
    late = _too_slow(question)
    why = why_not(question.resolved, setup)
    budget = budget or most_requests_of(setup)
    judge = RateJudge(question.resolved, setup, workload, budget=budget, confidence=confidence)
    sample_factor: float | None = None
    found: list[Span] = []
    count = SAMPLE if why is None else ROUGH
    if late is None:
        sample = sample_of(workload, setup, count)
        if why is None:
            factor = exact_factor(setup, sample)
            sample_factor = 0.0 if factor is None else float(factor)
            guesses = [Span(0.0, sample_factor, None, None)]
        elif workload.closed:
            guesses = [Span(0.0, math.inf, None, None)]
        else:
            guesses = list(_guessed(setup, sample, min(missed, ceiling.factor)))
        found = _judged_spans(judge, guesses, missed, gap, one=why is None)
    answers = {one.answer for one in judge.seen.values()}
    answer: Answer = "meets" if found else "undecided"
    if not found and (late is not None or answers == {"misses"}):
        answer = "misses"
    rates = tuple(_rates(one, question.rate_per_s) for one in found)
    at = judge.service(found[-1].high) if found else None
    beyond = None
    above = found[-1].above if found else min(judge.seen, default=None)
    if above is not None and above in judge.seen:
        beyond = judge.service(above)
    return SustainedRate(
        name=question.name,
        resolved=question.resolved,
        how="verdicts",
        one_span=why,
        answer=answer,
        proved=late is not None,
        rates=rates,
        sample_per_s=None if sample_factor is None else sample_factor * question.rate_per_s,
        sample=count,
        ceiling_per_s=ceiling.factor * question.rate_per_s,
        ceiling_binds=ceiling.binds,
        at=at,
        beyond=beyond,
        ends=late
        if late is not None
        else ends_of_verdicts(judge, found, beyond, above, missed, ceiling, question.rate_per_s),
        requests=sum(one.run.told for one in judge.seen.values()),
    )


def _judged_spans(
    judge: RateJudge, guesses: Sequence[Span], missed: float, gap: float, *, one: bool
) -> list[Span]:
    """Return the spans near these guesses shown by verdicts; `one`: a single one from 0."""
    found: list[Span] = []
    for guess in guesses[-MOST_SPANS:]:
        near = guess.high if math.isfinite(guess.high) and guess.high > 0 else missed
        if not math.isfinite(near):
            near = 1.0
        if not guess.high > 0:
            near *= BELOW
        high, above = upper_end(lambda factor: judge.at(factor).answer, near, missed, gap)
        if high is None:
            continue
        low = 0.0 if one else min(high, guess.low)
        if not one and guess.below is not None:
            low = _lower_end(judge, low, high, gap)
        elif not one and (not low or judge.at(low).answer != "meets"):
            low = high
        found.append(Span(low, high, None, above))
    missing = [factor for factor, seen in judge.seen.items() if seen.answer == "misses"]
    return [
        replace(
            span,
            below=max((factor for factor in missing if factor < span.low), default=None),
            above=min((factor for factor in missing if factor > span.high), default=span.above),
        )
        for span in _apart(found)
    ]


def _lower_end(judge: RateJudge, guess: float, high: float, gap: float) -> float:
    """The lowest factor that meets, near a guess and up to `high`, which does.

    Factors beyond that, and below a LEAST of the guess, are not looked at.
    """
    least = guess * LEAST
    meets, _ = lower_end(lambda at: judge.at(min(max(at, least), high)).answer, guess, 0.0, gap)
    return high if meets is None else min(max(meets, least), high)


def _apart(found: Sequence[Span]) -> list[Span]:
    """Return the spans with overlapping ones merged."""
    joined: list[Span] = []
    for span in sorted(found, key=lambda one: one.low):
        if joined and span.low <= joined[-1].high:
            if span.high > joined[-1].high:
                joined[-1] = replace(joined[-1], high=span.high, above=span.above)
        else:
            joined.append(span)
    return joined


def _guessed(setup: EngineArguments, sample: SamplePath, ceiling: float) -> tuple[Span, ...]:
    """Return the approximate spans of a short sample, or its best rate without any."""
    top = ceiling if math.isfinite(ceiling) else 1.0
    seen: dict[float, int] = {}
    machine_code = pays(len(sample) * ROUGH_LOOKS * events_of(setup.layout))

    def count(factor: float) -> int:
        seen[factor] = too_many(setup, sample, factor, machine_code=machine_code)
        return seen[factor]

    found = spans(count, top * BELOW, top, cells=ROUGH_LOOKS, finest=0.2, precision=0.05)
    if found:
        return found
    best = min(seen, key=lambda factor: (seen[factor], factor))
    return (Span(best, best, None, None),)


def _overloaded(question: RateQuestion) -> float:
    """Return the least factor proved to overload some stream with an objective."""
    least = math.inf
    setup = question.setup
    for at, stream in enumerate(question.workload.streams):
        if not stream.slos or not question.rates_per_s[at]:
            continue
        source = setup.sources[at]
        model = setup.models[source.model]
        before = [
            other
            for other, one in enumerate(setup.sources)
            if one.model == source.model and one.level <= source.level
        ]
        factor = question.ceiling(before).factor
        if model.max_queue_size is not None or model.timeout_s < math.inf:
            # Rejected or delayed requests make room: only the rest must be on time.
            factor = (
                factor / min(slo.share for slo in stream.slos) if len(before) == 1 else math.inf
            )
        least = min(least, factor)
    return least


def _too_slow(question: RateQuestion) -> str | None:
    """Return the reason why no rate meets an objective: a request alone is too slow; else None."""
    for at, stream in enumerate(question.workload.streams):
        for slo in stream.slos:
            least_s = quickest_s(question.setup, at)
            if least_s > slo.latency_s:
                return f"a request alone takes {format_seconds(least_s)}, and {slo} is asked"
    return None
