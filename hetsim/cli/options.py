"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from hetsim.cost.default import DEFAULT_COST

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Decorator = Callable[[Decorated], Decorated]
Item = TypeVar("Item")

FROM_MODEL: Final = "model"
"""What stands for the notes on a model's nodes in place of an affinity file."""


def common_options(command: Decorated) -> Decorated:
    """Add --debug and --quiet, which may stand before or after the verb."""

    def set_flag(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            setattr(ctx.find_root().obj, str(param.name), True)

    debug = click.option(
        "--debug",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=set_flag,
        help="Show the traceback of an error.",
    )
    quiet = click.option(
        "-q",
        "--quiet",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=set_flag,
        help="No progress or notes on stderr.",
    )
    return debug(quiet(command))


def _set_extensions(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> None:
    if given:
        from hetsim.graph.reading.extension import load_extension

        ctx.find_root().obj.extensions = tuple(load_extension(text) for text in given)


def sizes(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, int]:
    """Read ``NAME=N`` values, N a whole number above 0."""

    def one(text: str) -> tuple[str, int]:
        name, _, size = text.rpartition("=")
        number = whole_number(size)
        if not name or number is None:
            raise ValueError(f"'{text}' is not NAME=N with N a whole number above 0, e.g. batch=1")
        return name, number

    return _by_name(ctx, param, given, one)


def shapes(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> dict[str, tuple[int, ...]]:
    """Read ``NAME=D,D,...`` values: an input and all its dimensions."""

    def one(text: str) -> tuple[str, tuple[int, ...]]:
        name, _, dims = text.rpartition("=")
        shape = [whole_number(dim) for dim in dims.split(",")]
        if not name or None in shape:
            raise ValueError(
                f"'{text}' is not NAME=D,D,... with whole numbers above 0, e.g. x=1,3,224,224"
            )
        return name, tuple(dim for dim in shape if dim is not None)

    return _by_name(ctx, param, given, one)


def _set_inputs(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> None:
    """Take ``FILE.npz``, all inputs in one file, or ``NAME=FILE.npy`` for each of them."""
    if not given:
        return

    def one(text: str) -> tuple[str, Path]:
        name, _, path = text.partition("=")
        if not name or not path:
            raise ValueError(f"'{text}' is not NAME=FILE.npy, e.g. x=image.npy, and no FILE.npz")
        return name, Path(path)

    invocation = ctx.find_root().obj
    if any(text.endswith(".npz") for text in given):
        if len(given) > 1:
            raise click.BadParameter(
                "a .npz file holds all inputs: give it alone, or NAME=FILE.npy for each", ctx, param
            )
        invocation.inputs = given[0]
        return
    from hetsim.graph.inputs.files import read_npy

    invocation.inputs = {
        name: read_npy(path, f"--input {name}={path}")
        for name, path in _by_name(ctx, param, given, one).items()
    }


def _set_frozen(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> None:
    """Read ``NAME=VALUE`` values: a number, true or false, a list of them, or text."""
    import json

    def one(text: str) -> tuple[str, object]:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise ValueError(f"'{text}' is not NAME=VALUE, e.g. sr=16000")
        try:
            return name, json.loads(value)
        except ValueError:
            return name, value

    ctx.find_root().obj.frozen = _by_name(ctx, param, given, one)


def above_zero(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Read a finite number above 0, where one is given."""
    if text is None:
        return None
    number = _number(text)
    if number is None or number <= 0:
        raise click.BadParameter(f"'{text}' is not a finite number above 0", ctx, param)
    return number


def from_zero(ctx: click.Context, param: click.Parameter, text: str) -> float:
    """Read a finite number from 0 on."""
    number = _number(text)
    if number is None or number < 0:
        raise click.BadParameter(f"'{text}' is not a finite number from 0 on", ctx, param)
    return number


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def whole_number(text: str) -> int | None:
    """Return the positive integer that `text` writes in plain digits, else None."""
    text = text.strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        return None
    return int(text) or None


def _by_name(
    ctx: click.Context,
    param: click.Parameter,
    given: Sequence[str],
    read: Callable[[str], tuple[str, Item]],
) -> dict[str, Item]:
    """Return the (name, value) pairs that `read` gives; each name may come once."""
    found: dict[str, Item] = {}
    for text in given:
        try:
            name, value = read(text)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None
        if name in found:
            raise click.BadParameter(f"'{name}' is given twice", ctx, param)
        found[name] = value
    return found


def _all(*options: Decorator[Any]) -> Decorator[Any]:
    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


model_options = _all(
    click.option(
        "--dim",
        "dims",
        metavar="NAME=N",
        multiple=True,
        callback=sizes,
        help="Bind an open dimension, e.g. --dim batch=1, 'x[2]=48', or '*=1': all. Repeatable.",
    ),
    click.option(
        "--shape",
        "shapes",
        metavar="NAME=D,D,...",
        multiple=True,
        callback=shapes,
        help="Set an input's shape, e.g. --shape x=1,3,224,224. Repeatable.",
    ),
    click.option(
        "--input",
        metavar="FILE.npz|NAME=FILE.npy",
        multiple=True,
        expose_value=False,
        callback=_set_inputs,
        help="The inputs; they bind dimensions, and a run that measures shapes is on them.",
    ),
    click.option(
        "--freeze",
        metavar="NAME=VALUE",
        multiple=True,
        expose_value=False,
        callback=_set_frozen,
        help="Make an input constant, e.g. --freeze sr=16000. Repeatable.",
    ),
    click.option(
        "--canonical",
        type=click.Choice(["none", "basic", "extended"]),
        default=None,
        help="How far ONNX Runtime may rewrite the graph first.  [default: basic]",
    ),
    click.option(
        "--extension",
        metavar="FILE",
        multiple=True,
        expose_value=False,
        callback=_set_extensions,
        help="Custom ops: BODIES.onnx, LIBRARY or LIBRARY=BODIES.onnx. Repeatable.",
    ),
)
"""How a model is read."""


def _set_execute(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> None:
    """Read ``DEVICE=PRECISION,...`` values; each device may come once."""

    def one(text: str) -> tuple[str, str]:
        device, _, precision = (part.strip() for part in text.partition("="))
        if not device or not precision:
            raise ValueError(f"'{text}' is not DEVICE=PRECISION, e.g. npu=int8,gpu=float16")
        return device, precision

    listed = [part for text in given for part in text.split(",")]
    ctx.find_root().obj.execute = _by_name(ctx, param, listed, one)


platform_option = click.option(
    "--platform",
    metavar="NAME|FILE",
    help="Platform, or one device alone: catalog name or YAML file.",
)

execute_option = click.option(
    "--execute",
    metavar="DEVICE=PRECISION,...",
    multiple=True,
    expose_value=False,
    callback=_set_execute,
    help="Ask as if a device ran the model quantized, or in half, e.g. npu=int8,gpu=float16.",
)

platform_options = _all(platform_option, execute_option)
"""Where it would run, and in what."""

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

    ctx.find_root().obj.profiles = _by_name(ctx, param, given, one)


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

price_options = _all(profile_option, cost_option)
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

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")

wide_option = click.option(
    "--wide", is_flag=True, help="All columns, and a line for each device; wants 120 columns."
)


def _set_settings(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> None:
    ctx.find_root().obj.settings = given


def _set_affinity(ctx: click.Context, param: click.Parameter, given: str | None) -> None:
    if given is not None and given != FROM_MODEL:
        from hetsim.partitioning.affinity.file import load_affinity

        ctx.find_root().obj.affinity = load_affinity(given)
    else:
        ctx.find_root().obj.affinity = given


limit_options = _all(
    click.option(
        "--set",
        metavar="KEY=VALUE",
        multiple=True,
        expose_value=False,
        callback=_set_settings,
        help="Option of the strategy, e.g. --set max_devices=2. Repeatable.",
    ),
    click.option(
        "--affinity",
        metavar="FILE",
        default=None,
        expose_value=False,
        callback=_set_affinity,
        help="Pins and exclusions, JSON or YAML; `model`: as the model's nodes note.",
    ),
)
"""What a strategy is held to."""

objective_option = click.option(
    "--objective",
    type=click.Choice(["latency", "throughput"]),
    default=None,
    help="One request's latency, or seconds a request with many in flight.  [default: latency]",
)
"""What plans are for, and weighed by."""

target_option = click.option(
    "--target-ms",
    default=None,
    callback=above_zero,
    metavar="MS",
    help="End with exit code 5 where the plan takes longer, by the objective.",
)
"""What a user asks of the best plan."""

strategy_options = _all(
    click.option(
        "--strategy",
        metavar="NAME",
        help="Strategy; `hetsim strategies` lists them.  [default: heft]",
    ),
    objective_option,
    limit_options,
    contention_option,
    price_options,
    pessimistic_option,
)
"""How a plan is made."""

output_options = _all(
    click.option(
        "--trace",
        "trace",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write a Chrome trace, to open in ui.perfetto.dev.",
    ),
    click.option(
        "--out",
        "out",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Write plan.json, result.json, trace.json and manifest.json to a new folder.",
    ),
    click.option("--force", is_flag=True, help="Let --trace and --out replace such files."),
)
"""What is left on disk."""

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed of random inputs, and of --draws.",
)

draws_option = click.option(
    "--draws",
    type=click.IntRange(min=0, max=100_000),
    default=200,
    show_default=True,
    help="Play plans on so many draws of what figures may be off by; 0: on none.",
)
"""How sure an answer is."""

run_options = _all(
    click.option(
        "--executor",
        type=click.Choice(["ray", "threads"]),
        default="ray",
        show_default=True,
        help="Ray actors, or threads of this process.",
    ),
    click.option(
        "--address", metavar="HOST:PORT", help="Join this Ray cluster.  [default: start one]"
    ),
    seed_option,
    click.option(
        "--timeout",
        "timeout_s",
        default="600",
        callback=above_zero,
        show_default=True,
        metavar="SECONDS",
        help="Give up on a run after this long.",
    ),
    click.option(
        "--precision",
        type=click.Choice(["graph", "device"]),
        default="graph",
        show_default=True,
        help="Compute in the graph's types, or rounded as each device computes.",
    ),
)
"""How a plan is executed."""
