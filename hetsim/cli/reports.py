"""``--report`` of answers under load: what a page's pictures are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any

from hetsim.cli.invocation import current
from hetsim.cli.load import Load, workload_of
from hetsim.cli.trace_and_out import leave_report

if TYPE_CHECKING:
    from hetsim.core.text import Record
    from hetsim.execution.serving.load_test import LoadTest
    from hetsim.hardware.spec import Platform
    from hetsim.provisioning.instances.answer import Placement
    from hetsim.provisioning.platforms.answer import Recommendation
    from hetsim.provisioning.rates.answer import Capacity, Carried
    from hetsim.simulation.service.service import Service
    from hetsim.sweeping.verb import Swept
    from hetsim.workload.deployment import Deployment
    from hetsim.workload.workload import Workload

MOST_ROWS = 4
"""Deployments of a capacity that a page shows at other rates, those that carry most."""

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
    platform: Platform,
    record: Mapping[str, Any],
    report: Path,
    *,
    force: bool,
) -> None:
    """Write the page of a workload that was simulated."""
    from hetsim.reporting.pages.islands.service import service_island
    from hetsim.reporting.pages.rates import rates_picture

    invocation = current()
    from_file = load.workload is not None
    start = load.faster or 1.0
    # A command says a factor on the file, or the rate itself.
    workload = workload_of(replace(load, faster=None if from_file else load.faster))
    with invocation.progress("playing other rates") as tell:
        row = rates_picture(
            invocation.command,
            "simulate",
            workload,
            service.resolved,
            platform,
            from_file=from_file,
            gone=OUTAGES,
            own=start if from_file else 1.0,
            tell=tell,
        )
    pictures = {"rates": [row], "timeline": _requests(service)}
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

    pictures = {"timeline": _requests(found.measured, found.simulated)}
    leave_report(
        lambda read, command: load_test_island(read, command, pictures),
        record,
        report,
        force=force,
    )


def _requests(service: Service, simulated: Service | None = None) -> list[Record]:
    """The requests that were kept, as timelines; none where none were."""
    from hetsim.reporting.pages.timeline_of_trace import timelines_of_requests
    from hetsim.reporting.service_trace import service_trace

    if service.kept is None:
        return []
    return timelines_of_requests(service_trace(service, simulated))


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
    from hetsim.reporting.pages.islands.capacity import capacity_island
    from hetsim.reporting.pages.rates import MOST, rates_picture, short

    invocation = current()
    from_file = load.workload is not None
    workload = found.workload
    if not from_file:
        workload = replace(workload, requests=MOST // 2)
    rows = []
    with invocation.progress("playing other rates") as tell:
        for row in [one for one in found.rows if one.resolved][:MOST_ROWS]:
            picture = rates_picture(
                invocation.command,
                "simulate",
                workload,
                row.resolved,
                platform,
                from_file=from_file,
                options=_options(load, named, row),
                gone=("--strategy", "--batching", *OUTAGES),
                own=short(_start(row) / found.rate_per_s),
                name=row.name,
                tell=tell,
            )
            rows.append(picture)
    leave_report(
        lambda read, command: capacity_island(read, command, {"rates": rows}),
        record,
        report,
        force=force,
    )


def _start(row: Carried) -> float:
    """Rate at which the slider starts: the highest that meets, or half of the ceiling."""
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
    from hetsim.reporting.pages.islands.recommendation import recommendation_island
    from hetsim.reporting.pages.vectors import vectors_picture

    invocation = current()
    with invocation.progress("trying platforms for other prices") as tell:
        picture = vectors_picture(found, budget=budget, tell=tell)
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
    """Requests of the cheapest platform at other rates; nothing where there is none."""
    best = found.best
    if best is None:
        return {}
    folder = out or Path(CHOSEN)
    files = ["--platform", str(folder / "platform.yaml")]
    files += ["--deployment", str(folder / "deployment.yaml")]
    rates = _at_other_rates("recommend", comes, best.service, best.platform, start, files,
                            OF_SEARCH, folder)  # fmt: skip
    return {"rates": [rates]}


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
    from hetsim.reporting.pages.islands.place import place_island

    pictures: Record = {}
    service = found.rows[0].service if found.rows else None
    if service is not None:
        comes = workload_of(replace(load, faster=None))
        file = out or Path(PLACED)
        row = _at_other_rates(
            "place", comes, service, found.platform, load.faster or 1.0,
            ["--deployment", str(file)], OF_PLACING, file,
        )  # fmt: skip
        pictures = {"rates": [row]}
    leave_report(
        lambda read, command: place_island(read, command, pictures), record, report, force=force
    )


def _at_other_rates(
    verb: str,
    comes: Workload,
    service: Service,
    platform: Platform,
    start: float,
    files: Sequence[str],
    gone: Sequence[str],
    out: Path,
) -> Record:
    """Requests of an answer at other rates, and the command that leaves the answer's files."""
    from hetsim.core.text import plain
    from hetsim.reporting.pages.commands import without
    from hetsim.reporting.pages.rates import rates_picture

    invocation = current()
    with invocation.progress("playing other rates") as tell:
        row = rates_picture(
            invocation.command,
            "simulate",
            comes,
            service.resolved,
            platform,
            from_file=True,
            options=files,
            gone=gone,
            own=start,
            tell=tell,
        )
    row["leave"] = plain(join([*without(invocation.command, verb), "--out", str(out)]))
    return row


def report_of_sweep(found: Swept, report: Path, *, force: bool) -> None:
    """Write the page of a grid's points."""
    from hetsim.reporting.pages.islands.sweep import rows_picture, sweep_island
    from hetsim.reporting.tables.sweep import sweep_record

    picture = rows_picture(found.rows, [wish.column for wish in found.wishes])
    leave_report(
        lambda read, command: sweep_island(read, command, {"points": picture}),
        sweep_record(found),
        report,
        force=force,
    )
