"""Options of requests and deployments as a workload, a deployment and errors with their line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hetsim.cli.invocation import current
from hetsim.errors import HetsimError, InvalidInput, UsageError, WorkloadError, nearest

if TYPE_CHECKING:
    from hetsim.hardware.files.yaml_source import YamlPath
    from hetsim.hardware.price import Price
    from hetsim.workload.arrivals import Closed, Open
    from hetsim.workload.deployment import Deployment, DynamicBatching, Instances, Loading
    from hetsim.workload.failure import ByDevice, Failing, Failure
    from hetsim.workload.workload import Slo, Workload


Place = tuple[str, "YamlPath"]
"""A file, and the keys from its top down to what is meant."""


@contextmanager
def told_where(
    workload: Workload,
    workload_file: str | None,
    deployment: Deployment,
    deployment_file: str | None,
) -> Iterator[None]:
    """Let an error that is of what one of the files says name its line there.

    What tells no place is of the deployment where a model is not served as is asked, else of the
    workload: what comes in all.
    """
    try:
        yield
    except HetsimError as error:
        place = None
        if deployment_file is not None:
            place = _of_deployment(error, deployment, deployment_file)
        if place is None and workload_file is not None:
            place = _of_workload(error, workload, workload_file)
        if place is not None:
            put(error, *place)
        raise


def check_strategies(deployment: Deployment, file: str) -> None:
    """Raise UsageError, with file and line, where a strategy of a deployment does not exist."""
    from hetsim.placement.registry import resolve

    for at, served in enumerate(deployment.models):
        own: YamlPath = ("models", at)
        names = [((*own, "strategy"), served.strategy)]
        for k, entry in enumerate(served.instances):
            if entry.strategy is not None:
                names.append(((*own, "instances", k, "strategy"), entry.strategy))
        for place, name in names:
            try:
                resolve(name)
            except HetsimError as error:
                put(error, file, place)
                raise


def put(error: HetsimError, file: str, place: YamlPath) -> None:
    """Put the line of a place in front of where an error says that it is."""
    from hetsim.hardware.files.yaml_source import read_yaml

    source = read_yaml(Path(file), file, holds="a workload or a deployment", kind=WorkloadError)
    line = f"{source.shown}:{source.line(place)}"
    error.where = line if error.where is None else f"{line}: {error.where}"
    error.args = (str(error),)


def _of_deployment(error: HetsimError, deployment: Deployment, file: str) -> Place | None:
    if error.where is None:
        return (file, error.key) if error.key[:1] == ("models",) else None
    places: list[tuple[str, YamlPath]] = []
    for at, served in enumerate(deployment.models):
        places.append((served.model, ("models", at, "model")))
        for k, entry in enumerate(served.instances):
            if entry.plan is not None:
                places.append((entry.plan, ("models", at, "instances", k, "plan")))
    return _named(error.where, places, file)


def _of_workload(error: HetsimError, workload: Workload, file: str) -> Place | None:
    if error.where is None:
        return file, error.key or ("streams",)
    places: list[tuple[str, YamlPath]] = [
        (stream.model, ("streams", stream.name, "model")) for stream in workload.streams
    ]
    return _named(error.where, places, file)


def _named(where: str, places: list[tuple[str, YamlPath]], file: str) -> Place | None:
    """The place whose name is in `where`; of names that are part of others the longest."""
    found = max(
        (place for place in places if place[0] in where),
        key=lambda place: len(place[0]),
        default=None,
    )
    return None if found is None else (file, found[1])


BUDGET = 2**20
"""Requests after which a run ends that was to answer every objective."""

PRECISE = 2**24
"""Requests after which a run ends that was to be precise."""

WITHOUT = 2**16
"""Requests of a run that nothing says the length of, and that has no objective."""

KINDS = ("constant", "poisson", "gamma:CV", "burst:SIZE")

OF_SIMULATION = (
    "faster",
    "within",
    "mtbf",
    "mttr",
    "survive",
    "availability",
    "available",
    "prices",
    "tariff",
    "lifetime",
)
"""Options of requests that come at their own times which a run for real does not take."""

OF_LOAD = (
    "workload",
    "deployment",
    "rate",
    "arrivals",
    "concurrency",
    "think_ms",
    "slos",
    "duration_s",
    "batching",
    "instances",
    "loading",
    *OF_SIMULATION,
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
    "inputs": "write dims: there, in a stream",
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
    "target_s": "give --slo, e.g. --slo p99=50ms",
}
"""Options that are of one plan, or not simulated under load, and what to do."""


@dataclass(frozen=True, slots=True)
class Load:
    """What the words of the command line say of requests and of who serves them.

    Named as the parameters of the verbs are; ``plan`` is the saved plan in the place of a model.
    """

    source: str | None = None
    strategy: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    requests: int | None = None
    workload: str | None = None
    deployment: str | None = None
    rate: float | None = None
    faster: float | None = None
    arrivals: str | None = None
    concurrency: int | None = None
    think_ms: float | None = None
    slos: tuple[Slo, ...] = ()
    within: float | None = None
    duration_s: float | None = None
    batching: DynamicBatching | None = None
    instances: int | None = None
    loading: Loading | None = None
    failures: tuple[Failure, ...] = ()
    mtbf: ByDevice | None = None
    mttr: ByDevice | None = None
    survive: int | None = None
    availability: Fraction | None = None
    available: Mapping[str, Fraction] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)
    tariff: float | None = None
    lifetime: float | None = None
    sensitivities: bool = False
    plan: str | None = None

    @property
    def files(self) -> dict[str, str]:
        """The files that are read, by what they say."""
        named = {"workload": self.workload, "deployment": self.deployment}
        return {what: path for what, path in named.items() if path is not None}


def said(**others: Any) -> Load:
    """Return what the verb's options say; `others` in the place of what they say themselves."""
    params, invocation = click.get_current_context().params, current()
    kept = {"strategy": invocation.strategy, "dims": invocation.dims}
    found = {one.name: params[one.name] for one in fields(Load) if one.name in params}
    return Load(**(kept | found | others))


def _failing(load: Load) -> Failing | None:
    """Return what --inject, --mtbf and --mttr say; None where none was given."""
    from hetsim.workload.failure import Failing

    if (load.mtbf is None) != (load.mttr is None):
        has, lacks = ("--mttr", "--mtbf") if load.mtbf is None else ("--mtbf", "--mttr")
        raise UsageError(f"{has} without {lacks}", hint=f"give {lacks} TIME, too")
    if not load.failures and load.mtbf is None:
        return None
    return Failing(load.failures, load.mtbf, load.mttr)


def given(*names: str) -> tuple[str, ...]:
    """Return those of the verb's options that the user wrote, as they are written."""
    context = click.get_current_context()
    options = {str(one.name): max(one.opts, key=len) for one in context.command.params}
    return tuple(
        options[name]
        for name in names
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    )


def refuse(fixes: Mapping[str, str], why: str) -> None:
    """Raise UsageError for the first option that was given of those that have a fix."""
    for name, fix in fixes.items():
        for option in given(name):
            raise UsageError(f"{option} {why}", hint=fix)


def workload_of(load: Load) -> Workload:
    """Return the workload of the file, or one stream as the options say; faster, if they say so."""
    found = _workload_of(load)
    return found if load.faster is None else found.faster(load.faster)


def _workload_of(load: Load) -> Workload:
    from hetsim.workload.files.reader import load_workload
    from hetsim.workload.workload import Stream, Workload

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
    from hetsim.workload.arrivals import Burst, Closed, Constant, Gamma, Poisson

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
    from hetsim.workload.deployment import Deployment, Instances, Served
    from hetsim.workload.files.reader import load_deployment

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
        kept["batch_sizes"] = load.batching.powers
    levels: dict[str, int] = {}
    for stream in workload.streams:
        levels[stream.model] = max(levels.get(stream.model, 0), stream.priority or 0)
    return Deployment(
        tuple(
            Served(model, priority_levels=most, default_priority_level=most, **kept)
            for model, most in levels.items()
        )
    )
