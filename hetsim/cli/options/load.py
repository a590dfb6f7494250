"""Options that say which requests come, and how a model is served."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from hetsim.cli.options.common import above_zero, all_of

if TYPE_CHECKING:
    from hetsim.hardware.price import Price
    from hetsim.workload.deployment import DynamicBatching
    from hetsim.workload.workload import Slo


def _slos(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> tuple[Slo, ...]:
    if not given:
        return ()
    from hetsim.errors import WorkloadError
    from hetsim.workload.workload import parse_slo

    try:
        return tuple(parse_slo(text) for text in given)
    except WorkloadError as error:
        raise WorkloadError(error.what, where="--slo", hint=error.hint) from None


def _batching(
    ctx: click.Context, param: click.Parameter, text: str | None
) -> DynamicBatching | None:
    """Read ``MAX`` or ``MAX:MICROSECONDS``."""
    if text is None:
        return None
    from hetsim.errors import InvalidInput, WorkloadError
    from hetsim.workload.deployment import DynamicBatching

    most, _, delay = text.partition(":")
    if not most.isdecimal() or not (delay or "0").isdecimal():
        raise click.BadParameter(f"'{text}' is not MAX[:MICROSECONDS], e.g. 8 or 8:500", ctx, param)
    try:
        return DynamicBatching(int(most), (), int(delay or 0))
    except InvalidInput as error:
        raise WorkloadError(error.what, where="--batching", hint=error.hint) from None


def _precision(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Read a share, in per cent or as a number."""
    if text is None:
        return None
    percents = text.endswith("%")
    try:
        share = float(text.removesuffix("%")) / (100 if percents else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise click.BadParameter(f"'{text}' is not a share above 0, e.g. 2%", ctx, param)
    return share


def _by_device(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> float | dict[str, float] | None:
    """Read one time for all, or ``DEVICE=TIME`` values."""
    if not given:
        return None
    from hetsim.core.units import parse_seconds
    from hetsim.workload.failure import TIME

    found: dict[str, float] = {}
    for text in given:
        name, _, word = text.rpartition("=")
        seconds = parse_seconds(word)
        if not seconds or (not name and len(given) > 1) or name in found:
            hint = "one time for all, or DEVICE=TIME, each device once" if seconds else TIME
            raise click.BadParameter(f"'{text}': {hint}", ctx, param)
        found[name] = seconds
    return found.get("", found)


def _share(ctx: click.Context, param: click.Parameter, text: str | None) -> Fraction | None:
    """Read a share of time, exactly."""
    if text is None:
        return None
    from hetsim.errors import UsageError
    from hetsim.hardware.price import parse_share

    try:
        return parse_share(text)
    except UsageError as error:
        raise UsageError(error.what, where=f"--{param.name}", hint=error.hint) from None


def _named(
    ctx: click.Context, param: click.Parameter, given: Sequence[str], example: str
) -> Iterator[tuple[str, str]]:
    """Give the name and the word of each ``NAME=WORD``."""
    for text in given:
        name, equals, word = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"'{text}' is not {param.metavar}, {example}", ctx, param)
        yield name, word


def _shares(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> dict[str, Fraction]:
    """Read ``gpu.0=0.995``, by name, of several the last."""
    found = {}
    for name, word in _named(ctx, param, given, "e.g. gpu.0=0.995 or gpu=99.5%"):
        share = _share(ctx, param, word)
        assert share is not None
        found[name] = share
    return found


def _prices(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, Price]:
    """Read ``gpu.0=0.53/h``, by name, of several the last."""
    if not given:
        return {}
    from hetsim.errors import UsageError
    from hetsim.hardware.price import parse_price

    found = {}
    for name, word in _named(ctx, param, given, "e.g. gpu.0=0.53/h or platform=1600/3y"):
        try:
            found[name] = parse_price(word)
        except UsageError as error:
            raise UsageError(error.what, where=f"--price {name}={word}", hint=error.hint) from None
    return found


def _each_batching(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> tuple[DynamicBatching, ...]:
    read = [_batching(ctx, param, text) for text in given]
    return tuple(one for one in read if one is not None)


_BATCHING = "Let requests that wait run as batches, the oldest waiting so long for others."

_workload = click.option(
    "--workload", metavar="FILE", help="Play the requests of this workload, YAML; no MODEL."
)

_deployment = click.option(
    "--deployment",
    metavar="FILE",
    help="How models are served, YAML; absent: each by --strategy.",
)

_arrivals = click.option(
    "--arrivals",
    metavar="KIND",
    help="How they come: constant, poisson, gamma:CV or burst:SIZE.  [default: poisson]",
)

_faster = click.option(
    "--faster",
    callback=above_zero,
    metavar="FACTOR",
    help="Let what comes by itself come so many times as fast.",
)

_slo = click.option(
    "--slo",
    "slos",
    metavar="OBJECTIVE",
    multiple=True,
    callback=_slos,
    help="What is asked of latencies: p99=50ms, or '99.9%<=50ms'. Repeatable.",
)

_instances = click.option("--instances", type=click.IntRange(min=1), help="Replicas.  [default: 1]")

_loading = click.option(
    "--loading",
    type=click.Choice(["resident", "on_demand"]),
    help="Whether models are in memory all along, or loaded where a batch needs them: those "
    "that do not fit together take turns.  [default: resident]",
)

_money = all_of(
    click.option(
        "--price",
        "prices",
        metavar="NAME=PRICE",
        multiple=True,
        callback=_prices,
        help="What a device, or the platform, costs in US dollars: 0.53/h rented, 1600/3y bought "
        "for three years. Repeatable.",
    ),
    click.option(
        "--tariff",
        callback=above_zero,
        metavar="USD_PER_KWH",
        help="What electricity costs, for what is bought.",
    ),
    click.option(
        "--lifetime",
        callback=above_zero,
        metavar="YEARS",
        help="For how long what is bought is bought.",
    ),
)

_survive = click.option(
    "--survive",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ask whether each --slo holds without any N devices; the worst are named.",
)

load_options = all_of(
    _workload,
    _deployment,
    click.option(
        "--rate", callback=above_zero, metavar="PER_SECOND", help="Requests a second that come."
    ),
    _faster,
    _arrivals,
    click.option(
        "--concurrency",
        type=click.IntRange(min=1),
        help="In the place of --rate: clients who each wait for an answer.",
    ),
    click.option(
        "--think-ms",
        callback=above_zero,
        metavar="MS",
        help="How long such a client thinks before its next request.",
    ),
    _slo,
    click.option(
        "--within",
        "within",
        metavar="SHARE",
        callback=_precision,
        help="Go on until half of the interval of each --slo's percentile, else of p99's, is no "
        "more of it, e.g. 2%.",
    ),
    click.option(
        "--duration",
        "duration_s",
        callback=above_zero,
        metavar="SECONDS",
        help="How long requests come.  [default: until each --slo is answered]",
    ),
    click.option(
        "--batching",
        metavar="MAX[:MICROSECONDS]",
        callback=_batching,
        help=_BATCHING,
    ),
    click.option(
        "--mtbf",
        multiple=True,
        callback=_by_device,
        metavar="[DEVICE=]TIME",
        help="Let devices fail at random: the mean time that each works, 2h or npu=30min. "
        "Repeatable.",
    ),
    click.option(
        "--mttr",
        multiple=True,
        callback=_by_device,
        metavar="[DEVICE=]TIME",
        help="The mean time until such a device is back, 5min or npu=10s. Repeatable.",
    ),
    _survive,
    click.option(
        "--availability",
        callback=_share,
        metavar="SHARE",
        help="Ask whether each --slo holds this share of the time, e.g. 0.999, by how often "
        "devices are up.",
    ),
    click.option(
        "--available",
        multiple=True,
        callback=_shares,
        metavar="NAME=SHARE",
        help="How much of its time a device is up: gpu.0=0.995, or gpu=0.995 of all of a kind. "
        "Repeatable.  [default: by --mtbf and --mttr, or its file]",
    ),
    _instances,
    _loading,
    _money,
)
"""What comes, and how it is served."""

_batchings = click.option(
    "--batching",
    "batchings",
    metavar="MAX[:MICROSECONDS]",
    multiple=True,
    callback=_each_batching,
    help=_BATCHING,
)

capacity_options = all_of(
    _workload,
    _deployment,
    _arrivals,
    _slo,
    _batchings,
    _survive,
    _instances,
    _loading,
)
"""The same where the rate is what is looked for, and several ways to batch are compared."""

recommend_options = all_of(
    _workload,
    _faster,
    click.option(
        "--survive",
        type=click.IntRange(min=1, max=4),
        metavar="N",
        help="Look for what meets every objective without any N devices, too.",
    ),
    _money,
)
"""The same where the platform is what is looked for."""

place_options = all_of(
    _workload,
    _faster,
    _batchings,
    click.option(
        "--routing",
        type=click.Choice(["round_robin", "shortest_queue", "least_finish"]),
        help="Which instance of a model gets a request.  [default: the last two are tried]",
    ),
)
"""What comes, and how instances that are looked for are to serve it."""
