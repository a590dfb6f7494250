"""Options that say where a model would run, in what precision and at what prices."""

from __future__ import annotations

from collections.abc import Sequence

import click

from hetsim.cli.options.values import all_of, by_name, kept
from hetsim.cost import DEFAULT_COST
from hetsim.hardware.variants import EVERY

platform_option = click.option(
    "--platform",
    metavar="NAME|FILE",
    expose_value=False,
    callback=kept(),
    help="Platform, or one device alone: catalog name or YAML file.",
)


def _execute(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Read ``DEVICE=PRECISION,...`` values; each device may come once."""

    def one(text: str) -> tuple[str, str]:
        device, _, precision = (part.strip() for part in text.partition("="))
        if not device or not precision:
            raise ValueError(f"'{text}' is not DEVICE=PRECISION, e.g. npu=int8,gpu=float16")
        return device, precision

    listed = [part for text in given for part in text.split(",")]
    return by_name(ctx, param, listed, one)


execute_option = click.option(
    "--execute",
    metavar="DEVICE=PRECISION,...",
    multiple=True,
    expose_value=False,
    callback=kept(_execute),
    help="Ask as if a device ran the model quantized, or in half, e.g. npu=int8,gpu=float16.",
)


def _runtime(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Read ``DEVICE=RUNTIME,...`` values; a runtime alone is for all that have figures by it."""

    def one(text: str) -> tuple[str, str]:
        device, equals, runtime = (part.strip() for part in text.partition("="))
        if not device or (equals and not runtime):
            raise ValueError(f"'{text}' is not DEVICE=RUNTIME, e.g. gpu=tensorrt, or RUNTIME")
        return (device, runtime) if equals else (EVERY, device)

    listed = [part for text in given for part in text.split(",")]
    return by_name(ctx, param, listed, one)


runtime_option = click.option(
    "--runtime",
    metavar="[DEVICE=]RUNTIME,...",
    multiple=True,
    expose_value=False,
    callback=kept(_runtime),
    help="Take a device's figures by another runtime that it was measured in, e.g. gpu=ncnn; "
    "'hetsim devices show' lists them. A runtime alone is for all devices that have it.",
)


def _without(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    listed = [part.strip() for text in given for part in text.split(",")]
    return tuple(part for part in listed if part)


what_if_options = all_of(
    click.option(
        "--what-if",
        "changes",
        metavar="CHANGE",
        multiple=True,
        expose_value=False,
        callback=kept(),
        help="Ask as if a figure of the platform were another, and show both: 'gpu.memory =64GB', "
        "'link cpu-gpu.bandwidth x2', 'npu.speed +10%'. Repeatable.",
    ),
    click.option(
        "--without",
        metavar="NAME,...",
        multiple=True,
        expose_value=False,
        callback=kept(_without),
        help="Ask as if devices or links of the platform were not there, e.g. gpu.0.",
    ),
)

platform_options = all_of(platform_option, execute_option, runtime_option, what_if_options)
"""Where it would run, in what, and what is supposed of it."""

contention_option = click.option(
    "--contention",
    type=click.Choice(["fifo", "none"]),
    expose_value=False,
    callback=kept(),
    help="Whether a link carries one transfer at a time.  [default: fifo]",
)


def _profiles(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Read ``DEVICE=FILE`` values."""

    def one(text: str) -> tuple[str, str]:
        name, _, path = text.partition("=")
        if not name or not path:
            raise ValueError(f"'{text}' is not DEVICE=FILE, e.g. npu=profile.json")
        return name, path

    return by_name(ctx, param, given, one)


profile_option = click.option(
    "--profile",
    "profiles",
    metavar="DEVICE=FILE",
    multiple=True,
    expose_value=False,
    callback=kept(_profiles),
    help="Price a device by a profile of the model on it: of ONNX Runtime, trtexec, OpenVINO or "
    "AI Hub. Repeatable.",
)


cost_option = click.option(
    "--cost",
    metavar="NAME",
    expose_value=False,
    callback=kept(),
    help=f"Cost model; an unknown name lists them.  [default: {DEFAULT_COST}]",
)

price_options = all_of(profile_option, cost_option)
"""Where prices are from."""


pessimistic_option = click.option(
    "--pessimistic",
    is_flag=True,
    expose_value=False,
    callback=kept(),
    help="Judge plans with every device and link at the bad end of its 80 % interval.",
)
"""What figures are taken as."""
