"""Server results with round numbers, of no system."""

from __future__ import annotations

from dataclasses import replace

from catalog.fidelity.server.points import Alone, ServerPoint, ServerSystem

SYSTEM = ServerSystem(
    round="v1.0",
    submitter="Somebody",
    system="box",
    altered=False,
    chip="chip",
    unit="gpu",
    devices=1,
    network="resnet50",
    precision="int8",
    limit_s=0.015,
    server_per_s=1000.0,
    p99_s=0.014,
    offline_per_s=1500.0,
    alone_s=None,
    alone_of="",
)


def served(
    system: str,
    anchored_per_s: float | None,
    server_per_s: float = 1000.0,
    submitter: str = "Somebody",
    chip: str = "chip",
) -> ServerPoint:
    """A result of a system of this name, predicted by one rate."""
    of = replace(SYSTEM, system=system, server_per_s=server_per_s, submitter=submitter, chip=chip)
    return ServerPoint(
        of, "shape", anchored_per_s, 2, 4, anchored_per_s, None, None, Alone(900.0, 950.0)
    )
