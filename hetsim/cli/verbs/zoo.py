"""``hetsim zoo``: the models that hetsim includes."""

from __future__ import annotations

import click

from hetsim.cli.commands import Family
from hetsim.cli.invocation import current
from hetsim.cli.options.common import common_options, verb_options, wide_option
from hetsim.core.text import records


@click.group(
    cls=Family,
    examples=(
        ("hetsim zoo list",
         "Which models does hetsim include?"),
        ("hetsim zoo list --wide",
         "Which source and licence do they have?"),
        ("hetsim compare zoo:resnet50 --platform laptop",
         "Compare strategies for a model of the zoo."),
    ),
)  # fmt: skip
@common_options
def zoo() -> None:
    """List the models that hetsim includes, for zoo:NAME."""


@zoo.command("list")
@wide_option
@verb_options
def list_models(wide: bool) -> None:
    """List the models of the zoo: real graphs, with random weights that are made on first use."""
    from hetsim.graph.zoo.models import describe
    from hetsim.reporting.formatting import big
    from hetsim.reporting.tables.comparison import names_table
    from hetsim.reporting.tables.inspection import shape_text

    invocation = current()
    with invocation.progress("reading the zoo"):
        entries = describe()
    rows = [
        (
            f"zoo:{entry.name}",
            str(entry.nodes),
            big(entry.parameters),
            "; ".join(f"{t.name} {t.dtype} {shape_text(t.shape)}" for t in entry.inputs),
            entry.family,
            f"{entry.source.partition(',')[0]} ({entry.licence})",
        )
        for entry in entries
    ]
    header = ("model", "nodes", "parameters", "inputs", "family", "source")
    columns = len(header) if wide else 4
    invocation.answer(
        lambda: {
            "schema": "hetsim-zoo/1",
            "models": records(
                entries, "name family nodes parameters inputs(name dtype shape) source licence"
            ),
        },
        lambda: names_table(header[:columns], (row[:columns] for row in rows)),
    )
