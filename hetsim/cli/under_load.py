"""``hetsim simulate`` where requests come at their own times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hetsim.cli.invocation import current
from hetsim.cli.load import OF_PLAN, Load, deployment_of, refuse, workload_of
from hetsim.cli.told_where import told_where
from hetsim.errors import UsageError

if TYPE_CHECKING:
    from hetsim.analysis.sensitivity import Sensitivities
    from hetsim.cli.invocation import Canonical
    from hetsim.hardware.spec import Platform
    from hetsim.problem.plan import Plan
    from hetsim.simulation.service.resolution import Asked
    from hetsim.simulation.service.service import Service
    from hetsim.workload.deployment import Deployment


KEPT = 10_000
"""Requests that a trace has at most: what is drawn of more nobody looks at one by one."""


def kept() -> int:
    """Return how many requests are kept one by one for what is left of them."""
    from hetsim.reporting.pages.timeline_of_trace import REQUESTS_MOST

    invocation = current()
    if invocation.trace is not None or invocation.out is not None:
        return KEPT
    return 0 if invocation.report is None else REQUESTS_MOST


def play(load: Load) -> None:
    """Simulate a workload on a deployment; print what became of it, and leave it as asked."""
    from hetsim.analysis.sensitivity import served_sensitivities
    from hetsim.cli.outages import Outages
    from hetsim.cli.question import read_platform, supposed
    from hetsim.cli.reports import report_of_service
    from hetsim.cli.trace_and_out import check_targets, leave_service
    from hetsim.reporting.tables.beside import (
        sensitivities_record,
        sensitivities_report,
        served_beside_record,
        served_beside_report,
    )
    from hetsim.reporting.tables.records import service_record
    from hetsim.reporting.tables.service import service_report
    from hetsim.simulation.service.cost import Prices, cost_of, priced
    from hetsim.simulation.service.resolution import Made
    from hetsim.simulation.service.serving import at_bad_end, fixed, serve

    invocation = current()
    refuse(OF_PLAN, "is of one plan alone, and not simulated under load")
    check_targets()
    load, hardware, asked = asked_of(load)
    prices = Prices(load.prices, load.tariff, load.lifetime)
    # What is wrong with prices is told before anything is played.
    priced(hardware, prices)
    workload = workload_of(load)
    outages, as_it_is = Outages(load, workload), Outages(load, workload)
    workload = outages.played
    deployment = deployment_of(load, workload)
    asked = with_options(asked, (deployment,))
    until_answered = load.workload is None and load.requests is None and load.duration_s is None
    until_answered = until_answered and bool(load.slos)

    def served(on: Platform, down: Outages) -> Service:
        made = Made()
        service = serve(
            deployment,
            workload,
            on,
            asked=asked,
            made=made,
            until_answered=until_answered,
            within=load.within,
            keep=kept() if on is hardware else 0,
        )
        down.find(deployment, on, asked, made, until_answered=until_answered)
        return service

    told = told_where(workload, load.workload, deployment, load.deployment)
    with invocation.progress("simulating what comes"), told:
        service = served(hardware, outages)
        worse = at_bad_end(service, hardware)
        always = fixed(service, hardware)
        was = None
        if supposed():
            was = served(read_platform(as_it_is=True), as_it_is)
        moving: tuple[Sensitivities, ...] = ()
        if load.sensitivities:
            moving = served_sensitivities(service, deployment, hardware, asked)
    cost = cost_of(service, hardware, prices)
    beside = [(one, cost_of(one, hardware, prices)) for one in always]
    record = service_record(service, worse, cost, beside)
    if moving:
        record["sensitivities"] = [sensitivities_record(one) for one in moving]
    if was is not None:
        record["what_if"] = served_beside_record(was, service)
        as_it_is.record(record["what_if"])
    outages.record(record)
    leave_service(service, record, files=load.files)
    printed = service_report(service, worse, cost, beside)
    report_of_service(load, service, hardware, record, printed)
    invocation.answer(lambda: record, lambda: printed)
    if not invocation.as_json:
        if was is not None:
            invocation.say("")
            invocation.show(served_beside_report(was, service))
        for one in moving:
            invocation.say("")
            invocation.show(sensitivities_report(one))
        outages.show()
        as_it_is.show_as_it_is()
    outages.require()


def asked_of(load: Load) -> tuple[Load, Platform, Asked]:
    """Return the platform, and how models are read and priced; of a saved plan as it was made."""
    from hetsim.cli.question import read_plan, read_platform
    from hetsim.cost import DEFAULT_COST
    from hetsim.simulation.service.resolution import Asked

    invocation = current()
    if load.source is not None and load.source.endswith(".json") and load.workload is None:
        saved = read_plan(load.source, load.strategy, plays=True)
        return _of_plan(load, saved)
    asked = Asked(
        canonical=invocation.canonical,
        extensions=invocation.extensions,
        freeze=invocation.frozen,
        shapes=invocation.shapes,
        inputs=invocation.inputs,
        contention=invocation.contention or "fifo",
        cost=invocation.cost or DEFAULT_COST,
        execute=invocation.execute,
        pessimistic=invocation.pessimistic,
        profiles=invocation.profiles,
        objective=invocation.objective,
    )
    return load, read_platform(), asked


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


def _of_plan(load: Load, saved: Plan) -> tuple[Load, Platform, Asked]:
    """The model and the platform of a saved plan, read and priced as it was made."""
    from hetsim.simulation.service.resolution import Asked

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
        contention=current().contention or problem.contention,
        cost=problem.cost,
        pessimistic=problem.pessimistic,
        profiles={device: share.profile.source for device, share in problem.profiles.items()},
        observed=model.observed if load.batching is None else None,
    )
    return replace(load, source=model.source, plan=load.source, dims=model.dims), platform, asked


def _level(canonical: str) -> Canonical:
    return "none" if canonical == "none" else "extended" if canonical == "extended" else "basic"
