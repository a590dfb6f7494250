"""Options of model, platform, precision, cost model, planning and execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hetsim.cli.options.common import Decorator, all_of, by_name, duration, shapes, sizes, stored
from hetsim.cost import DEFAULT_COST

if TYPE_CHECKING:
    from hetsim.graph.reading.extension import Extension
    from hetsim.partitioning.affinity import Affinity


def _inputs(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> Mapping[str, Any] | str | None:
    """Read ``FILE.npz``, all inputs in one file, or ``NAME=FILE.npy`` for each of them."""
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
    # For a shell that requests completions no library is loaded.
    if not given or ctx.resilient_parsing:
        return ()
    from hetsim.graph.reading.extension import load_extension

    return tuple(load_extension(text) for text in given)


model_options = all_of(
    stored(
        "--dim",
        "dims",
        metavar="NAME=N",
        multiple=True,
        read=sizes,
        help="Set a dynamic dimension, e.g. batch=1, 'x[2]=48', or '*=64' for all; 'x[0]=8' makes "
        "a batch of 8. Repeatable.",
    ),
    stored(
        "--shape",
        "shapes",
        metavar="NAME=D,D,...",
        multiple=True,
        read=shapes,
        help="Set the shape of an input, e.g. x=1,3,224,224. Repeatable.",
    ),
    stored(
        "--input",
        "inputs",
        metavar="FILE.npz|NAME=FILE.npy",
        multiple=True,
        read=_inputs,
        help="Read the inputs from files; they set all dynamic dimensions. Repeatable.",
    ),
    stored(
        "--freeze",
        "frozen",
        metavar="NAME=VALUE",
        multiple=True,
        read=_frozen,
        help="Make an input constant, e.g. sr=16000. Repeatable.",
    ),
    stored(
        "--canonical",
        type=click.Choice(["none", "basic", "extended"]),
        help="Level of ONNX Runtime's graph optimizations before planning.  [default: basic; none "
        "above 30,000 nodes]",
    ),
    stored(
        "--extension",
        "extensions",
        metavar="FILE",
        multiple=True,
        read=_extensions,
        help="Load custom ops: BODIES.onnx, LIBRARY or LIBRARY=BODIES.onnx. Repeatable.",
    ),
)
"""Options of the model."""


platform_option = stored(
    "--platform",
    metavar="NAME|FILE",
    help="Use this platform or single device: a name of the catalog or a YAML file.",
)


def _execute(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Read ``[DEVICE=]PRECISION,...`` values; each device may come once."""
    if not given:
        return {}
    from hetsim.hardware.variants import ALIASES

    asked = _by_device(ctx, param, given, "PRECISION", "npu=int8,gpu=float16")
    return {name: ALIASES.get(precision, precision) for name, precision in asked.items()}


def _by_device(
    ctx: click.Context, param: click.Parameter, given: Sequence[str], word: str, example: str
) -> dict[str, str]:
    """Read ``DEVICE=WORD,...`` values; a word alone is for every device that supports it."""
    if not given:
        return {}
    from hetsim.hardware.variants import EVERY

    def one(text: str) -> tuple[str, str]:
        device, equals, said = (part.strip() for part in text.partition("="))
        if not device or (equals and not said):
            raise ValueError(f"'{text}' is not DEVICE={word}, e.g. {example}, or {word}")
        return (device, said) if equals else (EVERY, device)

    listed = [part for text in given for part in text.split(",")]
    return by_name(ctx, param, listed, one)


execute_option = stored(
    "--execute",
    metavar="[DEVICE=]PRECISION,...",
    multiple=True,
    read=_execute,
    help="Price DEVICE as if it ran the model in PRECISION, e.g. npu=int8,gpu=fp16; without "
    "DEVICE, all devices that have it.",
)


runtime_option = stored(
    "--runtime",
    metavar="[DEVICE=]RUNTIME,...",
    multiple=True,
    read=partial(_by_device, word="RUNTIME", example="gpu=tensorrt"),
    help="Price DEVICE as it runs models with another RUNTIME, e.g. cpu=onnxruntime; without "
    "DEVICE, all devices that have figures by it. 'hetsim devices show' lists the runtimes.",
)


def _without(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    listed = [part.strip() for text in given for part in text.split(",")]
    return tuple(part for part in listed if part)


what_if_options = all_of(
    stored(
        "--what-if",
        "changes",
        metavar="CHANGE",
        multiple=True,
        help="Change a figure of the platform, and show both answers: 'gpu.memory =64GB', 'link "
        "cpu-gpu.bandwidth x2', 'npu.speed +10%'. Repeatable.",
    ),
    stored(
        "--without",
        metavar="NAME,...",
        multiple=True,
        read=_without,
        help="Remove devices or links from the platform, e.g. gpu.0.",
    ),
)

platform_options = all_of(platform_option, execute_option, runtime_option, what_if_options)
"""Options of the platform."""

contention_option = stored(
    "--contention",
    type=click.Choice(["fifo", "none"]),
    help="Transfers at a time on a link: one, in order of arrival (fifo), or any number (none).  "
    "[default: fifo]",
)


def _profiles(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Read ``DEVICE=FILE`` values."""

    def one(text: str) -> tuple[str, str]:
        name, _, path = text.partition("=")
        if not name or not path:
            raise ValueError(f"'{text}' is not DEVICE=FILE, e.g. npu=profile.json")
        return name, path

    return by_name(ctx, param, given, one)


profile_option = stored(
    "--profile",
    "profiles",
    metavar="DEVICE=FILE",
    multiple=True,
    read=_profiles,
    help="Price DEVICE by a profile of this model on it, from ONNX Runtime, trtexec, OpenVINO or "
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


measured_option = stored(
    "--measured",
    metavar="DEVICE=MODEL:TIME",
    multiple=True,
    read=_measured,
    help="Correct a device's times by a latency that you measured on it: gpu=resnet50.onnx:4.1ms, "
    "npu=zoo:resnet18:3ms:int8:batch=8, or a file: gpu=latencies.csv, gpu=MODEL:trtexec.txt. "
    "Repeatable.",
)


cost_option = stored(
    "--cost",
    metavar="NAME",
    help=f"Use this cost model: fitted, roofline, or one of a plugin.  [default: {DEFAULT_COST}]",
)

pessimistic_option = stored(
    "--pessimistic",
    is_flag=True,
    help="Price every device and link at the slow end of its 80 % interval.",
)


price_options = all_of(profile_option, measured_option, cost_option, pessimistic_option)
"""Options of the cost model."""


FROM_MODEL: Final = "model"
"""Word for affinities from the metadata of a model's nodes, instead of a file."""


def _affinity(
    ctx: click.Context, param: click.Parameter, given: str | None
) -> Affinity | str | None:
    if given is None or given == FROM_MODEL or ctx.resilient_parsing:
        return given
    from hetsim.partitioning.affinity_file import load_affinity

    return load_affinity(given)


limit_options = all_of(
    stored(
        "--set",
        "settings",
        metavar="KEY=VALUE",
        multiple=True,
        help="Set an option of the strategy, e.g. max_devices=2. Repeatable.",
    ),
    stored(
        "--affinity",
        metavar="FILE",
        read=_affinity,
        help="Pin nodes to devices or exclude them, by a JSON or YAML file, or by the metadata of "
        "the nodes (`model`).",
    ),
    contention_option,
    price_options,
)
"""Options and limits of a strategy, contention, and prices."""

objective_option = stored(
    "--objective",
    type=click.Choice(["latency", "throughput"]),
    help="Minimize the latency of one request, or maximize throughput.  [default: latency]",
)

target_option = click.option(
    "--target",
    "target_s",
    callback=duration(),
    metavar="TIME",
    help="End with exit code 5 if the plan takes longer than this, e.g. 7ms.",
)

strategy_options = all_of(
    stored(
        "--strategy",
        metavar="NAME",
        help="Plan with this strategy; `hetsim compare --strategies` lists them.  [default: heft]",
    ),
    objective_option,
    limit_options,
)
"""Options of planning."""


def _show_strategies(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
    if name is None or ctx.resilient_parsing:
        return
    from hetsim.cli.strategies import show_strategies

    # It needs no MODEL, so it is answered while parsing: --json may follow it.
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
    help="Report fallbacks from this device, e.g. npu.  [default: the fastest for each node]",
)

sustained_option = click.option(
    "--sustained",
    is_flag=True,
    help="Slow down devices that are busy at the same time, to the power and memory bandwidth that "
    "they share.",
)

sensitivities_option = click.option(
    "--sensitivities",
    is_flag=True,
    help="Show how the answer changes if a device is 10 % faster, or a link 10 % faster, with the "
    "same plan and with a new one.",
)

draws_option = click.option(
    "--samples",
    "draws",
    type=click.IntRange(min=0, max=100_000),
    default=200,
    show_default=True,
    help="Number of Monte Carlo samples of the cost-model error; 0: none.",
)


judged_options = all_of(
    objective_option, target_option, sustained_option, sensitivities_option, draws_option
)
"""Options by which plans are judged."""

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed of random inputs, samples and arrivals.",
)

address_option = click.option(
    "--address", metavar="HOST:PORT", help="Use this Ray cluster.  [default: start one]"
)


def executor_option(text: str) -> Decorator[Any]:
    """Return --executor; `text` is its help."""
    return click.option(
        "--executor",
        type=click.Choice(["ray", "threads"]),
        default="ray",
        show_default=True,
        help=text,
    )


def several_strategies(text: str) -> Decorator[Any]:
    """Return --strategy that may be given several times, and limits; `text` is its help."""
    several = click.option("--strategy", "strategies", multiple=True, metavar="NAME", help=text)
    return all_of(several, limit_options)


precision_option = click.option(
    "--precision",
    type=click.Choice(["graph", "device"]),
    default="graph",
    show_default=True,
    help="Compute in the types of the graph, or round as each device does.",
)

run_options = all_of(
    executor_option("Run devices as Ray actors, or as threads of this process."),
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
    precision_option,
)
"""Options of execution."""
