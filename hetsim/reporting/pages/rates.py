"""Latency over rate of a deployment: the same requests, closer together or further apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from shlex import join

from hetsim.core.text import Record, plain
from hetsim.errors import HetsimError
from hetsim.hardware.spec import Platform
from hetsim.provisioning.rates.carrying import Question
from hetsim.provisioning.rates.ceiling import rates_of
from hetsim.reporting.pages.commands import RATE, without
from hetsim.reporting.tables.service import busiest
from hetsim.simulation.service.layout import Setup, set_up
from hetsim.simulation.service.memory import check_together
from hetsim.simulation.service.resolving import Resolved
from hetsim.simulation.service.running import Run, engine_of, expected
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import service_of
from hetsim.workload.workload import Workload

SHARES = (0.1, 0.3, 0.5, 0.65, 0.75, 0.82, 0.88, 0.93, 0.97, 1.05)
"""Rates that are simulated, as shares of the ceiling."""

USUAL = 99.0
"""Percentile of a stream without an objective."""

MOST = 1 << 14
"""Requests that are simulated at each rate."""


def rates_picture(
    command: Sequence[str],
    verb: str,
    workload: Workload,
    resolved: Sequence[Resolved],
    platform: Platform,
    *,
    from_file: bool,
    options: Sequence[str] = (),
    gone: Sequence[str] = (),
    own: float = 1.0,
    name: str = "",
    tell: Callable[[str], None] | None = None,
) -> Record:
    """Ceiling of one deployment and ``curve``, what becomes of its requests at each of some rates.

    ``curve`` is None where rates do not tell: devices fail, replicas come and go, or clients wait
    for answers; ``why_not`` says which.

    Parameters
    ----------
    command : sequence of str
        The reader's own; `verb` stands for its verb, `options` are added, `gone` left out.
    workload : Workload
    resolved : sequence of Resolved
        As ``resolve`` gives them.
    platform : Platform
    from_file : bool
        Whether a file says what comes, so that a command speaks of factors on it; else of a rate.
    own : float
        Factor on the workload's rate at which the slider starts.
    name : str
        Name of the deployment, where there are several.
    """
    if any(one.served.autoscaling for one in resolved) or workload.failures is not None:
        return {"name": name, "curve": None, "why_not": "devices or replicas change"}
    setup = set_up(resolved, workload, check_together(resolved, platform))
    rates_per_s = rates_of(workload)
    rate_per_s = sum(rates_per_s)
    if not 0 < rate_per_s < math.inf:
        at_once = math.isinf(rate_per_s)
        none = "all requests come at one time" if at_once else "clients wait for answers"
        return {"name": name, "curve": None, "why_not": none}
    first = first_of(workload, from_file=from_file)
    ceiling = Question(name, tuple(resolved), setup, first, rates_per_s).ceiling()
    found: Record = {
        "name": name,
        "rate_per_s": rate_per_s,
        "requests": first.requests,
        "ceiling_per_s": _number(ceiling.factor * rate_per_s),
        "ceiling_binds": ceiling.binds,
        "limits_s": [slo.latency_s for stream in first.streams for slo in stream.slos],
        "curve": None,
    }
    base = [*without(command, verb, (*RATE, *gone)), *options]
    factors = factors_of(ceiling.factor, (own,))
    if not from_file:
        factors = tuple(short(factor * rate_per_s) / rate_per_s for factor in factors)
    # A file of more requests than are simulated here has no command that simulates as many.
    told = not from_file or first is workload
    try:
        curve = _curve(first, resolved, setup, factors, tell)
    except HetsimError as error:
        return {**found, "why_not": str(error)}
    curve["start"] = min(range(len(factors)), key=lambda k: abs(factors[k] - own))
    curve["command"] = [
        _line([*base, *_asked(first, factor, rate_per_s, from_file=from_file)]) if told else None
        for factor in factors
    ]
    return {**found, "curve": curve}


def _line(words: Sequence[str]) -> str:
    return plain(join(words))


def _asked(workload: Workload, factor: float, rate_per_s: float, *, from_file: bool) -> list[str]:
    """Options that ask for these requests at a factor on their rate."""
    if from_file:
        return [] if factor == 1 else ["--faster", repr(factor)]
    [stream] = workload.streams
    limits = [f"p{slo.percentile:g}={slo.latency_s * 1e3:.12g}ms" for slo in stream.slos]
    rate = f"{factor * rate_per_s:.12g}"
    words = ["--rate", rate, "--requests", str(workload.requests)]
    return [*words, *(word for limit in limits for word in ("--slo", limit))]


def _curve(
    workload: Workload,
    resolved: Sequence[Resolved],
    setup: Setup,
    factors: Sequence[float],
    tell: Callable[[str], None] | None,
) -> Record:
    """Figures of a workload at some factors on its rate, as columns. O(factors) simulations."""
    streams: list[Record] = [
        {
            "name": one.name,
            "percentile": percentile_of(workload, at),
            "limit_s": min((slo.latency_s for slo in one.slos), default=None),
            "latency_s": [],
            "low_s": [],
            "high_s": [],
            "enough": [],
            "verdict": [],
        }
        for at, one in enumerate(workload.streams)
    ]
    found: Record = {"factor": [], "state": [], "bottleneck": [], "used": [], "streams": streams}
    coming = workload.requests or 0
    for number, factor in enumerate(factors):
        if tell is not None:
            tell(f"rate {number + 1} of {len(factors)}")
        service = _played(workload.faster(factor), resolved, setup, coming * len(factors))
        found["factor"].append(factor)
        found["state"].append(service.state)
        found["bottleneck"].append(service.bottleneck)
        found["used"].append(busiest(service))
        for one, stream in zip(streams, service.streams, strict=True):
            known = {each.percentile: each for each in stream.percentiles}
            at = known.get(one["percentile"])
            one["latency_s"].append(None if at is None else at.estimate_s)
            one["low_s"].append(None if at is None else at.low_s)
            one["high_s"].append(None if at is None else at.high_s)
            one["enough"].append(at is not None and at.enough)
            one["verdict"].append([each.verdict.answer for each in stream.objectives])
    return found


def percentile_of(workload: Workload, stream: int) -> float:
    """Percentile that is drawn of a stream: that of its tightest objective."""
    slos = workload.streams[stream].slos
    return min(slos, key=lambda slo: slo.latency_s).percentile if slos else USUAL


def factors_of(ceiling: float, own: Sequence[float]) -> tuple[float, ...]:
    """Factors on the rate that show how latency grows up to the ceiling, and `own`.

    They are short decimal numbers, so that a command with them can be typed.
    """
    if not math.isfinite(ceiling) or ceiling <= 0:
        ceiling = 2 * max(own, default=1.0)
    found = {short(share * ceiling) for share in SHARES} | set(own)
    return tuple(sorted(found))


def short(value: float) -> float:
    """Number of three digits.

    >>> short(123.456)
    123.0
    """
    return float(f"{value:.3g}")


def first_of(workload: Workload, *, from_file: bool) -> Workload:
    """First MOST requests of a workload; the workload itself, where a file says fewer."""
    if from_file and expected(workload) <= MOST:
        return workload
    requests = min(MOST, workload.requests or MOST)
    return replace(workload, duration_s=None, requests=requests, warm_up_s=0.0)


def _played(workload: Workload, resolved: Sequence[Resolved], setup: Setup, coming: int) -> Service:
    engine = engine_of(workload, setup, coming=coming)
    run = Run(workload, setup, engine)
    return service_of(run, resolved, run.play(until_answered=False))


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
