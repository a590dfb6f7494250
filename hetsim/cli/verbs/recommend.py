"""``hetsim recommend``: the cheapest platform that meets every objective of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetsim.cli.commands import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.common import common_options, force_option, json_option, report_option
from hetsim.cli.options.load import recommend_options
from hetsim.cli.options.question import contention_option, cost_option, pessimistic_option

if TYPE_CHECKING:
    from hetsim.hardware.price import Price
    from hetsim.provisioning.platforms.question import Aim


@click.command(
    cls=Command,
    examples=(
        ("hetsim recommend --workload workload.yaml --catalog catalog.yaml",
         "Which devices of the catalog serve the workload at the least cost?"),
        ("hetsim recommend --workload workload.yaml --catalog rock-5b,laptop",
         "Which of two platforms, and how many of each?"),
        ("hetsim recommend --workload workload.yaml --catalog rock-5b --survive 1",
         "The same with one device out of order."),
    ),
)  # fmt: skip
@click.option(
    "--catalog",
    required=True,
    metavar="FILE|NAME,...",
    help="What can be had: a YAML file, or names of boards and devices with commas between.",
)
@click.option(
    "--max-devices",
    type=click.IntRange(min=1, max=1024),
    default=8,
    show_default=True,
    help="How many there are at most, hosts not counted.",
)
@click.option(
    "--objective",
    "aim",
    type=click.Choice(["cost", "energy", "devices"]),
    default="cost",
    show_default=True,
    help="What is to be least: US dollars an hour, watts where all devices are busy, or devices.",
)
@recommend_options
@click.option(
    "--requests",
    type=click.IntRange(min=1),
    help="After how many drawn ones a run ends undecided.  [default: 262144]",
)
@click.option(
    "--samples",
    "draws",
    type=click.IntRange(min=0, max=100_000),
    help="Monte Carlo samples of what figures may be off by, in which the answer and what is near "
    "it are asked again; 0: none.  [default: up to 30, of the answer alone]",
)
@click.option(
    "--demand",
    metavar="FACTOR,...",
    help="The same for what comes: 0.8,1,1.3 (weighed 30, 40, 30), or 0.8:0.2,1:0.5,1.3:0.3.",
)
@contention_option
@cost_option
@pessimistic_option
@click.option(
    "--certificate",
    "certificate_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write what proves the answer, for `hetsim verify`.",
)
@click.option(
    "--out",
    "out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write platform.yaml, deployment.yaml and result.json to a new folder.",
)
@report_option
@force_option("Let --certificate, --out and --report replace such files.")
@json_option
@common_options
def recommend(
    catalog: str,
    max_devices: int,
    aim: Aim,
    workload: str | None,
    faster: float | None,
    prices: Mapping[str, Price],
    tariff: float | None,
    lifetime: float | None,
    survive: int | None,
    requests: int | None,
    draws: int | None,
    demand: str | None,
    certificate_file: Path | None,
    out: Path | None,
) -> None:
    """Find the cheapest platform of a catalog that meets every objective of --workload.

    What costs less is excluded by a bound, or by runs of each of a few stated policies; what
    no run tells is named as undecided. `hetsim devices` lists boards and devices; a catalog
    file says which links, hosts, numbers and prices they have.
    """
    from hetsim.cli.files import check_targets
    from hetsim.cli.reports import report_of_recommendation
    from hetsim.cost import DEFAULT_COST
    from hetsim.errors import UsageError
    from hetsim.provisioning.platforms.catalog import load_catalog
    from hetsim.provisioning.platforms.certificate import certificate, digests_of
    from hetsim.provisioning.platforms.doubt import AS_SAID, demand_of_text
    from hetsim.provisioning.platforms.recommend import recommended
    from hetsim.provisioning.platforms.search import BUDGET
    from hetsim.reporting.output import check_file, write_file
    from hetsim.reporting.tables.recommendation import recommendation_record, recommendation_report
    from hetsim.simulation.service.cost import Prices
    from hetsim.simulation.service.resolution import Asked
    from hetsim.workload.files.reader import load_workload

    invocation = current()
    if workload is None:
        raise UsageError("no workload is given", hint="give --workload FILE")
    if certificate_file is not None:
        check_file(certificate_file, force=invocation.force, option="--certificate")
    if certificate_file is not None and faster is not None:
        raise UsageError(
            "--certificate speaks of the workload as its file says it, and --faster is given",
            hint="write the rate there",
        )
    force = invocation.force
    check_targets(out)
    factors = AS_SAID if demand is None else demand_of_text(demand)
    as_said = load_workload(workload)
    comes = as_said if faster is None else as_said.faster(faster)
    can_be_had = load_catalog(catalog)
    asked = Asked(
        contention=invocation.contention or "fifo",
        cost=invocation.cost or DEFAULT_COST,
        pessimistic=invocation.pessimistic,
    )
    with invocation.progress("looking for the cheapest platform"):
        found = recommended(
            comes,
            can_be_had,
            aim=aim,
            max_devices=max_devices,
            terms=Prices(prices, tariff, lifetime),
            asked=asked,
            budget=requests or BUDGET,
            samples=draws,
            demand=factors,
            losses=survive or 0,
        )
    record = recommendation_record(found)
    if certificate_file is not None:
        files = {"workload": workload, **({"catalog": catalog} if can_be_had.sha256 else {})}
        digests = digests_of(files, found.found.question.models)
        text = certificate(found.found, comes, digests)
        write_file(certificate_file, text, force=force, option="--certificate")
        invocation.note(f"wrote {certificate_file}")
    if out is not None:
        _leave(record, out, force=force)
    report_of_recommendation(
        found, as_said, record, faster=faster, out=out, budget=requests or BUDGET
    )
    invocation.answer(lambda: record, lambda: recommendation_report(found))
    found.require()


def _leave(record: Mapping[str, Any], out: Path, *, force: bool) -> None:
    """Write the folder with the platform and the deployment, which ``simulate`` takes."""
    import yaml

    from hetsim.core.text import to_json
    from hetsim.reporting.output import write_folder

    made = {"result.json": to_json(record)}
    if record["answer"] is not None:
        for part in ("platform", "deployment"):
            made[f"{part}.yaml"] = yaml.safe_dump(
                record["answer"][part], sort_keys=False, width=100, allow_unicode=True
            )
    write_folder(out, made, force=force)
    current().note(f"wrote {', '.join(made)} to {out}")
