"""``hetsim strategies``: what ``--strategy`` and ``--method`` take."""

from __future__ import annotations

import click

from hetsim.cli.call import current
from hetsim.cli.given_once import Command
from hetsim.cli.options import common_options, json_option


@click.command(cls=Command)
@click.argument("name", required=False)
@json_option
@common_options
def strategies(name: str | None, as_json: bool) -> None:
    """List the strategies and the merge methods, or the options of strategy NAME."""
    from hetsim.base.plugins import plugin_complaints
    from hetsim.cost.registry import GROUP as COST_MODELS
    from hetsim.device.registry import GROUP as DEVICES
    from hetsim.device.registry import SIMULATED
    from hetsim.partitioning.methods.registry import methods
    from hetsim.placement.registry import GROUP as STRATEGIES
    from hetsim.placement.registry import OWN
    from hetsim.placement.registry import strategies as known

    session = current()
    if name is not None:
        _show_options(name, as_json=as_json)
        return
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
    from hetsim.reporting.tables.comparison import names_table

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


def _show_options(name: str, *, as_json: bool) -> None:
    from hetsim.placement.options import describe_options
    from hetsim.reporting.tables.comparison import names_table

    session = current()
    options = describe_options(name)
    if as_json:
        session.show_json(
            {
                "schema": "hetsim-strategy-options/1",
                "strategy": name,
                "options": [
                    {"name": option.name, "type": option.kind, "default": option.default}
                    for option in options
                ],
            }
        )
        return
    rows = (
        (option.name, f"{option.kind}, {option.default or 'none'} unless given")
        for option in options
    )
    session.show(names_table((f"--set of {name}", "what it takes"), rows))
