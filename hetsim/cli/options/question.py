"""Options that say which model, where, in what precision, at what prices, how planned and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hetsim.cli.options.common import all_of, by_name, duration, kept, shapes, sizes
from hetsim.cost import DEFAULT_COST
from hetsim.hardware.variants import ALIASES, EVERY

if TYPE_CHECKING:
    from hetsim.graph.reading.extension import Extension
    from hetsim.partitioning.affinity import Affinity


def _inputs(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> Mapping[str, Any] | str | None:
    """Take ``FILE.npz``, all inputs in one file, or ``NAME=FILE.npy`` for each of them."""
    if not given or ctx.resilient_parsing:
        return None

    def one(text: str) -> tuple[str, Path]:
        name, _, path = text.partition("=")
        if not name or not path:
            raise ValueError(f"'{text}' is not NAME=FILE.npy, e.g. x=image.npy, and no FILE.npz")
        return name, Path(path)

    if any(text.endswith(".npz") for text in given):
        if len(given) > 1:
            raise click.BadParameter(
                "a .npz file holds all inputs: give it alone, or NAME=FILE.npy for each", ctx, param
            )
        return given[0]
    from hetsim.graph.inputs.arrays import read_npy

    return {
        name: read_npy(path, f"--input {name}={path}")
        for name, path in by_name(ctx, param, given, one).items()
    }


def _frozen(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, object]:
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

    return by_name(ctx, param, given, one)


def _extensions(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> tuple[Extension, ...]:
    # A shell that asks for completions loads no library.
    if not given or ctx.resilient_parsing:
        return ()
    from hetsim.graph.reading.extension import load_extension

    return tuple(load_extension(text) for text in given)


model_options = all_of(
    click.option(
        "--dim",
        "dims",
        metavar="NAME=N",
        multiple=True,
        expose_value=False,
        callback=kept(sizes),
        help="Bind an open dimension, e.g. --dim batch=1, 'x[2]=48', or '*=64': all. Where the "
        "file has 1 request, 'x[0]=8' makes it 8 at once. Repeatable.",
    ),
    click.option(
        "--shape",
        "shapes",
        metavar="NAME=D,D,...",
        multiple=True,
        expose_value=False,
        callback=kept(shapes),
        help="Set an input's shape, e.g. --shape x=1,3,224,224. Repeatable.",
    ),
    click.option(
        "--input",
        "inputs",
        metavar="FILE.npz|NAME=FILE.npy",
        multiple=True,
        expose_value=False,
        callback=kept(_inputs),
        help="The inputs; they bind dimensions, and a run that measures shapes is on them.",
    ),
    click.option(
        "--freeze",
        "frozen",
        metavar="NAME=VALUE",
        multiple=True,
        expose_value=False,
        callback=kept(_frozen),
        help="Make an input constant, e.g. --freeze sr=16000. Repeatable.",
    ),
    click.option(
        "--canonical",
        type=click.Choice(["none", "basic", "extended"]),
        expose_value=False,
        callback=kept(),
        help="How far ONNX Runtime may rewrite the graph first.  [default: basic; none above "
        "30,000 nodes]",
    ),
    click.option(
        "--extension",
        "extensions",
        metavar="FILE",
        multiple=True,
        expose_value=False,
        callback=kept(_extensions),
        help="Custom ops: BODIES.onnx, LIBRARY or LIBRARY=BODIES.onnx. Repeatable.",
    ),
)
"""How a model is read."""


platform_option = click.option(
    "--platform",
    metavar="NAME|FILE",
    expose_value=False,
    callback=kept(),
    help="Platform, or one device alone: catalog name or YAML file.",
)


def _execute(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Read ``[DEVICE=]PRECISION,...`` values; each device may come once."""
    return _by_device(ctx, param, given, "PRECISION", "npu=int8,gpu=float16")


def _by_device(
    ctx: click.Context, param: click.Parameter, given: Sequence[str], word: str, example: str
) -> dict[str, str]:
    """Read ``DEVICE=WORD,...`` values; a word alone is for every device that can."""

    def one(text: str) -> tuple[str, str]:
        device, equals, said = (part.strip() for part in text.partition("="))
        if not device or (equals and not said):
            raise ValueError(f"'{text}' is not DEVICE={word}, e.g. {example}, or {word}")
        name, said = (device, said) if equals else (EVERY, device)
        return name, ALIASES.get(said, said)

    listed = [part for text in given for part in text.split(",")]
    return by_name(ctx, param, listed, one)


execute_option = click.option(
    "--execute",
    metavar="[DEVICE=]PRECISION,...",
    multiple=True,
    expose_value=False,
    callback=kept(_execute),
    help="Price devices as if they ran the model quantized or in half precision, e.g. "
    "npu=int8,gpu=float16. A precision alone is for all devices that have it.",
)


def _runtime(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Read ``[DEVICE=]RUNTIME,...`` values; a runtime alone is for all that have figures by it."""
    return _by_device(ctx, param, given, "RUNTIME", "gpu=tensorrt")


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


def _measured(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Read ``DEVICE=MODEL:TIME`` and ``DEVICE=FILE`` values; a device may come several times."""
    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, _, told = text.partition("=")
        if not name or not told:
            raise click.BadParameter(
                f"'{text}' is not DEVICE=MODEL:TIME, e.g. gpu=resnet50.onnx:4.1ms", ctx, param
            )
        found[name] = (*found.get(name, ()), told)
    return found


measured_option = click.option(
    "--measured",
    metavar="DEVICE=MODEL:TIME",
    multiple=True,
    expose_value=False,
    callback=kept(_measured),
    help="Correct a device's times by a latency that you measured on it: gpu=resnet50.onnx:4.1ms, "
    "npu=zoo:resnet18:3ms:int8:batch=8, or a file: gpu=latencies.csv, gpu=MODEL:trtexec.txt. "
    "Repeatable.",
)


cost_option = click.option(
    "--cost",
    metavar="NAME",
    expose_value=False,
    callback=kept(),
    help=f"Cost model; an unknown name lists them.  [default: {DEFAULT_COST}]",
)

price_options = all_of(profile_option, measured_option, cost_option)
"""Where prices are from."""


pessimistic_option = click.option(
    "--pessimistic",
    is_flag=True,
    expose_value=False,
    callback=kept(),
    help="Judge plans with every device and link at the bad end of its 80 % interval.",
)
"""What figures are taken as."""


FROM_MODEL: Final = "model"
"""What stands for the notes on a model's nodes in place of an affinity file."""


def _affinity(
    ctx: click.Context, param: click.Parameter, given: str | None
) -> Affinity | str | None:
    if given is None or given == FROM_MODEL or ctx.resilient_parsing:
        return given
    from hetsim.partitioning.affinity_file import load_affinity

    return load_affinity(given)


limit_options = all_of(
    click.option(
        "--set",
        "settings",
        metavar="KEY=VALUE",
        multiple=True,
        expose_value=False,
        callback=kept(),
        help="Option of the strategy, e.g. --set max_devices=2. Repeatable.",
    ),
    click.option(
        "--affinity",
        metavar="FILE",
        expose_value=False,
        callback=kept(_affinity),
        help="Pins and exclusions, JSON or YAML; `model`: as the model's nodes note.",
    ),
)
"""What a strategy is held to."""

objective_option = click.option(
    "--objective",
    type=click.Choice(["latency", "throughput"]),
    expose_value=False,
    callback=kept(),
    help="One request's latency, or seconds a request with many in flight.  [default: latency]",
)
"""What plans are for, and weighed by."""

target_option = click.option(
    "--target",
    "target_s",
    callback=duration(),
    metavar="TIME",
    help="End with exit code 5 where the plan takes longer, by the objective.",
)
"""What a user asks of the best plan."""

strategy_options = all_of(
    click.option(
        "--strategy",
        metavar="NAME",
        expose_value=False,
        callback=kept(),
        help="Strategy; `hetsim compare --strategies` lists them.  [default: heft]",
    ),
    objective_option,
    limit_options,
    contention_option,
    price_options,
    pessimistic_option,
)
"""How a plan is made."""


def _show_strategies(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
    if name is None or ctx.resilient_parsing:
        return
    from hetsim.cli.strategies import show_strategies

    # It needs no MODEL, so it is answered as it is read: --json may stand behind it.
    invocation = ctx.find_root().obj
    invocation.as_json = "--json" in invocation.command
    show_strategies(name)
    ctx.exit()


strategies_option = click.option(
    "--strategies",
    "listed",
    is_flag=False,
    flag_value="",
    expose_value=False,
    callback=_show_strategies,
    metavar="[NAME]",
    help="List the strategies and merge methods, or show the options of NAME, and exit.",
)

device_option = click.option(
    "--device",
    metavar="NAME",
    default=None,
    help="The device that nodes are wanted on, e.g. npu.  [default: of all the best]",
)
"""What a user means by a node that falls back."""

sustained_option = click.option(
    "--sustained",
    is_flag=True,
    help="Judge plans with devices that are busy at once within the power and the memory that "
    "their platform says they share.",
)
"""At which speed plans are judged."""

sensitivities_option = click.option(
    "--sensitivities",
    is_flag=True,
    help="Say what would move the answer: every device 10 % faster, every link 10 % wider or "
    "sooner, with the plan kept and planned anew.",
)
"""What an answer hangs on."""

draws_option = click.option(
    "--samples",
    "draws",
    type=click.IntRange(min=0, max=100_000),
    default=200,
    show_default=True,
    help="Monte Carlo samples of what figures may be off by, on which plans are played; 0: none.",
)
"""How sure an answer is."""


seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed of random inputs, --samples and arrivals.",
)

address_option = click.option(
    "--address", metavar="HOST:PORT", help="Join this Ray cluster.  [default: start one]"
)

run_options = all_of(
    click.option(
        "--executor",
        type=click.Choice(["ray", "threads"]),
        default="ray",
        show_default=True,
        help="Ray actors, or threads of this process.",
    ),
    address_option,
    seed_option,
    click.option(
        "--timeout",
        "timeout_s",
        default="600s",
        callback=duration(),
        show_default=True,
        metavar="TIME",
        help="End a run that takes longer, e.g. 90s or 1h.",
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
