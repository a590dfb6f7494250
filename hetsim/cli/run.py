"""``hetsim run``: one plan for real, on Ray actors or threads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from hetsim.cli.options import (
    common_options,
    files,
    json_option,
    model_options,
    output_options,
    platform_option,
    run_options,
)
from hetsim.cli.session import current
from hetsim.errors import UsageError

if TYPE_CHECKING:
    from hetsim.cli.question import Canonical


@click.command()
@click.argument("source", metavar="MODEL|PLAN.json")
@platform_option
@click.option(
    "--strategy", metavar="NAME", help="Strategy; `hetsim strategies` lists them.  [default: heft]"
)
@click.option(
    "--input",
    "inputs",
    metavar="NAME=FILE.npy",
    multiple=True,
    callback=files,
    help="Array for an input; without any, all are random. Repeatable.",
)
@run_options
@model_options
@output_options
@json_option
@common_options
def run(
    source: str,
    platform: str | None,
    strategy: str | None,
    inputs: dict[str, Path],
    executor: Literal["ray", "threads"],
    address: str | None,
    seed: int,
    timeout_s: float,
    precision: Literal["graph", "device"],
    dims: dict[str, int],
    shapes: dict[str, tuple[int, ...]],
    canonical: Canonical | None,
    trace: Path | None,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Run a plan for real and check that its outputs are those of the whole model.

    The argument is a model, which is planned for by --strategy, or a saved plan.json. The
    run ends with exit code 1 where an output differs in a single bit.
    """
    from hetsim.cli.execute import Executor, execute, read_arrays, require_equal
    from hetsim.cli.leave import check_targets, leave
    from hetsim.cli.question import read_plan
    from hetsim.reporting.plan_table import run_report
    from hetsim.reporting.result import run_record
    from hetsim.units import format_seconds

    session = current()
    if address is not None and executor != "ray":
        raise UsageError("--address needs --executor ray")
    check_targets(trace, out, force=force)
    arrays = read_arrays(inputs)
    plan = read_plan(source, platform, strategy, dims, shapes, canonical)
    done = execute(plan, Executor(executor, address, seed, timeout_s, precision), arrays or None)
    record = run_record(plan, done)
    leave(
        plan,
        done.timeline,
        record,
        trace=trace,
        out=out,
        force=force,
        seed=seed,
        measured={"wall_s": done.wall_s, "compile_s": done.compile_s},
    )
    if as_json:
        session.note(f"wall clock {format_seconds(done.wall_s)}")
        session.show_json(record)
    else:
        session.show(run_report(plan, done))
    require_equal(plan, done)
