"""``hetsim simulate`` where requests come at a rate: from its words to a workload and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hetsim.cli.invocation import current
from hetsim.cli.told_where import check_strategies, told_where
from hetsim.errors import InvalidInput, UsageError, WorkloadError, nearest

if TYPE_CHECKING:
    from hetsim.analysis.sensitivity import Sensitivities
    from hetsim.cli.question import Canonical
    from hetsim.hardware.price import Price
    from hetsim.hardware.spec import Platform
    from hetsim.placement.objective import Objective
    from hetsim.plans.plan import Plan
    from hetsim.problem.parts import Contention
    from hetsim.service.asked import Asked
    from hetsim.service.service import Service
    from hetsim.workloads.arrivals.closed import Closed
    from hetsim.workloads.deployment import Deployment, DynamicBatching, Instances, Loading
    from hetsim.workloads.failing import ByDevice, Failing
    from hetsim.workloads.failure import Failure
    from hetsim.workloads.registry import Open
    from hetsim.workloads.slo import Slo
    from hetsim.workloads.workload import Workload

BUDGET = 2**20
"""Requests after which a run ends that was to answer every objective."""

PRECISE = 2**24
"""Requests after which a run ends that was to be precise."""

WITHOUT = 2**16
"""Requests of a run that nothing says the length of, and that has no objective."""

KINDS = ("constant", "poisson", "gamma:CV", "burst:SIZE")

OF_LOAD = (
    "workload",
    "deployment",
    "rate",
    "arrivals",
    "concurrency",
    "think_ms",
    "slos",
    "within",
    "duration_s",
    "batching",
    "instances",
    "loading",
    "mtbf",
    "mttr",
    "prices",
    "tariff",
    "lifetime",
)
"""Options any of which means that requests come at their own times."""

OF_FILE = {
    "rate": "write rate_per_s: there",
    "arrivals": "write arrivals: there",
    "concurrency": "write closed: there",
    "think_ms": "write think_time_s: there",
    "slos": "write slos: there",
    "duration_s": "write duration_s: there",
    "requests": "write requests: there",
    "seed": "write seed: there",
    "failures": "write failures: there",
    "mtbf": "write failures: there",
    "mttr": "write failures: there",
    "dims": "write dims: there, in a stream",
    "shapes": "write dims: there, in a stream",
    "input": "write dims: there, in a stream",
}
"""What a workload file says itself, and how."""

OF_DEPLOYMENT = {
    "strategy": "write strategy: there",
    "batching": "write dynamic_batching: there",
    "instances": "write instances: there",
    "loading": "write loading: there",
}
"""What a deployment file says itself, and how."""

OF_PLAN = {
    "interval_ms": "give --rate and --arrivals constant for requests that come evenly",
    "draws": "leave it out, or give --pessimistic for the bad end of what figures may be off by",
    "sustained": "leave it out, or judge one plan so, without a rate",
    "target_ms": "give --slo, e.g. --slo p99=50ms",
    "trace": "leave it out, or trace one plan, without a rate; --out keeps the result",
}
"""Options that are of one plan, or not simulated under load, and what to do."""


@dataclass(frozen=True, slots=True)
class Load:
    """What the words of the command line say of requests and of who serves them."""

    source: str | None
    workload: str | None
    deployment: str | None
    rate: float | None
    arrivals: str | None
    concurrency: int | None
    think_ms: float | None
    slos: tuple[Slo, ...]
    duration_s: float | None
    requests: int | None
    seed: int
    batching: DynamicBatching | None
    instances: int | None
    dims: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    strategy: str | None
    loading: Loading | None = None
    plan: str | None = None
    within: float | None = None
    sensitivities: bool = False
    injected: tuple[Failure, ...] = ()
    mtbf: ByDevice | None = None
    mttr: ByDevice | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    tariff: float | None = None
    lifetime: float | None = None


def _failing(load: Load) -> Failing | None:
    """Return what --inject, --mtbf and --mttr say; None where none was given."""
    from hetsim.workloads.failing import Failing

    if (load.mtbf is None) != (load.mttr is None):
        has, lacks = ("--mttr", "--mtbf") if load.mtbf is None else ("--mtbf", "--mttr")
        raise UsageError(f"{has} without {lacks}", hint=f"give {lacks} TIME, too")
    if not load.injected and load.mtbf is None:
        return None
    return Failing(load.injected, load.mtbf, load.mttr)


def given(*names: str) -> tuple[str, ...]:
    """Return those of the verb's options that the user wrote, as they are written."""
    context = click.get_current_context()
    options = {str(one.name): max(one.opts, key=len) for one in context.command.params}
    return tuple(
        options[name]
        for name in names
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    )


def play(
    load: Load,
    platform: str | None,
    canonical: Canonical | None,
    contention: Contention | None,
    objective: Objective | None,
    *,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Simulate a workload on a deployment; print what became of it, and leave it in `out`."""
    from hetsim.analysis.sensitivity import served_sensitivities
    from hetsim.cli.question import read_platform, supposed
    from hetsim.cli.trace_and_out import check_targets, leave_service
    from hetsim.reporting.service_record import service_record
    from hetsim.reporting.tables.beside_service import served_beside_record, served_beside_report
    from hetsim.reporting.tables.sensitivity import sensitivities_record, sensitivities_report
    from hetsim.reporting.tables.service import service_report
    from hetsim.service.bad_end import at_bad_end
    from hetsim.service.cost import Prices, cost_of, priced
    from hetsim.service.serving import serve

    invocation = current()
    refuse(OF_PLAN, "is of one plan alone, and not simulated under load")
    check_targets(None, out, force=force)
    load, hardware, asked = asked_of(load, platform, canonical, contention, objective)
    prices = Prices(load.prices, load.tariff, load.lifetime)
    # What is wrong with prices is told before anything is played.
    priced(hardware, prices)
    workload = workload_of(load)
    deployment = deployment_of(load, workload)
    asked = with_options(asked, (deployment,))
    until_answered = load.workload is None and load.requests is None and load.duration_s is None

    def served(on: Platform) -> Service:
        return serve(
            deployment,
            workload,
            on,
            asked=asked,
            until_answered=until_answered and bool(load.slos),
            within=load.within,
        )

    told = told_where(workload, load.workload, deployment, load.deployment)
    with invocation.progress("simulating what comes"), told:
        service = served(hardware)
        worse = at_bad_end(service, hardware)
        was = served(read_platform(platform, as_it_is=True)) if supposed() else None
        moving: tuple[Sensitivities, ...] = ()
        if load.sensitivities:
            moving = served_sensitivities(service, deployment, hardware, asked)
    cost = cost_of(service, hardware, prices)
    record = service_record(service, worse, cost)
    if moving:
        record["sensitivities"] = [sensitivities_record(one) for one in moving]
    if was is not None:
        record["what_if"] = served_beside_record(was, service)
    files = {"workload": load.workload, "deployment": load.deployment}
    read = {what: path for what, path in files.items() if path is not None}
    leave_service(service, record, out=out, force=force, files=read)
    if as_json:
        invocation.show_json(record)
    else:
        invocation.show(service_report(service, worse, cost))
        if was is not None:
            invocation.say("")
            invocation.show(served_beside_report(was, service))
        for one in moving:
            invocation.say("")
            invocation.show(sensitivities_report(one))


def asked_of(
    load: Load,
    platform: str | None,
    canonical: Canonical | None,
    contention: Contention | None,
    objective: Objective | None,
) -> tuple[Load, Platform, Asked]:
    """Return the platform, and how models are read and priced; of a saved plan as it was made."""
    from hetsim.cli.question import read_plan, read_platform
    from hetsim.cost.default import DEFAULT_COST
    from hetsim.service.asked import Asked

    invocation = current()
    if load.source is not None and load.source.endswith(".json") and load.workload is None:
        saved = read_plan(
            load.source,
            platform,
            load.strategy,
            load.dims,
            load.shapes,
            canonical,
            contention,
            objective,
            plays=True,
        )
        return _of_plan(load, saved, contention)
    asked = Asked(
        canonical=canonical or "basic",
        extensions=invocation.extensions,
        freeze=invocation.frozen,
        shapes=load.shapes,
        inputs=invocation.inputs,
        contention=contention or "fifo",
        cost=invocation.cost or DEFAULT_COST,
        execute=invocation.execute,
        pessimistic=invocation.pessimistic,
        profiles=invocation.profiles,
        objective=objective,
    )
    return load, read_platform(platform), asked


def with_options(asked: Asked, deployments: Sequence[Deployment]) -> Asked:
    """Return what is asked with the options of all strategies that plan for these deployments."""
    from hetsim.cli.question import read_strategy_options, with_affinity

    names = {served.strategy for one in deployments for served in one.models}
    names |= {
        str(one.strategy)
        for deployment in deployments
        for served in deployment.models
        for one in served.instances
        if one.strategy is not None
    }
    options = read_strategy_options(sorted(names))
    return replace(asked, options=options, constraints=partial(with_affinity, options))


def _of_plan(
    load: Load, saved: Plan, contention: Contention | None
) -> tuple[Load, Platform, Asked]:
    """The model and the platform of a saved plan, read and priced as it was made."""
    from hetsim.service.asked import Asked

    problem = saved.problem
    model, platform = problem.model, problem.platform
    assert model is not None
    assert platform is not None
    if load.deployment is not None:
        raise UsageError(
            "a saved plan and --deployment", hint="name the plan under instances: of the deployment"
        )
    asked = Asked(
        canonical=_level(model.canonical),
        extensions=model.extensions,
        freeze=model.frozen,
        shapes=model.shapes,
        contention=contention or problem.contention,
        cost=problem.cost,
        pessimistic=problem.pessimistic,
        profiles={device: share.profile.source for device, share in problem.profiles.items()},
        observed=model.observed if load.batching is None else None,
    )
    return replace(load, source=model.source, plan=load.source, dims=model.dims), platform, asked


def _level(canonical: str) -> Canonical:
    return "none" if canonical == "none" else "extended" if canonical == "extended" else "basic"


def refuse(fixes: Mapping[str, str], why: str) -> None:
    """Raise UsageError for the first option that was given of those that have a fix."""
    for name, fix in fixes.items():
        for option in given(name):
            raise UsageError(f"{option} {why}", hint=fix)


def workload_of(load: Load) -> Workload:
    """Return the workload of the file, or one stream as the options say."""
    from hetsim.workloads.files.reader import load_workload
    from hetsim.workloads.workload import Stream, Workload

    if load.workload is not None:
        if load.source is not None:
            raise UsageError(
                f"a model, '{load.source}', and --workload, which names its own",
                hint="leave one of them out",
            )
        refuse(OF_FILE, "cannot go with --workload, which says it itself")
        return load_workload(load.workload)
    if load.source is None:
        raise UsageError("no model is given", hint="give MODEL, or --workload FILE")
    try:
        stream = Stream("requests", load.source, _arrivals(load), slos=load.slos, dims=load.dims)
        requests = load.requests
        if requests is None and load.duration_s is None:
            if load.concurrency is not None:
                raise UsageError(
                    "nothing says when the clients end", hint="give --requests or --duration"
                )
            requests = BUDGET if load.slos else WITHOUT
            if load.within is not None:
                requests = PRECISE
        return Workload(
            (stream,), load.duration_s, requests, seed=load.seed, failures=_failing(load)
        )
    except InvalidInput as error:
        if error.where is None:
            raise WorkloadError(error.what, where="the command line", hint=error.hint) from None
        raise


def _arrivals(load: Load) -> Open | Closed:
    from hetsim.workloads.arrivals.burst import Burst
    from hetsim.workloads.arrivals.closed import Closed
    from hetsim.workloads.arrivals.constant import Constant
    from hetsim.workloads.arrivals.gamma import Gamma
    from hetsim.workloads.arrivals.poisson import Poisson

    if (load.rate is None) == (load.concurrency is None):
        has = "neither a rate nor" if load.rate is None else "a rate and"
        raise UsageError(f"{has} a concurrency", hint="give one of --rate and --concurrency")
    if load.concurrency is not None:
        if load.arrivals is not None:
            raise UsageError("--arrivals is of --rate", hint="leave it out")
        return Closed(load.concurrency, (load.think_ms or 0.0) / 1e3)
    if load.think_ms is not None:
        raise UsageError("--think-ms is of --concurrency", hint="leave it out")
    assert load.rate is not None
    kind, colon, value = (load.arrivals or "poisson").partition(":")
    if kind in ("constant", "poisson") and not colon:
        return Constant(load.rate) if kind == "constant" else Poisson(load.rate)
    if kind in ("gamma", "burst"):
        try:
            return (
                Gamma(load.rate, float(value)) if kind == "gamma" else Burst(load.rate, int(value))
            )
        except ValueError:
            form = "gamma:CV, e.g. gamma:2.5" if kind == "gamma" else "burst:SIZE, e.g. burst:16"
            raise UsageError(
                f"'{load.arrivals}' is not {form}", where="--arrivals", hint="write it so"
            ) from None
    raise UsageError(
        f"no kind of arrivals '{load.arrivals}'",
        where="--arrivals",
        hint=f"{nearest(kind, KINDS)}; others and traces are told in a --workload",
    )


def deployment_of(load: Load, workload: Workload) -> Deployment:
    """Return the deployment of the file, or every model served alike."""
    from hetsim.cli.question import DEFAULT_STRATEGY
    from hetsim.workloads.deployment import Deployment, Instances, Served
    from hetsim.workloads.files.reader import load_deployment

    if load.deployment is not None:
        refuse(OF_DEPLOYMENT, "cannot go with --deployment, which says it itself")
        found = load_deployment(load.deployment)
        check_strategies(found, load.deployment)
        return found
    instances: tuple[Instances, ...] = (Instances(load.instances or 1, plan=load.plan),)
    kept: dict[str, Any] = {
        "strategy": load.strategy or DEFAULT_STRATEGY,
        "instances": instances,
        "dynamic_batching": load.batching,
        "loading": load.loading or "resident",
    }
    if load.batching is not None:
        kept["batch_sizes"] = _powers(load.batching.max_batch_size)
    levels: dict[str, int] = {}
    for stream in workload.streams:
        levels[stream.model] = max(levels.get(stream.model, 0), stream.priority or 0)
    return Deployment(
        tuple(
            Served(model, priority_levels=most, default_priority_level=most, **kept)
            for model, most in levels.items()
        )
    )


def _powers(most: int) -> tuple[int, ...]:
    """Powers of two up to `most`, and `most`: a batch runs as the least that holds it."""
    sizes = [1 << power for power in range(most.bit_length()) if 1 << power < most]
    return (*sizes, most)
