"""``hetsim verify``: does a certificate hold?"""

from __future__ import annotations

from dataclasses import asdict

import click

from hetsim.cli.commands import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.common import common_options, json_option


@click.command(cls=Command)
@click.argument("file")
@click.option(
    "--events",
    type=click.IntRange(min=1),
    help="Task events that are played at most.  [default: 100000000]",
)
@json_option
@common_options
def verify(file: str, events: int | None) -> None:
    """Check a certificate FILE that `hetsim recommend` wrote.

    It deals with every vector that comes before the answer, checks each bound, and plays again
    what was tried. Ends with exit code 5 where the certificate claims what is not so.
    """
    from hetsim.provisioning.platforms.verification import BUDGET
    from hetsim.provisioning.platforms.verification import verify as checked

    invocation = current()
    with invocation.progress("checking the certificate"):
        held = checked(file, budget=BUDGET if events is None else events)
    if invocation.as_json:
        invocation.show_json({"schema": "hetsim-verified/1", **asdict(held)})
    else:
        for line in held.report().splitlines():
            invocation.say(line)
