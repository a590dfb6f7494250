"""Why a deployment carries no more, in one line."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hetsim.core.units import format_seconds
from hetsim.provisioning.rates.answer import Rates, nearest_miss
from hetsim.provisioning.rates.ceiling import Ceiling
from hetsim.provisioning.rates.judging import Judge
from hetsim.provisioning.rates.sample import Sample
from hetsim.provisioning.rates.scanning import Span
from hetsim.simulation.service.service import Service
from hetsim.workload.workload import Slo


def no_rate(slo: Slo, least_s: float) -> str:
    """Return why no rate meets an objective."""
    return f"a request alone takes {format_seconds(least_s)}, and {slo} is asked"


def ends_of_trace(sample: Sample, rates: Sequence[Rates], *, exact: bool) -> str:
    """Return why a trace can come no faster."""
    if not rates:
        at = "no rate" if exact else "no rate that was looked at"
        return f"{at} has few enough late"
    if rates[-1].misses_above_per_s is None:
        return "enough are on time at any rate: too few requests to tell"
    most = max(sample.objectives, key=lambda one: one.most_late / len(one.which))
    few = f"{most.most_late} of {len(most.which)} requests may be late"
    return f"{few}, and at any higher rate more are" if exact else f"{few}, and just above more are"


def ends_of_verdicts(
    judge: Judge,
    found: Sequence[Span],
    beyond: Service | None,
    missed: float,
    ceiling: Ceiling,
    rate_per_s: float,
) -> str:
    """Return why no higher rate was shown to meet the objectives."""
    above = found[-1].above if found else None
    open_ = [
        one
        for one in judge.seen.values()
        if one.answer == "undecided"
        and (not found or one.factor > found[-1].high)
        and (above is None or one.factor < above)
    ]
    parts = []
    if found and found[-1].below is not None:
        parts.append(f"at {found[-1].below * rate_per_s:.4g} and less it misses, too")
    if open_:
        least = min(open_, key=lambda one: one.factor)
        parts.append(
            f"{least.factor * rate_per_s:.4g} a second is undecided after {least.requests} requests"
        )
    if beyond is not None:
        parts.append(_missed(beyond, _rate_of(judge, beyond) * rate_per_s))
    elif above is not None and above >= missed:
        parts.append(f"from {above * rate_per_s:.4g} on {ceiling.binds} is overloaded")
    return "; ".join(parts) if parts else "no rate was seen to miss"


def _rate_of(judge: Judge, service: Service) -> float:
    return next(one.factor for one in judge.seen.values() if one.run.workload is service.workload)


def _missed(service: Service, rate_per_s: float) -> str:
    if service.state == "overloaded":
        return f"at {rate_per_s:.4g} overloaded, busiest {service.bottleneck}"
    nearest = nearest_miss(service)
    if nearest is None:
        return f"at {rate_per_s:.4g} it is missed"
    slo, percentile = nearest
    far = "" if math.isinf(percentile.high_s) else f" to {format_seconds(percentile.high_s)}"
    waits_s = max(one.queue.mean_s for one in service.streams)
    return (
        f"at {rate_per_s:.4g} p{slo.percentile:g} is {format_seconds(percentile.estimate_s)} "
        f"({format_seconds(percentile.low_s)}{far}), the mean wait {format_seconds(waits_s)}"
    )
