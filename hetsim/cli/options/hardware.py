"""Options that say where a model would run, in what precision and at what prices."""

from __future__ import annotations

from collections.abc import Sequence

import click

from hetsim.cli.options.values import all_of, by_name
from hetsim.cost.default import DEFAULT_COST
from hetsim.hardware.runtimes import EVERY

platform_option = click.option(
    "--platform",
    metavar="NAME|FILE",
    help="Platform, or one device alone: catalog name or YAML file.",
)


def _set_execute(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> None:
    """Read ``DEVICE=PRECISION,...`` values; each device may come once."""

    def one(text: str) -> tuple[str, str]:
        device, _, precision = (part.strip() for part in text.partition("="))
        if not device or not precision:
            raise ValueError(f"'{text}' is not DEVICE=PRECISION, e.g. npu=int8,gpu=float16")
        return device, precision

    listed = [part for text in given for part in text.split(",")]
    ctx.find_root().obj.execute = by_name(ctx, param, listed, one)


execute_option = click.option(
    "--execute",
    metavar="DEVICE=PRECISION,...",
    multiple=True,
    expose_value=False,
    callback=_set_execute,
    help="Ask as if a device ran the model quantized, or in half, e.g. npu=int8,gpu=float16.",
)


def _set_runtime(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> None:
    """Read ``DEVICE=RUNTIME,...`` values; a runtime alone is for all that have figures by it."""

    def one(text: str) -> tuple[str, str]:
        device, equals, runtime = (part.strip() for part in text.partition("="))
        if not device or (equals and not runtime):
            raise ValueError(f"'{text}' is not DEVICE=RUNTIME, e.g. gpu=tensorrt, or RUNTIME")
        return (device, runtime) if equals else (EVERY, device)

    listed = [part for text in given for part in text.split(",")]
    ctx.find_root().obj.runtime = by_name(ctx, param, listed, one)


runtime_option = click.option(
    "--runtime",
    metavar="[DEVICE=]RUNTIME,...",
    multiple=True,
    expose_value=False,
    callback=_set_runtime,
    help="Take a device's figures by another runtime that it was measured in, e.g. gpu=ncnn; "
    "'hetsim devices show' lists them. A runtime alone is for all devices that have it.",
)


def _set_changes(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> None:
    ctx.find_root().obj.changes = given


def _set_without(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> None:
    listed = [part.strip() for text in given for part in text.split(",")]
    ctx.find_root().obj.without = tuple(part for part in listed if part)


what_if_options = all_of(
    click.option(
        "--what-if",
        metavar="CHANGE",
        multiple=True,
        expose_value=False,
        callback=_set_changes,
        help="Ask as if a figure of the platform were another, and show both: 'gpu.memory =64GB', "
        "'link cpu-gpu.bandwidth x2', 'npu.speed +10%'. Repeatable.",
    ),
    click.option(
        "--without",
        metavar="NAME,...",
        multiple=True,
        expose_value=False,
        callback=_set_without,
        help="Ask as if devices or links of the platform were not there, e.g. gpu.0.",
    ),
)

platform_options = all_of(platform_option, execute_option, runtime_option, what_if_options)
"""Where it would run, in what, and what is supposed of it."""

contention_option = click.option(
    "--contention",
    type=click.Choice(["fifo", "none"]),
    default=None,
    help="Whether a link carries one transfer at a time.  [default: fifo]",
)


def _set_profiles(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> None:
    """Read ``DEVICE=FILE`` values."""

    def one(text: str) -> tuple[str, str]:
        name, _, path = text.partition("=")
        if not name or not path:
            raise ValueError(f"'{text}' is not DEVICE=FILE, e.g. npu=profile.json")
        return name, path

    ctx.find_root().obj.profiles = by_name(ctx, param, given, one)


profile_option = click.option(
    "--profile",
    "profiles",
    metavar="DEVICE=FILE",
    multiple=True,
    expose_value=False,
    callback=_set_profiles,
    help="Price a device by a profile of the model on it: of ONNX Runtime, trtexec, OpenVINO or "
    "AI Hub. Repeatable.",
)


def _set_cost(ctx: click.Context, param: click.Parameter, given: str | None) -> None:
    ctx.find_root().obj.cost = given


cost_option = click.option(
    "--cost",
    metavar="NAME",
    default=None,
    expose_value=False,
    callback=_set_cost,
    help=f"Cost model; an unknown name lists them.  [default: {DEFAULT_COST}]",
)

price_options = all_of(profile_option, cost_option)
"""Where prices are from."""


def _set_pessimistic(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    if given:
        ctx.find_root().obj.pessimistic = True


pessimistic_option = click.option(
    "--pessimistic",
    is_flag=True,
    expose_value=False,
    callback=_set_pessimistic,
    help="Judge plans with every device and link at the bad end of its 80 % interval.",
)
"""What figures are taken as."""
