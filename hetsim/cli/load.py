"""Workload and deployment by options or files, and lines of files in their errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hetsim.cli.invocation import current, given
from hetsim.cli.question import DEFAULT_STRATEGY
from hetsim.errors import HetsimError, InvalidInput, UsageError, WorkloadError, nearest

if TYPE_CHECKING:
    from hetsim.hardware.files.yaml_source import YamlPath
    from hetsim.hardware.price import Price
    from hetsim.simulation.service.cost import ServicePrices
    from hetsim.workload.arrivals import Closed, Open
    from hetsim.workload.deployment import Deployment, DynamicBatching, Instances, Loading
    from hetsim.workload.failure import ByDevice, Failing, Failure
    from hetsim.workload.workload import Slo, Workload


Value = TypeVar("Value")
Place = tuple[str, "YamlPath"]
"""File, and the keys from its top down to the place."""


@contextmanager
def located_errors(load: LoadOptions, workload: Workload, deployment: Deployment) -> Iterator[None]:
    """Add the line of the workload or deployment file to an error about its content.

    An error without a place is about the deployment if its key says so, else about the streams of
    the workload.
    """
    try:
        yield
    except HetsimError as error:
        place = None
        if load.deployment is not None:
            place = _of_deployment(error, deployment, load.deployment)
        if place is None and load.workload is not None:
            place = _of_workload(error, workload, load.workload)
        if place is not None:
            with_place(error, *place)
        raise


def check_strategies(deployment: Deployment, file: str) -> None:
    """Raise UsageError, with file and line, for an unknown strategy in a deployment."""
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
                with_place(error, file, place)
                raise


def with_place(error: HetsimError, file: str, place: YamlPath) -> None:
    """Add the file and line of `place` to an error."""
    from hetsim.hardware.files.yaml_source import read_yaml

    source = read_yaml(Path(file), file, holds="a workload or a deployment", kind=WorkloadError)
    line = f"{source.shown}:{source.line(place)}"
    error.where = line if error.where is None else f"{line}: {error.where}"
    error.args = (str(error),)
    # A wrong name in a file is an error of the file.
    vars(error).pop("exit_code", None)


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
    """Place with the longest name that `where` contains."""
    found = max(
        (place for place in places if place[0] in where),
        key=lambda place: len(place[0]),
        default=None,
    )
    return None if found is None else (file, found[1])


PRECISE = 2**24
"""Maximum number of requests of a simulation that ends when percentiles are precise."""

WITHOUT = 2**16
"""Requests of a simulation without a length and without objectives."""

KINDS = ("constant", "poisson", "gamma:CV", "burst:SIZE")

OF_LOAD = (
    "workload", "deployment", "rate", "arrivals", "concurrency", "think_s", "slos", "duration_s",
    "batchings", "instances", "loading", "speedup", "within", "mtbf", "mttr", "survive",
    "availability", "available", "prices", "tariff", "lifetime",
)  # fmt: skip
"""Options any of which means that requests arrive over time."""

OF_FILE = {
    "rate": "write rate_per_s: there",
    "arrivals": "write arrivals: there",
    "concurrency": "write closed: there",
    "think_s": "write think_time_s: there",
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
"""Options that a workload file replaces, with the key to write there."""

OF_DEPLOYMENT = {
    "strategy": "write strategy: there",
    "strategies": "write strategy: there",
    "batchings": "write dynamic_batching: there",
    "instances": "write instances: there",
    "loading": "write loading: there",
}
"""Options that a deployment file replaces, with the key to write there."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options about requests and their service, named as the parameters of the verbs.

    ``plan`` is a saved plan instead of a model.
    """

    source: str | None = None
    strategy: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    requests: int | None = None
    workload: str | None = None
    deployment: str | None = None
    rate: float | None = None
    speedup: float | None = None
    arrivals: str | None = None
    concurrency: int | None = None
    think_s: float | None = None
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
    def terms(self) -> ServicePrices:
        """Return the prices of hardware and electricity."""
        from hetsim.simulation.service.cost import ServicePrices

        return ServicePrices(self.prices, self.tariff, self.lifetime)

    @property
    def files(self) -> dict[str, str]:
        """Return the workload and deployment files by kind."""
        named = {"workload": self.workload, "deployment": self.deployment}
        return {what: path for what, path in named.items() if path is not None}


def options_of(**others: Any) -> LoadOptions:
    """Return the options of the verb, replaced by `others`."""
    params, invocation = click.get_current_context().params, current()
    kept = {"strategy": invocation.strategy, "dims": invocation.dims}
    found = {one.name: params[one.name] for one in fields(LoadOptions) if one.name in params}
    if "batching" not in others:
        found["batching"] = single_value("--batching", params.get("batchings", ()))
    return LoadOptions(**(kept | found | others))


def single_value(option: str, values: Sequence[Value]) -> Value | None:
    """Return the value of an option that other forms of a verb repeat, here at most once."""
    if len(values) > 1:
        raise UsageError(
            f"{option} is given {len(values)} times",
            hint="give one; `hetsim compare` and `hetsim simulate --max-rate` compare several",
        )
    return values[0] if values else None


def _failing(load: LoadOptions) -> Failing | None:
    """Failures by --inject, --mtbf and --mttr; None if none is given."""
    from hetsim.workload.failure import Failing

    if (load.mtbf is None) != (load.mttr is None):
        has, lacks = ("--mttr", "--mtbf") if load.mtbf is None else ("--mtbf", "--mttr")
        raise UsageError(f"{has} needs {lacks}", hint=f"give {lacks} TIME, too")
    if not load.failures and load.mtbf is None:
        return None
    return Failing(load.failures, load.mtbf, load.mttr)


def refuse(fixes: Mapping[str, str], why: str) -> None:
    """Raise UsageError for the first option on the command line that has a fix."""
    for name, fix in fixes.items():
        for option in given(name):
            raise UsageError(f"{option} {why}", hint=fix)


def check_form(
    form: str, belongs: Mapping[str, Sequence[str]], fixes: Mapping[str, str] | None = None
) -> None:
    """Raise UsageError for the first option on the command line that `form` of a verb lacks.

    `belongs`: the forms, a command each, that have the option; `fixes`: what to do.
    """
    for name, forms in belongs.items():
        for option in given(name) if form not in forms else ():
            has = " or ".join(f"'{one}'" for one in forms[:2])
            fix = (fixes or {}).get(name, f"leave {option} out")
            raise UsageError(f"{option} belongs to {has}, not to '{form}'", hint=fix)


def workload_of(load: LoadOptions, *, but: Sequence[str] = ()) -> Workload:
    """Return the workload of the file, or one stream by the options, at --speedup.

    `but`: options that are allowed with a file that sets them.
    """
    found = _workload_of(load, but)
    return found if load.speedup is None else found.faster(load.speedup)


def _workload_of(load: LoadOptions, but: Sequence[str]) -> Workload:
    from hetsim.simulation.service.run import MOST_REQUESTS
    from hetsim.workload.files.reader import load_workload
    from hetsim.workload.workload import Stream, Workload

    if load.workload is not None:
        if load.source is not None:
            raise UsageError(
                f"MODEL '{load.source}' and --workload are both given",
                hint="leave one out: a workload names its models",
            )
        fixes = {name: fix for name, fix in OF_FILE.items() if name not in but}
        refuse(fixes, "cannot go with --workload, whose file sets it")
        return load_workload(load.workload)
    if load.source is None:
        raise UsageError("no model is given", hint="give MODEL, or --workload FILE")
    try:
        stream = Stream("requests", load.source, _arrivals(load), slos=load.slos, dims=load.dims)
        requests = load.requests
        if requests is None and load.duration_s is None:
            if load.concurrency is not None:
                raise UsageError("--concurrency needs an end", hint="give --requests or --duration")
            requests = MOST_REQUESTS if load.slos else WITHOUT
            if load.within is not None:
                requests = PRECISE
        return Workload(
            (stream,), load.duration_s, requests, seed=load.seed, failures=_failing(load)
        )
    except InvalidInput as error:
        if error.where is None:
            raise WorkloadError(error.what, where="the command line", hint=error.hint) from None
        raise


def _arrivals(load: LoadOptions) -> Open | Closed:
    from hetsim.workload.arrivals import Burst, Closed, Constant, Gamma, Poisson

    if (load.rate is None) == (load.concurrency is None):
        which = "neither" if load.rate is None else "both"
        what = f"{which} of --rate and --concurrency {'is' if which == 'neither' else 'are'} given"
        raise UsageError(what, hint="give one of them")
    if load.concurrency is not None:
        if load.arrivals is not None:
            raise UsageError("--arrivals needs --rate", hint="leave --arrivals out")
        return Closed(load.concurrency, load.think_s or 0.0)
    if load.think_s is not None:
        raise UsageError("--think needs --concurrency", hint="leave --think out")
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
        hint=f"{nearest(kind, KINDS)}; a --workload file has more kinds, and traces",
    )


def deployment_of(load: LoadOptions, workload: Workload) -> Deployment:
    """Return the deployment of the file, or one that serves every model alike."""
    from hetsim.workload.deployment import Deployment, Instances, Served
    from hetsim.workload.files.reader import load_deployment

    if load.deployment is not None:
        refuse(OF_DEPLOYMENT, "cannot go with --deployment, whose file sets it")
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
