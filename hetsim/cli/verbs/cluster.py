"""``hetsim cluster``: check of a Ray cluster before a run: one node for each device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from hetsim.cli.commands import Family
from hetsim.cli.invocation import current
from hetsim.cli.options.common import common_options, verb_options
from hetsim.cli.options.question import platform_option
from hetsim.core.text import records
from hetsim.errors import HetsimError, Infeasible, InvalidInput, PlatformError, UsageError, nearest

if TYPE_CHECKING:
    from hetsim.execution.cluster import Seat
    from hetsim.execution.transports.live_cluster import LiveCluster
    from hetsim.hardware.spec import Platform


@click.group(
    cls=Family,
    examples=(
        ("hetsim cluster check cluster.yaml --platform rock-5b",
         "Does the cluster file have a node for each device?"),
        ("hetsim cluster check --address auto --platform rock-5b",
         "Does the live cluster have one, with the right versions?"),
        ("hetsim cluster check --address auto --platform rock-5b --measure",
         "How fast are transfers between its nodes?"),
    ),
)  # fmt: skip
@common_options
def cluster() -> None:
    """Check the Ray cluster that runs use."""


@cluster.command("check")
@click.argument("file", metavar="[FILE]", required=False)
@platform_option
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="Check this live Ray cluster, too; 'auto': the one of this machine.",
)
@click.option("--measure", is_flag=True, help="Measure transfers between the nodes of the devices.")
@verb_options
def check(file: str | None, address: str | None, measure: bool) -> None:
    """Check that each device of --platform has a node, in a cluster FILE or a live cluster.

    FILE is the YAML of `ray up`; reading it needs no Ray. Of a live cluster, the versions on each
    node are checked, too. Exit code 3: the file is wrong, or a run would refuse the versions of a
    node; 4: a device has no node.
    """
    if file is None and address is None:
        raise UsageError("FILE is missing", hint="give a cluster file, --address, or both")
    invocation = current()
    platform = invocation.platform
    if measure and (address is None or platform is None):
        raise UsageError("--measure needs --address and --platform", hint="give both")
    from hetsim.execution.transports.ray_health import split_address
    from hetsim.hardware.catalog import load_platform

    if address is not None and address != "auto":
        split_address(address)
    spec = None if platform is None else load_platform(platform)
    devices = None if spec is None else tuple(spec.devices)
    record: dict[str, Any] = {"schema": "hetsim-cluster/1", "platform": platform}
    where, live = file, None
    seats: tuple[Seat, ...] = ()
    if file is not None:
        seats = _check_file(file, devices, record)
    if address is not None:
        live = _check_live(address, devices, record)
        # The cluster itself checks what its file states or leaves open.
        where, seats = f"Ray at {address}", live.seats
    fault = _fault(where or "", seats, live)
    if measure and address is not None and spec is not None and fault is None:
        _measure(address, spec, record)
    if invocation.as_json:
        invocation.show_json(record)
    if fault is not None:
        raise fault


def _fault(where: str, seats: Sequence[Seat], live: LiveCluster | None) -> HetsimError | None:
    from hetsim.execution.cluster import refuse_unserved

    refused = _version_faults(live)
    if refused:
        return InvalidInput(refused, where=where, hint="install the same versions as here")
    try:
        refuse_unserved(seats, where)
    except Infeasible as unserved:
        return unserved
    return None


def _check_file(
    file: str, devices: tuple[str, ...] | None, record: dict[str, Any]
) -> tuple[Seat, ...]:
    from hetsim.execution.cluster import read_cluster_file, seats_of_file, unknown_devices
    from hetsim.reporting.formatting import count, errors_record
    from hetsim.reporting.tables.cluster import file_record, file_report

    invocation = current()
    found, errors = read_cluster_file(file)
    if found is None:
        if errors[0].missing:
            raise errors[0]
        if invocation.as_json:
            record["file"] = {"file": file, "errors": errors_record(errors)}
            invocation.show_json(record)
        else:
            for error in errors:
                invocation.say(str(error))
        raise PlatformError(f"{count(len(errors), 'fault')} in the cluster file", where=file)
    seats = seats_of_file(found, devices)
    for kind, device in () if devices is None else unknown_devices(found, devices):
        invocation.note(
            f"{file}: node type '{kind}' stands for '{device}', which the platform does not have; "
            f"{nearest(device, devices or ())}"
        )
    about = {**file_record(found, seats), "errors": []}
    invocation.add(record, "file", about, file_report(found, seats), apart=False)
    return seats


def _check_live(
    address: str, devices: tuple[str, ...] | None, record: dict[str, Any]
) -> LiveCluster:
    from hetsim.execution.transports.live_cluster import look_at
    from hetsim.reporting.tables.cluster import live_record, live_report

    invocation = current()
    with invocation.progress(f"asking the nodes of the Ray at {address}"):
        live = look_at(address, devices)
    invocation.add(record, "live", live_record(live), live_report(live), apart=False)
    return live


def _version_faults(live: LiveCluster | None) -> str:
    """Return the reason for which a run would refuse nodes of devices, or an empty string."""
    if live is None:
        return ""
    wanted = {node for seat in live.seats for node in seat.nodes}
    faults = []
    for report in live.nodes:
        if report.usable or not report.node.alive or (wanted and report.node.id not in wanted):
            continue
        said = report.failure or "; ".join(
            str(entry) for entry in report.differences if entry.refused
        )
        faults.append(f"node {report.node.id[:8]} ({report.node.ip}): {said}")
    return "; ".join(faults)


def _measure(address: str, platform: Platform, record: dict[str, Any]) -> None:
    from hetsim.execution.transports.live_cluster import measure_links
    from hetsim.reporting.tables.cluster import transfers_report

    invocation = current()
    with invocation.progress("timing transfers"):
        transfers = measure_links(address, platform)
    report = transfers_report(transfers)
    invocation.add(record, "transfers", records(transfers), report, apart=False)
