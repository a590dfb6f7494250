"""What a deployment carries without any few devices: the least over all of these losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetsim.hardware.spec import Platform
from hetsim.provisioning.rates.answer import Carried, Rates, Without
from hetsim.provisioning.rates.carrying import Question, carried, refused
from hetsim.provisioning.rates.redundancy.answer import confidence_of_each
from hetsim.provisioning.rates.redundancy.left import Leaving, ways
from hetsim.statistics.verdict import Answer


def carried_without(
    question: Question, platform: Platform, losses: int, *, most_requests: int, gap: float
) -> Carried:
    """Return what a deployment carries with all devices and without any `losses` of them.

    Losses that leave the same are asked once. All verdicts together are right in 95 of 100 cases.
    """
    rows, _ = ways(Leaving(question.resolved, platform), losses)
    confidence = confidence_of_each(len(rows))
    found = []
    for lost, sets, left in rows:
        if left.refused is not None:
            row = refused(question.name, left.refused)
        else:
            setup = left.set_up(question.workload)
            asked = replace(question, resolved=left.resolved, setup=setup)
            row = carried(asked, most_requests=most_requests, gap=gap, confidence=confidence)
        found.append(Without(lost, sets, row))
    return least_of(found)


def least_of(found: Sequence[Without]) -> Carried:
    """Return what is carried in all cases, the first that of all devices.

    Rates that meet the objectives in each; where one bounds them that is exact, so is the least.
    """
    rows = [one.carried for one in found]
    rates = tuple(_in_all([one.rates for one in rows]))
    binds = min(found, key=lambda one: one.carried.highest_per_s)
    if not rates:
        missed = [one for one in found if one.carried.answer == "misses"]
        binds = next((one for one in missed if one.carried.proved), (missed or [binds])[0])
    row = binds.carried
    answer: Answer = "meets"
    if not rates:
        apart = all(one.answer == "meets" for one in rows) and row.how != "verdicts"
        answer = "misses" if row.answer == "misses" or apart else "undecided"
    tight = min(found, key=lambda one: one.carried.ceiling_per_s)
    samples = [one.sample_per_s for one in rows if one.sample_per_s is not None]
    return replace(
        rows[0],
        how="scan" if any(one.how == "scan" for one in rows) else rows[0].how,
        one_span=next((one.one_span for one in rows if one.one_span is not None), None),
        answer=answer,
        proved=answer == "misses" and row.proved,
        rates=rates,
        factor=row.factor if rates and row.highest_per_s == rates[-1].high_per_s else None,
        sample_per_s=min(samples, default=None),
        ceiling_per_s=tight.carried.ceiling_per_s,
        ceiling_binds=tight.carried.ceiling_binds + _named(tight),
        at=row.at,
        beyond=row.beyond,
        ends=row.ends + _named(binds),
        requests=sum(one.requests for one in rows),
        losses=tuple(sorted(found, key=lambda one: one.carried.highest_per_s)),
    )


def _named(one: Without) -> str:
    return f" without {', '.join(one.lost)}" if one.lost else ""


def _in_all(spans: Sequence[Sequence[Rates]]) -> Sequence[Rates]:
    """The rates that are in a span of each, ascending."""
    found = spans[0]
    for others in spans[1:]:
        found = [both for one in found for other in others if (both := _in_both(one, other))]
    return found


def _in_both(one: Rates, other: Rates) -> Rates | None:
    low, high = max(one.low_per_s, other.low_per_s), min(one.high_per_s, other.high_per_s)
    below = [
        each for each in (one.misses_below_per_s, other.misses_below_per_s) if each is not None
    ]
    above = [
        each for each in (one.misses_above_per_s, other.misses_above_per_s) if each is not None
    ]
    return (
        Rates(low, high, max(below, default=None), min(above, default=None))
        if low <= high
        else None
    )
