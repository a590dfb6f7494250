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
    from hetsim.cost.registry import GROUP as COST_MODELS
    from hetsim.device.registry import GROUP as DEVICES
    from hetsim.device.registry import SIMULATED
    from hetsim.partitioning.methods import methods
    from hetsim.placement.registry import GROUP as STRATEGIES
    from hetsim.placement.registry import OWN
    from hetsim.placement.registry import strategies as known
    from hetsim.plugins import plugin_complaints

    session = current()
    for group, own in (
        (STRATEGIES, OWN),
        (DEVICES, (SIMULATED,)),
        (COST_MODELS, ("roofline",)),
    ):
        for complaint in plugin_complaints(group, own):
            session.note(f"warning: {complaint}")
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
