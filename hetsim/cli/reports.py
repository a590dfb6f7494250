"""Pages of answers under load (``--report``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any

from hetsim.cli.files import leave_report
from hetsim.cli.invocation import current
from hetsim.cli.load import LoadOptions, workload_of
from hetsim.core.text import plain

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hetsim.core.text import Record
    from hetsim.hardware.spec import Platform
    from hetsim.provisioning.instances.answer import Placement
    from hetsim.provisioning.platforms.answer import Recommendation
    from hetsim.provisioning.rates.answer import Capacity, SustainedRate
    from hetsim.simulation.service.resolution import Resolved
    from hetsim.simulation.service.service import Service
    from hetsim.workload.deployment import Deployment
    from hetsim.workload.workload import Workload

MOST_ROWS = 4
"""Maximum number of deployments shown at other rates: those with the highest rates."""

CHOSEN = "chosen"
"""Folder of a recommendation's files in commands, without --out."""

OF_SEARCH = (
    "--catalog", "--max-devices", "--objective", "--price", "--tariff", "--depreciation",
    "--survive", "--requests", "--samples", "--demand", "--certificate", "--out", "--speedup",
)  # fmt: skip
"""Options of a search for hardware that ``simulate`` lacks or reads from its answer."""

PLACED = "placed.yaml"
"""File of a placement in commands, without --out."""

OF_PLACING = ("--strategy", "--placements", "--batching", "--routing", "--out", "--speedup")
"""Options of a search for a placement that ``simulate`` lacks or reads from its answer."""

OUTAGES = ("--survive", "--availability", "--available")
"""Options about lost devices, which one simulation does not answer."""


def report_of_service(
    load: LoadOptions,
    service: Service,
    platform: Platform,
    record: Mapping[str, Any],
    printed: RenderableType,
) -> None:
    """Write the page of a simulated workload."""
    from hetsim.reporting.pages.rates import load_pictures

    from_file = load.workload is not None
    # A command has a factor on the file's rates, or the rate itself.
    workload = workload_of(replace(load, speedup=None if from_file else load.speedup))
    own = (load.speedup or 1.0) if from_file else 1.0

    def pictures() -> Record:
        row = _rates(
            workload, service.resolved, platform,
            from_file=from_file, gone=OUTAGES, own=own, answer=service,
        )  # fmt: skip
        return load_pictures([row])

    leave_report(record, pictures, lambda: printed)


def _with_service(report: RenderableType, service: Service | None) -> RenderableType:
    """Report of an answer, followed by that of its service."""
    from hetsim.reporting.console import stack
    from hetsim.reporting.tables.service import service_report

    return stack(report, None if service is None else service_report(service))


def report_of_capacity(
    load: LoadOptions,
    named: Mapping[str, Deployment],
    found: Capacity,
    platform: Platform,
    record: Mapping[str, Any],
) -> None:
    """Write the page of the highest rates."""
    from hetsim.reporting.pages.rates import MOST, load_pictures
    from hetsim.reporting.tables.capacity import capacity_report

    from_file = load.workload is not None
    workload = found.workload if from_file else replace(found.workload, requests=MOST // 2)

    def pictures() -> Record:
        rows = [
            _rates(
                workload,
                row.resolved,
                platform,
                from_file=from_file,
                options=_options(load, named, row),
                gone=("--strategy", "--batching", *OUTAGES),
                own=float(f"{_start(row):.4g}") / found.rate_per_s,
                name=row.name,
            )
            for row in [one for one in found.rows if one.resolved][:MOST_ROWS]
        ]
        return load_pictures(rows)

    leave_report(record, pictures, lambda: _with_service(capacity_report(found), found.best.at))


def _start(row: SustainedRate) -> float:
    """Start of the rate slider: the highest rate that meets, or half of the peak."""
    highest = row.highest_per_s
    return highest if 0 < highest < float("inf") else row.ceiling_per_s / 2


def _options(load: LoadOptions, named: Mapping[str, Deployment], row: SustainedRate) -> list[str]:
    """Options of ``simulate`` for the deployment of a row."""
    if load.deployment is not None:
        return []
    served = named[row.name].models[0]
    found = [] if load.plan is not None else ["--strategy", served.strategy]
    batching = served.dynamic_batching
    if batching is not None:
        found += ["--batching", f"{batching.max_batch_size}:{batching.max_queue_delay_us}us"]
    return found


def report_of_recommendation(
    found: Recommendation,
    comes: Workload,
    record: Mapping[str, Any],
    *,
    speedup: float | None,
    out: Path | None,
) -> None:
    """Write the page of the cheapest platform; `comes` is the workload of the file."""
    from hetsim.reporting.pages.views import front_picture
    from hetsim.reporting.tables.recommendation import recommendation_report

    best = found.best

    def pictures() -> Record:
        if best is None:
            return front_picture(found)
        folder = out or Path(CHOSEN)
        files = ["--platform", str(folder / "platform.yaml")]
        files += ["--deployment", str(folder / "deployment.yaml")]
        rates = _at_other_rates(
            comes, best.service, best.platform, speedup or 1.0, files, OF_SEARCH, folder,
            from_file=found.purchase is None,
        )  # fmt: skip
        return {**front_picture(found), **rates}

    service = None if best is None else best.service
    leave_report(record, pictures, lambda: _with_service(recommendation_report(found), service))


def report_of_placement(
    found: Placement, load: LoadOptions, record: Mapping[str, Any], *, out: Path | None
) -> None:
    """Write the page of a placement."""
    from hetsim.reporting.tables.placement import place_report

    service = found.rows[0].service if found.rows else None

    def pictures() -> Record:
        if service is None:
            return {}
        comes = workload_of(replace(load, speedup=None))
        file = out or Path(PLACED)
        return _at_other_rates(
            comes, service, found.platform, load.speedup or 1.0,
            ["--deployment", str(file)], OF_PLACING, file,
        )  # fmt: skip

    leave_report(record, pictures, lambda: _with_service(place_report(found), service))


def _at_other_rates(
    comes: Workload,
    service: Service,
    platform: Platform,
    start: float,
    files: Sequence[str],
    gone: Sequence[str],
    out: Path,
    *,
    from_file: bool = True,
) -> Record:
    """Picture of an answer at other rates, with the command that writes its files."""
    from hetsim.reporting.pages.rates import load_pictures, without

    row = _rates(
        comes, service.resolved, platform,
        from_file=from_file, options=files, gone=gone, own=start, answer=service,
    )  # fmt: skip
    row["leave"] = plain(join([*without(current().command, "recommend"), "--out", str(out)]))
    return load_pictures([row])


def _rates(
    workload: Workload, resolved: Sequence[Resolved], platform: Platform, **about: Any
) -> Record:
    """Picture of one deployment at other rates, each with its command."""
    from hetsim.reporting.pages.rates import rates_picture

    command = current().command
    with current().progress("simulating other rates") as tell:
        return rates_picture(command, "simulate", workload, resolved, platform, tell=tell, **about)
