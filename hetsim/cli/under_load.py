"""Verbs under load: simulate and run with a workload, with --survive and --availability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetsim.cli.invocation import current
from hetsim.cli.load import OF_PLAN, Load, deployment_of, refuse, told_where, workload_of
from hetsim.errors import UsageError

if TYPE_CHECKING:
    from hetsim.analysis.sensitivity import Sensitivities
    from hetsim.cli.invocation import Canonical
    from hetsim.cli.running import Executor
    from hetsim.hardware.spec import Platform
    from hetsim.problem.plan import Plan
    from hetsim.provisioning.rates.answer import Availability, Survived
    from hetsim.simulation.service.resolution import Asked, Made
    from hetsim.simulation.service.service import Service
    from hetsim.workload.deployment import Deployment
    from hetsim.workload.workload import Workload


class Outages:
    """What is asked of devices that are down, and the answers."""

    def __init__(self, load: Load, workload: Workload) -> None:
        if load.available and load.availability is None:
            raise UsageError(
                "--available without --availability", hint="give --availability SHARE, too"
            )
        self._load, self._workload = load, workload
        self.survived: Survived | None = None
        self.available: Availability | None = None
        if load.survive is not None or load.availability is not None:
            from hetsim.provisioning.rates.answer import check_asked

            check_asked(self.played)

    @property
    def played(self) -> Workload:
        """The workload, its failures left out where they say how often devices are up."""
        if self._load.availability is None:
            return self._workload
        return replace(self._workload, failures=None)

    def find(
        self,
        deployment: Deployment,
        platform: Platform,
        asked: Asked,
        made: Made,
        *,
        until_answered: bool,
    ) -> None:
        """Ask."""
        load = self._load
        common: dict[str, Any] = {
            "settings": asked,
            "made": made,
            "until_answered": until_answered,
            "within": load.within,
        }
        if load.survive is not None:
            from hetsim.provisioning.rates.redundancy import survive

            self.survived = survive(
                deployment, self.played, platform=platform, losses=load.survive, **common
            )
        if load.availability is not None:
            from hetsim.provisioning.rates.redundancy import availability

            self.available = availability(
                deployment,
                self._workload,
                platform=platform,
                target=load.availability,
                available=load.available,
                **common,
            )

    def record(self, record: dict[str, Any]) -> None:
        """Put the answers into a record."""
        if self.survived is not None:
            from hetsim.reporting.tables.redundancy import surviving_record

            record["survive"] = surviving_record(self.survived)
        if self.available is not None:
            from hetsim.reporting.tables.redundancy import availability_record

            record["availability"] = availability_record(self.available)

    def show(self) -> None:
        """Print the answers."""
        if self.survived is not None:
            from hetsim.reporting.tables.redundancy import surviving_report

            current().say("")
            current().show(surviving_report(self.survived))
        if self.available is not None:
            from hetsim.reporting.tables.redundancy import availability_report

            current().say("")
            current().show(availability_report(self.available))

    def show_as_it_is(self) -> None:
        """Print the answers in short, where something is supposed of the platform."""
        if self.survived is not None:
            from hetsim.reporting.tables.redundancy import surviving_sentence

            current().say(f"As it is: {surviving_sentence(self.survived)}")
        if self.available is not None:
            from hetsim.reporting.tables.redundancy import availability_lines

            current().say(f"As it is: {availability_lines(self.available)[0]}")

    def require(self) -> None:
        """Raise where an answer is not what was asked for."""
        if self.survived is not None:
            self.survived.require()
        if self.available is not None:
            self.available.require()


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
    from hetsim.cli.files import check_targets, leave_service
    from hetsim.cli.question import read_platform, supposed
    from hetsim.cli.reports import report_of_service
    from hetsim.reporting.tables.beside import (
        sensitivities_record,
        sensitivities_report,
        served_beside_record,
        served_beside_report,
    )
    from hetsim.reporting.tables.service import service_report
    from hetsim.reporting.tables.service_record import service_record
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


OF_RUN = {
    "draws": "leave it out",
    "failures": "leave it out, or let devices fail in a run of one plan, without a rate",
    "precision": "leave it out, or run one plan so, without a rate",
    "plain": "leave it out, or compare a run of one plan, without a rate",
}
"""Options that are of one request, and what to do."""


def serve(load: Load, how: Executor, *, emulate: bool, time_scale: float | None) -> None:
    """Serve a workload for real; print what became of it, and leave it as asked."""
    from hetsim.cli.files import check_targets, leave_service
    from hetsim.cli.reports import report_of_load_test
    from hetsim.cli.running import require_equal
    from hetsim.execution.compiled.manifest import is_compiled
    from hetsim.execution.serving.serve import load_test
    from hetsim.reporting.tables.load_test import load_test_record, load_test_report

    invocation = current()
    refuse(OF_RUN, "is not taken where a workload is served for real")
    check_targets()
    if load.source is not None and is_compiled(Path(load.source)):
        raise UsageError(
            "a compiled plan is not served",
            where=load.source,
            hint="give the model, or the plan.json, in place of the folder",
        )
    if load.workload is None and load.requests is None and load.duration_s is None:
        raise UsageError(
            "nothing says when the run ends", hint="give --requests, or --duration in seconds"
        )
    load, hardware, asked = asked_of(load)
    workload = workload_of(load)
    deployment = deployment_of(load, workload)
    asked = with_options(asked, (deployment,))
    what = "emulating" if emulate else "serving"
    with (
        invocation.progress(f"{what} what comes on {how.executor}"),
        told_where(workload, load.workload, deployment, load.deployment),
    ):
        found = load_test(
            deployment,
            workload,
            hardware,
            asked=asked,
            emulate=emulate,
            inputs=invocation.inputs,
            executor=how.executor,
            address=how.address,
            time_scale=time_scale,
            timeout_s=how.timeout_s,
            seed=workload.seed,
            keep=kept(),
        )
    record = load_test_record(found)
    leave_service(found.measured, record, files=load.files, simulated=found.simulated)
    report_of_load_test(found, record)
    invocation.answer(lambda: record, lambda: load_test_report(found))
    if found.outputs is not None:
        require_equal(found.outputs.mismatches, "the run")
