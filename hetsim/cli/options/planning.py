"""Options that say how a plan is made, and what it is held to and judged by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from hetsim.cli.options.hardware import contention_option, pessimistic_option, price_options
from hetsim.cli.options.values import above_zero, all_of, kept

if TYPE_CHECKING:
    from hetsim.partitioning.affinity import Affinity

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
    "--target-ms",
    default=None,
    callback=above_zero,
    metavar="MS",
    help="End with exit code 5 where the plan takes longer, by the objective.",
)
"""What a user asks of the best plan."""

strategy_options = all_of(
    click.option(
        "--strategy",
        metavar="NAME",
        expose_value=False,
        callback=kept(),
        help="Strategy; `hetsim strategies` lists them.  [default: heft]",
    ),
    objective_option,
    limit_options,
    contention_option,
    price_options,
    pessimistic_option,
)
"""How a plan is made."""

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
    "--draws",
    type=click.IntRange(min=0, max=100_000),
    default=200,
    show_default=True,
    help="Monte Carlo samples of what figures may be off by, on which plans are played; 0: none.",
)
"""How sure an answer is."""
