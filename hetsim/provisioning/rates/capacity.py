"""Capacity: rates that a platform sustains within its objectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from hetsim.core import checks
from hetsim.core.progress import each
from hetsim.errors import Infeasible, UsageError
from hetsim.hardware.spec import Platform
from hetsim.placement.bounds.lower_bound import stated_bound
from hetsim.provisioning.rates.answer import (
    Capacity,
    Rates,
    RateWithoutDevices,
    SustainedRate,
    check_objectives,
    confidence_of_each,
)
from hetsim.provisioning.rates.ceiling import demand_of, impossible_as
from hetsim.provisioning.rates.losses import LossModel, ways_of
from hetsim.provisioning.rates.sustained_rate import RateQuestion, refused, sustained_rate
from hetsim.simulation.service.layout import check_together, set_up
from hetsim.simulation.service.resolution import ModelOptions, PlanCache, Resolved, resolve
from hetsim.statistics.verdict import Answer
from hetsim.workload.deployment import Deployment
from hetsim.workload.workload import Workload


def sustained_without(
    question: RateQuestion,
    platform: Platform,
    losses: int,
    *,
    most_requests: int | None,
    gap: float,
) -> SustainedRate:
    """Return the rates that a deployment sustains with all devices and without any `losses`."""
    rows = ways_of(LossModel(question.resolved, platform), losses)
    confidence = confidence_of_each(len(rows))
    found = []
    for lost, sets, left, _ in rows:
        if left.refused is not None:
            row = refused(question.name, left.refused)
        else:
            setup = left.set_up(question.workload)
            asked = replace(question, resolved=left.resolved, setup=setup)
            row = sustained_rate(asked, most_requests=most_requests, gap=gap, confidence=confidence)
        found.append(RateWithoutDevices(lost, sets, row))
    return least_of(found)


def least_of(found: Sequence[RateWithoutDevices]) -> SustainedRate:
    """Return the rates sustained in all cases, the first of which is that of all devices."""
    rows = [one.sustained for one in found]
    rates = rows[0].rates
    for others in rows[1:]:
        pairs = product(rates, others.rates)
        rates = tuple(both for pair in pairs if (both := _in_both(*pair)) is not None)
    binds = min(found, key=lambda one: one.sustained.highest_per_s)
    if not rates:
        missed = [one for one in found if one.sustained.answer == "misses"]
        binds = next((one for one in missed if one.sustained.proved), (missed or [binds])[0])
    row = binds.sustained
    answer: Answer = "meets"
    if not rates:
        apart = all(one.answer == "meets" for one in rows) and row.how != "verdicts"
        answer = "misses" if row.answer == "misses" or apart else "undecided"
    tight = min(found, key=lambda one: one.sustained.ceiling_per_s)
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
        ceiling_per_s=tight.sustained.ceiling_per_s,
        ceiling_binds=tight.sustained.ceiling_binds + _named(tight),
        at=row.at,
        beyond=row.beyond,
        ends=row.ends + _named(binds),
        requests=sum(one.requests for one in rows),
        losses=tuple(sorted(found, key=lambda one: one.sustained.highest_per_s)),
    )


def _named(one: RateWithoutDevices) -> str:
    return f" without {', '.join(one.lost)}" if one.lost else ""


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


GAP = 0.02
"""Ratio minus 1 of rates that meet and miss at which the search ends."""


@checks.takes(
    deployments=checks.either(
        checks.mapping(checks.text, checks.instance("hetsim.workload.deployment:Deployment")),
        checks.instance("hetsim.workload.deployment:Deployment"),
    ),
    workload=checks.instance("hetsim.workload.workload:Workload"),
    platform=checks.instance("hetsim.hardware.spec:Platform"),
    most_requests=checks.whole(1),
    gap=checks.number(above=0),
    losses=checks.whole(0),
)
def capacity(
    deployments: Deployment | Mapping[str, Deployment],
    workload: Workload,
    *,
    platform: Platform,
    most_requests: int | None = None,
    gap: float = GAP,
    losses: int = 0,
    settings: ModelOptions | None = None,
) -> Capacity:
    """Return the rates of a workload that meet its objectives, one row per deployment.

    All open-loop arrivals are sped up or slowed down by one factor, in the mixture of the workload;
    its duration does not matter. With a trace, the requests of the workload count: the answer is
    exact if more requests are provably late the faster they arrive (``exact_rate.why_not``), and
    otherwise found on a grid that is refined at every change of sign. For random requests, the
    answer holds in the long run: the highest rate shown to meet every objective, and the lowest
    shown to miss one, by runs that continue until decided, all on the same requests at different
    speeds.

    Parameters
    ----------
    deployments : Deployment, or mapping of str to Deployment
        Deployments of the models, named if several. Common parts are planned once.
    workload : Workload
        Workload with objectives, and arrivals at rates above 0.
    most_requests : int, optional
        Requests after which a run at one rate ends undecided. Absent: 2^20, or fewer if these
        exceed 2^24 task events, but at least 16,384.
    gap : float
        Ratio minus 1 of the rates that meet and miss at which the search ends.
    losses : int
        Number of devices that may be lost with the objectives still met, as in ``survive``: each
        row is the minimum over these losses, and lists them.
    settings : ModelOptions, optional
        Options for reading, pricing and planning models.

    Raises
    ------
    WorkloadError, UsageError
        As ``simulate`` for a deployment; and without an objective, or arrivals to speed up.

    Complexity: that of the plans, plus about ten runs per deployment, ten to 300 for traces.
    """
    if isinstance(deployments, Deployment):
        deployments = {_name(deployments): deployments}
    if not deployments:
        raise UsageError("no deployment", hint="give one or more")
    for deployment in deployments.values():
        deployment.check_steady("no rate is looked for with them")
    check_objectives(workload)
    if workload.failures is not None:
        raise UsageError(
            "a rate is not looked for where devices fail",
            hint="leave failures: out, and simulate the rate that is found with them",
        )
    rates_per_s = demand_of(workload)
    made = PlanCache()
    rows: list[SustainedRate] = []
    known: dict[object, SustainedRate] = {}
    for name in each(tuple(deployments)):
        deployment = deployments[name]
        try:
            resolved = resolve(deployment, workload, platform, settings, made)
            memory = check_together(resolved, platform)
        except Infeasible as error:
            rows.append(refused(name, error))
            continue
        same = _same(resolved)
        if same in known:
            rows.append(replace(known[same], name=name, resolved=resolved, requests=0))
            continue
        question = RateQuestion(
            name, resolved, set_up(resolved, workload, memory), workload, rates_per_s
        )
        if losses:
            known[same] = sustained_without(
                question, platform, losses, most_requests=most_requests, gap=gap
            )
        else:
            known[same] = sustained_rate(question, most_requests=most_requests, gap=gap)
        rows.append(known[same])
    rows.sort(key=lambda one: (one.refused is not None, -one.highest_per_s))
    impossible = None
    if all(one.answer == "misses" for one in rows):
        lost = [one.lost for row in rows[:1] for one in row.losses if not one.sustained.rates]
        whys = (impossible_as(workload, made, one) for one in ((), *filter(None, lost)))
        impossible = next((why for why in whys if why is not None), None)
    return Capacity(
        workload, sum(rates_per_s), tuple(rows), _bound_per_s(workload, made), impossible
    )


def _name(deployment: Deployment) -> str:
    return ", ".join(dict.fromkeys(served.strategy for served in deployment.models))


def _same(resolved: Sequence[Resolved]) -> object:
    """Return the key by which deployments are the same, whatever strategies made their plans."""
    return tuple(
        (
            replace(
                one.served,
                strategy="",
                instances=tuple(
                    replace(entry, strategy=None, plan=None) for entry in one.served.instances
                ),
            ),
            tuple(
                (plan.problem, plan.groups) for rows in one.plans for row in rows for plan in row
            ),
        )
        for one in resolved
    )


def _bound_per_s(workload: Workload, made: PlanCache) -> float | None:
    """Return a bound on requests per second over all plans, at the best batch size.

    None for several models or shapes, and for a trace, which ends before what comes is answered.
    """
    if workload.traces:
        return None
    models = {stream.model for stream in workload.streams}
    shapes = {tuple(sorted(dims.items())) for one in workload.streams for dims in one.variants}
    if len(models) > 1 or len(shapes) > 1:
        return None
    most = 0.0
    for (_, size, _), problem in made.problems.items():
        least_s = stated_bound(problem, "throughput")
        if not least_s:
            return None
        most = max(most, size / least_s)
    return most or None
