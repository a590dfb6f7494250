"""``hetsim inspect``: what a model is made of, and who supports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hetsim.cli.given_once import Command
from hetsim.cli.invocation import current
from hetsim.cli.options import (
    common_options,
    json_option,
    model_options,
    platform_option,
    wide_option,
)

if TYPE_CHECKING:
    from hetsim.cli.question import Canonical


@click.command(cls=Command)
@click.argument("model")
@model_options
@platform_option
@wide_option
@json_option
@common_options
def inspect(
    model: str,
    dims: dict[str, int],
    shapes: dict[str, tuple[int, ...]],
    canonical: Canonical | None,
    platform: str | None,
    wide: bool,
    as_json: bool,
) -> None:
    """Show what MODEL is made of: ops, FLOPs, bytes, parameters, inputs, outputs.

    With --platform, show for each op type which devices support it, and why the others
    do not.
    """
    from hetsim.cli.question import read_model
    from hetsim.hardware.catalog import load_platform
    from hetsim.reporting.inspection import inspect_model
    from hetsim.reporting.tables.inspection import inspection_record, inspection_report

    invocation = current()
    hardware = None if platform is None else load_platform(platform)
    inspection = inspect_model(read_model(model, dims, shapes, canonical), hardware)
    if as_json:
        name = None if hardware is None else hardware.name
        invocation.show_json(inspection_record(inspection, name))
    else:
        invocation.show(inspection_report(inspection, wide=wide))
