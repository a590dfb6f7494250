"""``hetsim calibrate``: figures of the machine at hand, measured."""

from __future__ import annotations

import re
from pathlib import Path

import click

from hetsim.cli.commands import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.common import common_options, json_option
from hetsim.errors import UsageError

_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|min)?")
_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _budget(ctx: click.Context, param: click.Parameter, given: str) -> float:
    found = _BUDGET.fullmatch(given)
    if found is None or float(found[1]) <= 0:
        raise click.BadParameter(f"'{given}' is no time, e.g. 90s, 5m or 1h", ctx, param)
    return float(found[1]) * _SECONDS[found[2]]


@click.command(cls=Command)
@click.argument("provider", metavar="[PROVIDER]", default="")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Device file to write; what is measured goes to a journal beside it.",
)
@click.option(
    "--budget",
    default="10m",
    show_default=True,
    callback=_budget,
    metavar="TIME",
    help="For measuring, e.g. 5m; run again, it goes on where it ended.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="That one kernel is spread over.",
)
@click.option(
    "--networks",
    type=click.IntRange(min=1),
    help="Generated networks to measure at most; absent: as many as the budget is for.",
)
@click.option(
    "--judge",
    "models",
    multiple=True,
    metavar="NAME",
    help="Zoo model to judge by, repeatable; absent: all.",
)
@json_option
@common_options
def calibrate(
    provider: str,
    output: Path | None,
    budget: float,
    threads: int,
    networks: int | None,
    models: tuple[str, ...],
) -> None:
    """Measure this machine through ONNX Runtime, and write its device file.

    PROVIDER is an execution provider, such as cpu, cuda or openvino; without one, those that
    the installed onnxruntime has are listed. Generated networks are measured, the parameters of
    the cost model fitted to them, and judged by zoo models. Stop what else runs meanwhile.
    """
    from hetsim.cost.calibration.calibrate import calibrate as measure_and_fit
    from hetsim.cost.calibration.measuring import Progress
    from hetsim.device.kernels.timing import PROVIDERS, available, check_provider
    from hetsim.reporting.tables.comparison import names_table
    from hetsim.reporting.tables.devices import calibration_record, calibration_report

    invocation = current()
    if not provider:
        there = available()
        invocation.answer(
            lambda: {
                "schema": "hetsim-calibrate-providers/1",
                "providers": [
                    {"name": name, "there": name in there, "install": package}
                    for name, (_, package) in PROVIDERS.items()
                ],
            },
            lambda: names_table(
                ("provider", "of ONNX Runtime", "here"),
                (
                    (name, of_runtime, "there" if name in there else f"install {package}")
                    for name, (of_runtime, package) in PROVIDERS.items()
                ),
            ),
        )
        return
    check_provider(provider)
    if output is None:
        raise UsageError("nowhere to write to", hint=f"give -o my-{provider}.yaml")
    with invocation.progress("measuring") as show:

        def report(progress: Progress) -> None:
            told = f"{progress.network}, {progress.measured} measured"
            show(told, left_s=progress.left_s or None)

        done = measure_and_fit(
            provider,
            output,
            threads=threads,
            budget_s=budget,
            networks=networks,
            models=models or None,
            report=report,
        )
    invocation.answer(lambda: calibration_record(done), lambda: calibration_report(done))
    if not invocation.as_json:
        invocation.note(
            f"use it: hetsim simulate zoo:resnet50 --platform {done.output} --strategy single"
        )
