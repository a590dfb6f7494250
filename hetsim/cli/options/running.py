"""Options that say how a plan is executed."""

from __future__ import annotations

import click

from hetsim.cli.options.values import above_zero, all_of

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed of random inputs, of --draws and of arrivals.",
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
