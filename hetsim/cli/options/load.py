"""Options about requests, their service, failures and prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from hetsim.cli.options.common import above_zero, all_of, duration, per_second
from hetsim.hardware.price import HOURS_A_YEAR

if TYPE_CHECKING:
    from hetsim.hardware.price import Price
    from hetsim.workload.deployment import DynamicBatching
    from hetsim.workload.failure import Failure
    from hetsim.workload.workload import Slo


@contextmanager
def _said_at(option: str) -> Iterator[None]:
    """Add the option to the place of an error about its value."""
    from hetsim.errors import InvalidInput, UsageError, WorkloadError

    try:
        yield
    except (InvalidInput, UsageError) as error:
        kind = UsageError if isinstance(error, UsageError) else WorkloadError
        inject = f" {error.where}" if option == "--inject" else ""
        raise kind(error.what, where=option + inject, hint=error.hint) from None


def _slos(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> tuple[Slo, ...]:
    if not given:
        return ()
    from hetsim.workload.workload import parse_slo

    with _said_at("--slo"):
        return tuple(parse_slo(text) for text in given)


def _batchings(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> tuple[DynamicBatching, ...]:
    """Read ``MAX`` or ``MAX:TIME`` values."""
    return tuple(_batching(ctx, param, text) for text in given)


def _batching(ctx: click.Context, param: click.Parameter, text: str) -> DynamicBatching:
    from hetsim.workload.deployment import DynamicBatching

    most, colon, delay = text.partition(":")
    if not most.isdecimal():
        raise click.BadParameter(f"'{text}' is not MAX[:TIME], e.g. 8 or 8:500us", ctx, param)
    delay_s = duration(zero=True)(ctx, param, delay) if colon else 0.0
    with _said_at("--batching"):
        return DynamicBatching(int(most), (), round(delay_s * 1e6))


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
    """Read one time for all devices, or ``DEVICE=TIME`` values."""
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
    """Read a share of time as an exact fraction."""
    if text is None:
        return None
    from hetsim.hardware.price import parse_share

    with _said_at(f"--{param.name}"):
        return parse_share(text)


def _named(
    ctx: click.Context, param: click.Parameter, given: Sequence[str], example: str
) -> Iterator[tuple[str, str]]:
    """Yield the name and the word of each ``NAME=WORD``."""
    for text in given:
        name, equals, word = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"'{text}' is not {param.metavar}, {example}", ctx, param)
        yield name, word


def _shares(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> dict[str, Fraction]:
    """Read ``gpu.0=0.995`` values by name; the last of a repeated name counts."""
    found = {}
    for name, word in _named(ctx, param, given, "e.g. gpu.0=0.995 or gpu=99.5%"):
        share = _share(ctx, param, word)
        assert share is not None
        found[name] = share
    return found


def _prices(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, Price]:
    """Read ``gpu.0=0.53/h`` values by name; the last of a repeated name counts."""
    if not given:
        return {}
    from hetsim.hardware.price import parse_price

    found = {}
    for name, word in _named(ctx, param, given, "e.g. gpu.0=0.53/h or platform=1600/3y"):
        with _said_at(f"--price {name}={word}"):
            found[name] = parse_price(word)
    return found


def _failures(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> tuple[Failure, ...]:
    if not given:
        return ()
    from hetsim.workload.failure import parse_failures

    with _said_at("--inject"):
        return tuple(failure for text in given for failure in parse_failures(text))


def _years(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    seconds = duration()(ctx, param, text)
    return None if seconds is None else seconds / 3600 / HOURS_A_YEAR


workload_option = click.option(
    "--workload", metavar="FILE", help="Workload file (YAML) in place of MODEL."
)

rate_option = click.option(
    "--rate", callback=per_second, metavar="RATE", help="Arrival rate, e.g. 100/s or 30/min."
)

speedup_option = click.option(
    "--speedup",
    callback=above_zero,
    metavar="FACTOR",
    help="Multiply all arrival rates by FACTOR.",
)

slo_option = click.option(
    "--slo",
    "slos",
    metavar="OBJECTIVE",
    multiple=True,
    callback=_slos,
    help="Latency objective: p99=50ms, or '99.9%<=50ms'. Repeatable.",
)

batching_option = click.option(
    "--batching",
    "batchings",
    metavar="MAX[:TIME]",
    multiple=True,
    callback=_batchings,
    help="Run waiting requests in batches of at most MAX; a batch waits TIME for more, e.g. "
    "8:500us. Repeatable where batchings are compared.",
)

money_options = all_of(
    click.option(
        "--price",
        "prices",
        metavar="NAME=PRICE",
        multiple=True,
        callback=_prices,
        help="Price of a device or of the platform in US dollars: 0.53/h rented, 1600/3y bought "
        "with a depreciation period of three years. Repeatable.",
    ),
    click.option(
        "--tariff",
        callback=above_zero,
        metavar="USD_PER_KWH",
        help="Price of electricity for purchased hardware.",
    ),
    click.option(
        "--depreciation",
        "lifetime",
        callback=_years,
        metavar="TIME",
        help="Depreciation period of purchased hardware, e.g. 3y.",
    ),
)

inject_option = click.option(
    "--inject",
    "failures",
    metavar="FAILURE",
    multiple=True,
    callback=_failures,
    help="Fail a device: 'kill gpu.0 at 3ms', 'kill gpu at 3ms for 5ms' (it returns), 'hang npu at "
    "3ms for 5ms' (declared dead after 5ms). Separate several by commas. Repeatable.",
)

served_options = all_of(
    workload_option,
    click.option(
        "--deployment",
        metavar="FILE",
        help="Deployment file (YAML): replicas, batching and strategy of each model.",
    ),
    rate_option,
    click.option(
        "--arrivals",
        metavar="KIND",
        help="Arrival process: constant, poisson, gamma:CV or burst:SIZE.  [default: poisson]",
    ),
    click.option(
        "--concurrency",
        type=click.IntRange(min=1),
        help="Number of clients that each wait for an answer, in place of --rate.",
    ),
    click.option(
        "--think",
        "think_s",
        callback=duration(zero=True),
        metavar="TIME",
        help="Pause of a client before its next request, e.g. 5ms.",
    ),
    slo_option,
    click.option(
        "--duration",
        "duration_s",
        callback=duration(),
        metavar="TIME",
        help="Time during which requests arrive, e.g. 10s.",
    ),
    batching_option,
    click.option("--instances", type=click.IntRange(min=1), help="Replicas.  [default: 1]"),
    click.option(
        "--loading",
        type=click.Choice(["resident", "on_demand"]),
        help="Keep all models in memory, or load a model when a batch needs it.  [default: "
        "resident]",
    ),
    inject_option,
)
"""Options of requests and their service, simulated or real."""

load_options = all_of(
    served_options,
    speedup_option,
    click.option(
        "--within",
        metavar="SHARE",
        callback=_precision,
        help="Simulate until the confidence interval of each objective's percentile, else of P99, "
        "is at most this far to each side, e.g. 2%.",
    ),
    click.option(
        "--mtbf",
        multiple=True,
        callback=_by_device,
        metavar="[DEVICE=]TIME",
        help="Mean time between failures, of each device or of one: 2h, npu=30min. Repeatable.",
    ),
    click.option(
        "--mttr",
        multiple=True,
        callback=_by_device,
        metavar="[DEVICE=]TIME",
        help="Mean time to repair, of each device or of one: 5min, npu=10s. Repeatable.",
    ),
    click.option(
        "--survive",
        type=click.IntRange(min=1),
        metavar="N",
        help="Check each objective with any N devices lost, and name the worst losses.",
    ),
    click.option(
        "--availability",
        callback=_share,
        metavar="SHARE",
        help="Check that each objective holds this share of the time, e.g. 0.999.",
    ),
    click.option(
        "--available",
        multiple=True,
        callback=_shares,
        metavar="NAME=SHARE",
        help="Availability of a device: gpu.0=0.995, or gpu=0.995 for all of a kind. Repeatable.  "
        "[default: from --mtbf and --mttr, or its file]",
    ),
    money_options,
)
"""Options of requests and their service, with those of simulations alone."""
