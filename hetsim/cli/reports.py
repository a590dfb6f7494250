"""``--report`` of answers under load: what a page's pictures and sliders are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetsim.cli.invocation import current
from hetsim.cli.load import Load, workload_of
from hetsim.cli.trace_and_out import leave_report

if TYPE_CHECKING:
    from hetsim.base.text import Record
    from hetsim.execution.serving.load_test import LoadTest
    from hetsim.hardware.spec import Platform
    from hetsim.placing.answer import Placement
    from hetsim.recommending.answer import Recommendation
    from hetsim.service.cost import Cost
    from hetsim.service.service import Service
    from hetsim.sizing.answer import Capacity, Carried
    from hetsim.sweeping.verb import Swept
    from hetsim.workloads.deployment import Deployment
    from hetsim.workloads.workload import Workload

MOST_ROWS = 4
"""Deployments of a capacity that a page plays again, those that carry most."""

CHOSEN = "chosen"
"""The folder of a recommendation's files in commands, where none was named."""

OF_SEARCH = (
    "--catalog", "--max-devices", "--objective", "--price", "--tariff", "--lifetime", "--survive",
    "--requests", "--draws", "--demand", "--certificate", "--out", "--faster",
)  # fmt: skip
"""Options of ``recommend`` that ``simulate`` does not have of its answer."""

PLACED = "placed.yaml"
"""The file of a placement in commands, where none was named."""

OF_PLACING = ("--strategy", "--placements", "--batching", "--routing", "--out", "--faster")
"""Options of ``place`` that ``simulate`` does not have of its answer."""

OUTAGES = ("--survive", "--availability", "--available")
"""Options that ask more of a deployment than one run says."""


def report_of_service(
    load: Load,
    service: Service,
    cost: Cost,
    platform: Platform,
    record: Mapping[str, Any],
    report: Path,
    *,
    force: bool,
) -> None:
    """Write the page of a workload that was played."""
    from hetsim.reporting.pages.answers.served import served_pictures, together
    from hetsim.reporting.pages.islands.service import service_island

    invocation = current()
    from_file = load.workload is not None
    start = load.faster or 1.0
    # A command says a factor on the file, or the rate itself.
    workload = workload_of(replace(load, faster=None if from_file else load.faster))
    with invocation.progress("playing other rates") as tell:
        row = served_pictures(
            invocation.command,
            "simulate",
            workload,
            service.resolved,
            platform,
            from_file=from_file,
            gone=OUTAGES,
            own=(start,) if from_file else (1.0,),
            start=start if from_file else 1.0,
            tell=tell,
        )
    row["hourly_usd"] = _hourly_usd(cost)
    row["devices"] = [] if load.plan is not None else list(platform.devices)
    pictures = {**together([row]), "timelines": _requests(service)}
    leave_report(
        lambda read, command: service_island(read, command, pictures),
        record,
        report,
        force=force,
    )


def report_of_load_test(
    found: LoadTest, record: Mapping[str, Any], report: Path, *, force: bool
) -> None:
    """Write the page of a workload that was served for real."""
    from hetsim.reporting.pages.islands.load_test import load_test_island

    pictures = {"timelines": _requests(found.measured, found.simulated)}
    leave_report(
        lambda read, command: load_test_island(read, command, pictures),
        record,
        report,
        force=force,
    )


def _requests(service: Service, simulated: Service | None = None) -> list[Record]:
    """The requests that were kept, as timelines; none where none were."""
    from hetsim.reporting.pages.pictures.of_requests import timelines_of_requests
    from hetsim.reporting.service_trace import service_trace

    if service.kept is None:
        return []
    return timelines_of_requests(service_trace(service, simulated))


def _hourly_usd(cost: Cost) -> float | None:
    """What all of it costs an hour, where it is rented."""
    if cost.unpriced or not all(one.price.rented for one in cost.charges):
        return None
    return sum(one.hourly_usd or 0.0 for one in cost.charges) or None


def report_of_capacity(
    load: Load,
    named: Mapping[str, Deployment],
    found: Capacity,
    platform: Platform,
    record: Mapping[str, Any],
    report: Path,
    *,
    force: bool,
) -> None:
    """Write the page of which rates a platform carries."""
    from hetsim.reporting.pages.answers.commands import without
    from hetsim.reporting.pages.answers.load import MOST
    from hetsim.reporting.pages.answers.served import served_pictures, together
    from hetsim.reporting.pages.islands.capacity import capacity_island
    from hetsim.reporting.pages.pictures.curve import short

    invocation = current()
    from_file = load.workload is not None
    workload = found.workload
    if not from_file:
        workload = replace(workload, requests=MOST // 2)
    rows = []
    with invocation.progress("playing other rates") as tell:
        for row in [one for one in found.rows if one.resolved][:MOST_ROWS]:
            start = short(_start(row) / found.rate_per_s)
            picture = served_pictures(
                invocation.command,
                "simulate",
                workload,
                row.resolved,
                platform,
                from_file=from_file,
                options=_options(load, named, row),
                gone=("--strategy", "--batching", *OUTAGES),
                own=(start,),
                start=start,
                name=row.name,
                tell=tell,
            )
            picture["devices"] = [] if load.plan is not None else list(platform.devices)
            picture["capacity"] = without(invocation.command, "capacity", ("--target-rate",))
            rows.append(picture)
    leave_report(
        lambda read, command: capacity_island(read, command, together(rows)),
        record,
        report,
        force=force,
    )


def _start(row: Carried) -> float:
    """The rate that sliders begin at: the highest that meets, or half of the ceiling."""
    highest = row.highest_per_s
    return highest if 0 < highest < float("inf") else row.ceiling_per_s / 2


def _options(load: Load, named: Mapping[str, Deployment], row: Carried) -> list[str]:
    """The options of ``simulate`` that serve a row as it was served."""
    if load.deployment is not None:
        return []
    served = named[row.name].models[0]
    found = [] if load.plan is not None else ["--strategy", served.strategy]
    batching = served.dynamic_batching
    if batching is not None:
        found += ["--batching", f"{batching.max_batch_size}:{batching.max_queue_delay_us}"]
    return found


def report_of_recommendation(
    found: Recommendation,
    comes: Workload,
    record: Mapping[str, Any],
    report: Path,
    *,
    faster: float | None,
    out: Path | None,
    budget: int,
    force: bool,
) -> None:
    """Write the page of the cheapest platform; `comes` is the workload as its file says it."""
    from hetsim.reporting.pages.answers.vectors import vectors_picture
    from hetsim.reporting.pages.islands.recommendation import recommendation_island

    invocation = current()
    with invocation.progress("trying platforms for other prices") as tell:
        picture = vectors_picture(found, invocation.command, budget=budget, tell=tell)
    pictures = {"vectors": picture, **_answer_at_other_rates(found, comes, faster or 1.0, out)}
    leave_report(
        lambda read, command: recommendation_island(read, command, pictures),
        record,
        report,
        force=force,
    )


def _answer_at_other_rates(
    found: Recommendation, comes: Workload, start: float, out: Path | None
) -> Record:
    """What sliders play of the cheapest platform's requests."""
    from hetsim.reporting.pages.answers.served import together

    best = found.best
    if best is None:
        return {}
    folder = out or Path(CHOSEN)
    files = ["--platform", str(folder / "platform.yaml")]
    files += ["--deployment", str(folder / "deployment.yaml")]
    row = _sought_at_other_rates(
        "recommend", comes, best.service, best.platform, start, files, OF_SEARCH, folder
    )
    return together([row | {"devices": []}])


def report_of_placement(
    found: Placement,
    load: Load,
    record: Mapping[str, Any],
    report: Path,
    *,
    out: Path | None,
    force: bool,
) -> None:
    """Write the page of where models are placed."""
    from hetsim.reporting.pages.answers.served import together
    from hetsim.reporting.pages.islands.place import place_island

    pictures: Record = {}
    service = found.rows[0].service if found.rows else None
    if service is not None:
        comes = workload_of(replace(load, faster=None))
        file = out or Path(PLACED)
        row = _sought_at_other_rates(
            "place", comes, service, found.platform, load.faster or 1.0,
            ["--deployment", str(file)], OF_PLACING, file,
        )  # fmt: skip
        row["hourly_usd"] = None
        row["devices"] = list(found.platform.devices)
        row["most_per_s"] = found.bound * found.rate_per_s
        pictures = together([row])
    leave_report(
        lambda read, command: place_island(read, command, pictures), record, report, force=force
    )


def _sought_at_other_rates(
    verb: str,
    comes: Workload,
    service: Service,
    platform: Platform,
    start: float,
    files: Sequence[str],
    gone: Sequence[str],
    out: Path,
) -> Record:
    """What sliders play of an answer's requests, and the search that tells whether it stays."""
    from hetsim.reporting.pages.answers.commands import without
    from hetsim.reporting.pages.answers.served import served_pictures

    invocation = current()
    with invocation.progress("playing other rates") as tell:
        row = served_pictures(
            invocation.command,
            "simulate",
            comes,
            service.resolved,
            platform,
            from_file=True,
            options=files,
            gone=gone,
            own=(start,),
            start=start,
            tell=tell,
        )
    row["search"] = without(invocation.command, verb, ("--faster", "--out"))
    row["leave"] = [*without(invocation.command, verb), "--out", str(out)]
    return row


def report_of_sweep(found: Swept, report: Path, *, force: bool) -> None:
    """Write the page of a grid's points."""
    from hetsim.reporting.pages.islands.sweep import rows_picture, sweep_island
    from hetsim.reporting.tables.sweep import sweep_record

    picture = rows_picture(found.rows)
    leave_report(
        lambda read, command: sweep_island(read, command, {"rows": picture}),
        sweep_record(found),
        report,
        force=force,
    )
