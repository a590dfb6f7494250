"""Answers under load: simulations, the highest rates, and real runs of a workload."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hetsim.cli.executor import require_equal
from hetsim.cli.files import check_targets, leave_report, leave_service
from hetsim.cli.invocation import current
from hetsim.cli.load import LoadOptions, deployment_of, located_errors, workload_of
from hetsim.cli.question import (
    read_plan,
    read_platform,
    read_strategy_options,
    supposed,
    with_affinity,
)
from hetsim.cli.reports import report_of_capacity, report_of_service
from hetsim.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hetsim.analysis.sensitivity import Sensitivities
    from hetsim.cli.executor import Executor
    from hetsim.cli.invocation import Canonical
    from hetsim.core.text import Record
    from hetsim.hardware.spec import Platform
    from hetsim.problem.plan import Plan
    from hetsim.provisioning.rates.answer import Availability, Capacity, Survived
    from hetsim.simulation.service.resolution import ModelOptions
    from hetsim.simulation.service.service import Service
    from hetsim.workload.deployment import Deployment, DynamicBatching
    from hetsim.workload.workload import Workload

Answer = TypeVar("Answer")


def _played(load: LoadOptions, workload: Workload) -> Workload:
    """Workload to simulate, without failures that are means for --availability.

    Raises UsageError if --survive or --availability cannot be answered for it.
    """
    if load.available and load.availability is None:
        raise UsageError("--available needs --availability", hint="give --availability SHARE, too")
    if load.availability is not None:
        workload = replace(workload, failures=None)
    if load.survive is not None or load.availability is not None:
        from hetsim.provisioning.rates.answer import check_asked

        check_asked(workload)
    return workload


def _outages(
    load: LoadOptions, workload: Workload, deployment: Deployment, platform: Platform, **asked: Any
) -> Iterator[Survived | Availability]:
    """Answers to --survive and --availability."""
    from hetsim.provisioning.rates.redundancy import availability, survive

    if load.survive is not None:
        played = _played(load, workload)
        yield survive(deployment, played, platform=platform, losses=load.survive, **asked)
    if load.availability is not None:
        yield availability(
            deployment,
            workload,
            platform=platform,
            target=load.availability,
            available=load.available,
            **asked,
        )


def _of_outages(
    found: Sequence[Survived | Availability],
) -> Iterator[tuple[str, Record, RenderableType, str]]:
    """Key, record, report and sentence of each answer."""
    from hetsim.provisioning.rates.answer import Survived
    from hetsim.reporting.tables import capacity as tables

    for one in found:
        if isinstance(one, Survived):
            report, sentence = tables.surviving_report(one), tables.surviving_sentence(one)
            yield "survive", tables.surviving_record(one), report, sentence
        else:
            report, sentence = tables.availability_report(one), tables.availability_sentence(one)
            yield "availability", tables.availability_record(one), report, sentence


def as_supposed_and_as_is(
    ask: Callable[[Platform], Answer], platform: Platform
) -> tuple[Answer, Answer | None]:
    """Return the answers for the platform, and for the original if an option changes it."""
    return ask(platform), ask(read_platform(as_it_is=True)) if supposed() else None


KEPT = 10_000
"""Maximum number of requests in a trace."""


def kept() -> int:
    """Return the number of requests that are recorded one by one, for --trace and --out."""
    return 0 if current().trace is None and current().out is None else KEPT


def play(load: LoadOptions) -> None:
    """Simulate a workload on a deployment, print the answer, and write its files."""
    from hetsim.analysis.sensitivity import served_sensitivities
    from hetsim.reporting.tables.service import service_report
    from hetsim.reporting.tables.service_record import service_record
    from hetsim.reporting.tables.what_if import (
        sensitivities_record,
        sensitivities_report,
        served_beside_record,
        served_beside_report,
    )
    from hetsim.simulation.service.cost import cost_of, priced
    from hetsim.simulation.service.resolution import PlanCache
    from hetsim.simulation.service.run import MOST_TASKS
    from hetsim.simulation.service.serving import at_pessimistic_end, fixed, serve

    invocation = current()
    check_targets()
    load, hardware, asked = asked_of(load)
    prices = load.terms
    # Errors in prices come before the simulation.
    priced(hardware, prices)
    comes = workload_of(load)
    workload = _played(load, comes)
    deployment = deployment_of(load, workload)
    asked = with_options(asked, (deployment,))
    until_answered = load.workload is None and load.requests is None and load.duration_s is None
    until_answered = until_answered and bool(load.slos)

    common = PlanCache()

    def served(on: Platform) -> tuple[Service, list[Survived | Availability]]:
        how: dict[str, Any] = {
            "made": common.elsewhere(), "until_answered": until_answered, "within": load.within
        }  # fmt: skip
        keep = kept() if on is hardware else 0
        # One run, whereas a search for rates has some ten.
        most = 4 * MOST_TASKS
        service = serve(deployment, workload, on, asked=asked, keep=keep, most_tasks=most, **how)
        return service, list(_outages(load, comes, deployment, on, settings=asked, **how))

    told = located_errors(load, workload, deployment)
    with invocation.progress("simulating the workload"), told:
        (service, down), was = as_supposed_and_as_is(served, hardware)
        worse = at_pessimistic_end(service, hardware)
        always = fixed(service, hardware)
        moving: tuple[Sensitivities, ...] = ()
        if load.sensitivities:
            moving = served_sensitivities(service, deployment, hardware, asked)
    cost = cost_of(service, hardware, prices)
    beside = [(one, cost_of(one, hardware, prices)) for one in always]
    record = service_record(service, worse, cost, beside)
    if moving:
        record["sensitivities"] = [sensitivities_record(one) for one in moving]
    outages = list(_of_outages(down))
    as_it_is = list(_of_outages(was[1])) if was is not None else []
    if was is not None:
        record["what_if"] = served_beside_record(was[0], service)
        record["what_if"] |= {name: found for name, found, _, _ in as_it_is}
    record |= {name: found for name, found, _, _ in outages}
    leave_service(service, record, files=load.files)
    printed = service_report(service, worse, cost, beside)
    report_of_service(load, service, hardware, record, printed)
    invocation.answer(lambda: record, lambda: printed)
    if not invocation.as_json:
        more = [] if was is None else [served_beside_report(was[0], service)]
        more += [sensitivities_report(one) for one in moving]
        for report in (*more, *(report for _, _, report, _ in outages)):
            invocation.say("")
            invocation.show(report)
        for _, _, _, sentence in as_it_is:
            invocation.say(f"As it is: {sentence}")
    for one in down:
        one.require()


def find_rates(
    load: LoadOptions,
    strategies: Sequence[str],
    batchings: Sequence[DynamicBatching],
    target_rate: float | None,
) -> None:
    """Find the highest rates that meet every objective, by strategy and batching; print them."""
    from hetsim.provisioning.rates.capacity import capacity
    from hetsim.reporting.tables.capacity import best_sentence, capacity_record, capacity_report

    invocation = current()
    check_targets()
    if load.workload is None and not load.slos:
        raise UsageError("--max-rate needs an objective", hint="give --slo, e.g. --slo p99=50ms")
    most = load.requests
    load, hardware, asked = asked_of(replace(load, rate=1.0, requests=1))
    workload = workload_of(load, but=("requests",))
    named = dict(_compared(load, workload, strategies, batchings))
    asked = with_options(asked, tuple(named.values()))
    told = located_errors(load, workload, next(iter(named.values())))

    def rates(on: Platform) -> Capacity:
        losses = load.survive or 0
        return capacity(
            named, workload, platform=on, most_requests=most, losses=losses, settings=asked
        )

    with invocation.progress("searching for the highest rates"), told:
        found, was = as_supposed_and_as_is(rates, hardware)
    record = capacity_record(found)
    if target_rate is not None:
        record["target_per_s"] = target_rate
    if was is not None:
        record["as_it_is"] = capacity_record(was)
    report_of_capacity(load, named, found, hardware, record)
    invocation.answer(lambda: record, lambda: capacity_report(found))
    if was is not None and not invocation.as_json:
        invocation.say(f"As it is: {best_sentence(was)}")
    found.require(target_rate)


SEARCHED = ("single", "heft")
"""Strategies of --max-rate if none is given."""


def _compared(
    load: LoadOptions,
    workload: Workload,
    strategies: Sequence[str],
    batchings: Sequence[DynamicBatching],
) -> Iterator[tuple[str, Deployment]]:
    """Deployments by name: each strategy without batches, and with each batching."""
    if load.deployment is not None:
        yield load.deployment, deployment_of(load, workload)
        return
    names = (load.plan,) if load.plan is not None else dict.fromkeys(strategies or SEARCHED)
    for strategy in names:
        for batching in (None, *dict.fromkeys(batchings)):
            name = strategy
            if batching is not None:
                delay_us = batching.max_queue_delay_us
                waits = f" in {delay_us} us" if delay_us else ""
                name = f"{strategy}, batches of {batching.max_batch_size}{waits}"
            planned = None if load.plan is not None else strategy
            yield name, deployment_of(replace(load, strategy=planned, batching=batching), workload)


def asked_of(load: LoadOptions) -> tuple[LoadOptions, Platform, ModelOptions]:
    """Return load, platform, and model settings; those of a saved plan if one is given."""
    if load.source is not None and load.source.endswith(".json") and load.workload is None:
        saved = read_plan(load.source, load.strategy, plays=True)
        return _of_plan(load, saved)
    return load, read_platform(), settings()


def settings() -> ModelOptions:
    """Return the settings for reading, pricing and planning models, by the options."""
    from hetsim.cost import DEFAULT_COST
    from hetsim.simulation.service.resolution import ModelOptions

    invocation = current()
    return ModelOptions(
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
        measured=invocation.measured,
        objective=invocation.objective,
    )


def with_options(asked: ModelOptions, deployments: Sequence[Deployment]) -> ModelOptions:
    """Return the settings with the options of all strategies of these deployments."""
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


def _of_plan(load: LoadOptions, saved: Plan) -> tuple[LoadOptions, Platform, ModelOptions]:
    """Model, platform and settings of a saved plan."""
    from hetsim.problem.repriced import caller_measurements
    from hetsim.simulation.service.resolution import ModelOptions

    problem = saved.problem
    model, platform = problem.model, problem.platform
    assert model is not None
    assert platform is not None
    if load.deployment is not None:
        raise UsageError(
            "--deployment cannot go with a saved plan",
            hint="name the plan in the deployment, under instances:",
        )
    asked = ModelOptions(
        canonical=_level(model.canonical),
        extensions=model.extensions,
        freeze=model.frozen,
        shapes=model.shapes,
        contention=current().contention or problem.contention,
        cost=problem.cost,
        pessimistic=problem.pessimistic,
        profiles={device: share.profile.source for device, share in problem.profiles.items()},
        measured=caller_measurements(problem),
        observed=model.observed if load.batching is None else None,
    )
    return replace(load, source=model.source, plan=load.source, dims=model.dims), platform, asked


def _level(canonical: str) -> Canonical:
    return "none" if canonical == "none" else "extended" if canonical == "extended" else "basic"


def serve(load: LoadOptions, how: Executor, *, emulate: bool, time_scale: float | None) -> None:
    """Serve a workload for real, print measured next to simulated figures, and write its files."""
    from hetsim.execution.compiled.manifest import is_compiled
    from hetsim.execution.serving.serve import load_test
    from hetsim.reporting.tables.load_test import load_test_record, load_test_report

    invocation = current()
    check_targets()
    if load.source is not None and is_compiled(Path(load.source)):
        raise UsageError(
            "a compiled plan cannot be served under load",
            where=load.source,
            hint="give the model or its plan.json in place of the folder",
        )
    load, hardware, asked = asked_of(load)
    workload = workload_of(load)
    if load.workload is None and load.requests is None and load.duration_s is None:
        raise UsageError(
            "the run has no end", hint="give --requests, or --duration, e.g. --duration 10s"
        )
    deployment = deployment_of(load, workload)
    asked = with_options(asked, (deployment,))
    what = "emulating" if emulate else "serving"
    with (
        invocation.progress(f"{what} the workload on {how.executor}"),
        located_errors(load, workload, deployment),
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
    leave_report(record, dict, lambda: load_test_report(found))
    invocation.answer(lambda: record, lambda: load_test_report(found))
    if found.outputs is not None:
        require_equal(found.outputs.mismatches, "the run")
