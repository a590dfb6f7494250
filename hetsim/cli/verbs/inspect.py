"""``hetsim inspect``: what a model is made of, and who supports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hetsim.cli.commands import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.common import common_options, json_option, wide_option
from hetsim.cli.options.question import model_options, platform_options
from hetsim.errors import UsageError

if TYPE_CHECKING:
    pass


@click.command(
    cls=Command,
    examples=(
        ("hetsim inspect zoo:resnet50",
         "Which ops, FLOPs, bytes and parameters does the model have?"),
        ("hetsim inspect zoo:bert_small --platform rock-5b",
         "Which device supports which op, and why do the others not?"),
        ("hetsim inspect model.onnx --dim batch=8 --platform laptop",
         "The same of one's own model at batch size 8."),
    ),
)  # fmt: skip
@click.argument("model")
@model_options
@platform_options
@wide_option
@json_option
@common_options
def inspect(
    model: str,
    wide: bool,
) -> None:
    """Show what MODEL is made of: ops, FLOPs, bytes, parameters, inputs, outputs.

    With --platform, show for each op type which devices support it, and why the others
    do not.
    """
    from hetsim.cli.question import read_model, read_platform
    from hetsim.hardware.variants import platform_executing
    from hetsim.problem.of_model import platform_as_asked
    from hetsim.reporting.tables.inspection import (
        inspect_model,
        inspection_record,
        inspection_report,
    )

    invocation = current()
    hardware = None if invocation.platform is None else read_platform()
    if hardware is None:
        for option, given in (
            ("--execute", invocation.execute),
            ("--what-if", invocation.changes),
            ("--without", invocation.without),
        ):
            if given:
                raise UsageError(
                    f"{option} names devices of a platform", hint="give --platform, too"
                )
    if hardware is not None:
        platform_executing(hardware, invocation.execute)
    read = read_model(model)
    if hardware is not None:
        hardware = platform_as_asked(read, hardware, invocation.execute)
    inspection = inspect_model(read, hardware)
    invocation.answer(
        lambda: inspection_record(inspection, hardware),
        lambda: inspection_report(inspection, wide=wide),
    )
