"""Server results beside the rates that are predicted of them, a line each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from catalog.fidelity.lines import Lines, cell, figure
from catalog.fidelity.server.systems import ServerSystem


@dataclass(frozen=True, slots=True)
class Alone:
    """What the catalog alone says of a system: the rate within the limit, and that of bulk."""

    served_per_s: float
    bulk_per_s: float


@dataclass(frozen=True, slots=True)
class ServerPoint:
    """A system's Server result, predicted.

    Attributes
    ----------
    system : ServerSystem
        What was measured.
    basis : str
        What `anchored` rests on: ``system``, the system's Offline and SingleStream; ``chip``,
        SingleStream of others with its chip; ``shape``, Offline alone, at other sizes of batches as
        the catalog's device of the chip; ``near``, as a device near to it; ``rate``, Offline alone.
        Empty where there is no Offline.
    anchored_per_s : float or None
        The rate by times through these anchors.
    instances, batch : int
        By which it is: on each device, and the largest batch.
    no_shape_per_s : float or None
        The rate where nothing is known but Offline: a batch takes as long as its share of that.
    left_out, unseen, datasheet : Alone or None
        By the catalog alone, where the chip is in it: fitted without the device's rows of the
        network, without the network, without the chip.
    """

    system: ServerSystem
    basis: str
    anchored_per_s: float | None
    instances: int
    batch: int
    no_shape_per_s: float | None
    left_out: Alone | None
    unseen: Alone | None
    datasheet: Alone | None

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from others."""
        return self.system.key

    def off(self, rate_per_s: float | None) -> float | None:
        """How far a rate is above the measured one, as a share of that; below 0: below it."""
        return None if rate_per_s is None else rate_per_s / self.system.server_per_s - 1


_FILE = Lines("points of served rates", "make fidelity", (
    "round", "submitter", "system", "altered", "chip", "unit", "devices", "network", "precision",
    "limit_ms", "server_per_s", "p99_ms", "offline_per_s", "alone_ms", "alone_of",
    "basis", "anchored_per_s", "instances", "batch", "no_shape_per_s",
    "left_out_per_s", "left_out_bulk_per_s", "unseen_per_s", "unseen_bulk_per_s",
    "datasheet_per_s", "datasheet_bulk_per_s",
))  # fmt: skip


def server_text(points: Iterable[ServerPoint]) -> str:
    """Return the file of points, sorted by key: the same text for the same points."""
    return _FILE.text(_row(point) for point in sorted(points, key=lambda one: one.key))


def _row(point: ServerPoint) -> tuple[object, ...]:
    of = point.system
    return (
        of.round,
        of.submitter,
        of.system,
        "yes" if of.altered else "",
        of.chip,
        of.unit,
        of.devices,
        of.network,
        of.precision,
        cell(of.limit_s * 1e3),
        cell(of.server_per_s),
        cell(of.p99_s * 1e3),
        cell(of.offline_per_s),
        cell(None if of.alone_s is None else of.alone_s * 1e3),
        of.alone_of,
        point.basis,
        cell(point.anchored_per_s),
        point.instances,
        point.batch,
        cell(point.no_shape_per_s),
        *_cells(point.left_out),
        *_cells(point.unseen),
        *_cells(point.datasheet),
    )


def read_server(path: Path) -> list[ServerPoint]:
    """Read a file of points.

    Raises
    ------
    UsageError
        Where there is none, or it has other columns.
    """
    return [_point(line) for line in _FILE.read(path)]


def _point(line: dict[str, str]) -> ServerPoint:
    alone_ms = figure(line["alone_ms"])
    return ServerPoint(
        system=ServerSystem(
            round=line["round"],
            submitter=line["submitter"],
            system=line["system"],
            altered=bool(line["altered"]),
            chip=line["chip"],
            unit=line["unit"],
            devices=int(line["devices"]),
            network=line["network"],
            precision=line["precision"],
            limit_s=float(line["limit_ms"]) / 1e3,
            server_per_s=float(line["server_per_s"]),
            p99_s=float(line["p99_ms"]) / 1e3,
            offline_per_s=figure(line["offline_per_s"]),
            alone_s=None if alone_ms is None else alone_ms / 1e3,
            alone_of=line["alone_of"],
        ),
        basis=line["basis"],
        anchored_per_s=figure(line["anchored_per_s"]),
        instances=int(line["instances"]),
        batch=int(line["batch"]),
        no_shape_per_s=figure(line["no_shape_per_s"]),
        left_out=_alone(line, "left_out"),
        unseen=_alone(line, "unseen"),
        datasheet=_alone(line, "datasheet"),
    )


def _alone(line: dict[str, str], name: str) -> Alone | None:
    served = figure(line[f"{name}_per_s"])
    return None if served is None else Alone(served, float(line[f"{name}_bulk_per_s"]))


def _cells(alone: Alone | None) -> tuple[str, str]:
    return ("", "") if alone is None else (cell(alone.served_per_s), cell(alone.bulk_per_s))
