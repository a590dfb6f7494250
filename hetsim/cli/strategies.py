"""``hetsim strategies``: what ``--strategy`` and ``--method`` take."""

from __future__ import annotations

import click

from hetsim.cli.options import common_options, json_option
from hetsim.cli.session import current


@click.command()
@json_option
@common_options
def strategies(as_json: bool) -> None:
    """List the strategies and the merge methods."""
    from hetsim.partitioning.methods import methods
    from hetsim.placement.registry import strategies as known

    session = current()
    if as_json:
        session.show_json(
            {
                "schema": "hetsim-strategies/1",
                "strategies": [
                    {"name": info.name, "usage": info.usage, "summary": info.summary}
                    for info in known()
                ],
                "methods": [{"name": info.name, "summary": info.summary} for info in methods()],
            }
        )
        return
    from hetsim.reporting.table import names_table

    session.show(
        names_table(
            ("--strategy", "what it does"),
            ((info.usage, info.summary) for info in known()),
        )
    )
    session.say("")
    session.show(
        names_table(("--method", "what it does"), ((info.name, info.summary) for info in methods()))
    )
