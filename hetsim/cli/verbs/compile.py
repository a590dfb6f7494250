"""``hetsim compile``: a plan compiled to a folder that runs without the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from hetsim.cli.commands import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.common import verb_options
from hetsim.cli.options.question import (
    model_options,
    platform_options,
    precision_option,
    strategy_options,
)
from hetsim.cli.question import read_plan
from hetsim.core.text import fields
from hetsim.core.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hetsim.execution.compiled.manifest import Manifest
    from hetsim.execution.compiled.run import CompiledPlan, CompiledRun


@click.command(
    cls=Command,
    examples=(
        ("hetsim compile zoo:inception_v1 --platform rock-5b -o compiled",
         "Write the plan of heft as a folder; `hetsim run compiled` runs it."),
        ("hetsim compile plan.json -o compiled",
         "Compile a plan that --out saved."),
        ("hetsim compile zoo:resnet50 --platform laptop --execute gpu=fp16 -o half",
         "Compile a plan that is made for a GPU in fp16."),
    ),
)  # fmt: skip
@click.argument("source", metavar="MODEL|PLAN.json")
@platform_options
@strategy_options
@click.option(
    "-o",
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    required=True,
    help="Write the compiled plan to this new folder; `hetsim run DIR` runs it.",
)
@precision_option
@model_options
@verb_options
def compile(source: str, folder: Path, precision: Literal["graph", "device"]) -> None:
    """Compile a plan to a folder with one file for each subgraph, and one file of all weights.

    The argument is a model, which --strategy plans, or a saved plan.json. `hetsim run DIR` needs
    the folder alone. The folder is written completely or not at all.
    """
    from hetsim.execution.compiled.write import compile_plan
    from hetsim.partitioning.onnx_export import check_folder

    invocation = current()
    check_folder(folder)
    plan = read_plan(source)
    with invocation.progress(f"compiling {plan.strategy} to {folder}"):
        manifest = compile_plan(plan, folder, precision=precision)
    invocation.answer(
        lambda: manifest.model_dump(by_alias=True, mode="json"), lambda: _files_table(manifest)
    )
    if plan.problem.executed and precision == "graph":
        invocation.note(
            "the folder computes in the types of the model: --execute changes the plan alone"
        )
    invocation.note(f"wrote {folder}; run it with: hetsim run {folder}")


def compiled_run_record(compiled: CompiledPlan, run: CompiledRun) -> dict[str, Any]:
    """Return one run of a compiled plan but for its wall clock."""
    from hetsim.reporting.tables.plan import array_record

    return {
        "schema": "hetsim-compiled-run/1",
        "strategy": compiled.plan["strategy"],
        "precision": compiled.manifest.precision,
        "subgraphs": len(compiled.manifest.groups),
        **fields(run, "steps executor bitwise_equal tolerance not_compared mismatches"),
        "outputs": {name: array_record(array) for name, array in run.outputs.items()},
    }


def compiled_run_report(compiled: CompiledPlan, run: CompiledRun) -> RenderableType:
    """Return one run of a compiled plan: the device of each part, and the check of its outputs."""
    from hetsim.reporting.console import bold, pairs, stack
    from hetsim.reporting.formatting import count
    from hetsim.reporting.tables.plan import outputs_line

    rows = [
        ("strategy", str(compiled.plan["strategy"])),
        ("precision", compiled.manifest.precision),
        (
            "wall clock",
            f"{format_seconds(run.wall_s)} on {run.executor} in {count(run.steps, 'step')}, after "
            f"{format_seconds(run.compile_s)} to make the devices ready",
        ),
    ]
    precision = compiled.manifest.precision
    line = outputs_line(run.bitwise_equal, run.mismatches, run.tolerance, precision)
    if run.not_compared is not None:
        line += f" ({run.not_compared})"
    return stack(pairs(rows), _files_table(compiled.manifest), bold(line))


def _files_table(manifest: Manifest) -> RenderableType:
    """Table with one row per file: its subgraph, device and size."""
    from hetsim.reporting.console import table

    devices: Mapping[str, str] = {d.name: d.architecture for d in manifest.devices}
    rows = [
        (one.file, one.device, devices[one.device], format_bytes(one.nbytes), one.about)
        for one in manifest.files
    ]
    weights = manifest.weights
    if weights is not None:
        held = format_bytes(weights.nbytes)
        rows.append((weights.file, "all", "-", held, "weights, each once"))
    return table(("file", "device", "compiled for", "#size", "holds"), rows)
