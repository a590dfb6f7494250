"""What a page knows of a deployment at other rates: a curve, and what its sliders play again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from hetsim.base.text import Record
from hetsim.errors import HetsimError
from hetsim.hardware.spec import Platform
from hetsim.reporting.pages.answers.commands import RATE, without
from hetsim.reporting.pages.answers.load import MOST, load_data, slos_data, why_not
from hetsim.reporting.pages.pictures.curve import curve_of, factors_of, short
from hetsim.service.layout import Setup, set_up
from hetsim.service.memory import check_together
from hetsim.service.resolving import Resolved
from hetsim.service.running import expected
from hetsim.sizing.carrying import Question
from hetsim.sizing.ceiling import quickest_s, rates_of
from hetsim.workloads.workload import Workload

WORK = 600_000
"""Tasks that a page plays whenever a slider moves, about."""

LEAST = 2048
"""Requests that it plays all the same."""


def served_pictures(
    command: Sequence[str],
    verb: str,
    workload: Workload,
    resolved: Sequence[Resolved],
    platform: Platform,
    *,
    from_file: bool,
    options: Sequence[str] = (),
    gone: Sequence[str] = (),
    own: Sequence[float] = (1.0,),
    start: float = 1.0,
    name: str = "",
    tell: Callable[[str], None] | None = None,
) -> Record:
    """Return ``curve`` and ``load`` of one deployment, either None where it has none.

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
    own : sequence of float
        Factors that the curve shows in any case.
    start : float
        The factor that sliders begin at.
    name : str
        What tells the deployment from others.
    """
    if any(one.served.autoscaling for one in resolved) or workload.failures is not None:
        return {"name": name, "curve": None, "load": None, "why_not": "devices or replicas change"}
    setup = set_up(resolved, workload, check_together(resolved, platform))
    rates_per_s = rates_of(workload)
    if not 0 < sum(rates_per_s) < math.inf:
        at_once = any(map(math.isinf, rates_per_s))
        none = "all requests come at one time" if at_once else "clients wait for answers"
        return {"name": name, "curve": None, "load": None, "why_not": none}
    page = bounded(workload, setup, from_file=from_file)
    question = Question(name, tuple(resolved), setup, page, rates_per_s)
    ceiling = question.ceiling()
    why = why_not(page, setup)
    whole = not from_file or page is workload
    data = load_data(page, setup) if why is None and whole else None
    if why is None and data is None:
        why = f"more than {MOST} requests come, and a page holds no more"
    found: Record = {
        "name": name,
        "rate_per_s": sum(rates_per_s),
        "requests": page.requests,
        "load": data,
        "why_not": why,
        "ceiling_per_s": _number(ceiling.factor * sum(rates_per_s)),
        "ceiling_binds": ceiling.binds,
        "quickest_s": [quickest_s(resolved, setup, at) for at in range(len(page.streams))],
        "command": [*without(command, verb, (*RATE, *gone)), *options],
        "from_file": from_file,
        "start": start,
        "limits": [slos_data(one) for one in page.streams],
        "curve": None,
    }  # fmt: skip
    factors = [
        factor if from_file else short(factor * sum(rates_per_s)) / sum(rates_per_s)
        for factor in factors_of(ceiling.factor, own)
    ]
    if not page.traces or from_file:
        try:
            found["curve"] = curve_of(page, resolved, setup, factors, tell)
        except HetsimError as error:
            found["why_no_curve"] = str(error)
    return found


def together(rows: Sequence[Record]) -> Record:
    """Return the pictures of some deployments, with requests that they have in common once."""
    sources: list[object] = []
    found = []
    for row in rows:
        load = row["load"]
        if load is not None:
            if load["sources"] not in sources:
                sources.append(load["sources"])
            load = {**load, "sources": sources.index(load["sources"])}
        found.append({**row, "load": load})
    return {"served": {"rows": found, "sources": sources}}


def bounded(workload: Workload, setup: Setup, *, from_file: bool) -> Workload:
    """Return the first requests of a workload: as many as a page plays while a slider moves."""
    if from_file and expected(workload) <= MOST:
        return workload
    most = MOST
    while most > LEAST and most * setup.mean_tasks > WORK:
        most //= 2
    asked = workload.requests
    return replace(workload, duration_s=None, requests=min(most, asked or most), warm_up_s=0.0)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
