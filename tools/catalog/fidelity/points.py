"""What was measured on devices of the catalog beside what is predicted, a line a point."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from catalog.fidelity.lines import Lines, cell, figure

Key = tuple[str, str, str, int]
K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Predicted:
    """A prediction: 80 % are to be between `seconds` over and times `within`."""

    seconds: float
    within: float

    def covers(self, seconds: float) -> bool:
        """Whether a time is inside the interval."""
        return abs(math.log(seconds / self.seconds)) <= math.log(self.within)

    def error(self, seconds: float) -> float:
        """How far it is from a measured time, as a share of that."""
        return abs(self.seconds / seconds - 1)


@dataclass(frozen=True, slots=True)
class FidelityPoint:
    """A network at a batch on a device of the catalog in one precision.

    Attributes
    ----------
    device : str
        Name in the catalog; with ``:ncnn`` behind it, by that other runtime.
    precision : str
        Of the figures that price it.
    network : str
        Name of the graph, without its ending.
    batch : int
    kin : str
        Of the figures.
    rows : int
        That were measured.
    measured_s, lowest_s, highest_s : float
        Median, least and largest of them, for the whole batch.
    shipped : Predicted or None
        By the figures of the catalog, to which the point was fitted.
    left_out : Predicted or None
        By figures fitted without the device's rows of the network; others of its kin may have
        run it.
    unseen : Predicted or None
        By figures fitted without the network, on any device of the kin.
    datasheet : Predicted or None
        By what kin have at the device's datasheet, fitted without the chip; None where it has
        no kin.
    donor_s : float or None
        By one factor on the times of the best other device, which has run the network; None where
        there is none.
    priced_s : float or None
        What a problem of the whole network on the device alone takes by the catalog's figures, its
        inputs and outputs moved as they were in what was measured; None at other batches
        than 1.
    roofline_s : float or None
        The same by the cost model ``roofline``.
    """

    device: str
    precision: str
    network: str
    batch: int
    kin: str
    rows: int
    measured_s: float
    lowest_s: float
    highest_s: float
    shipped: Predicted | None = None
    left_out: Predicted | None = None
    unseen: Predicted | None = None
    datasheet: Predicted | None = None
    donor_s: float | None = None
    priced_s: float | None = None
    roofline_s: float | None = None

    @property
    def key(self) -> Key:
        """What tells it from others."""
        return self.device, self.precision, self.network, self.batch

    def __str__(self) -> str:
        batch = f" at batch {self.batch}" if self.batch > 1 else ""
        return f"{self.network}{batch} on {self.device} in {self.precision}"


def grouped(points: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return what is given by a key, in the order in which keys come up."""
    found: defaultdict[K, list[T]] = defaultdict(list)
    for point in points:
        found[key(point)].append(point)
    return dict(found)


_FILE = Lines("points of fidelity", "make fit", (
    "device", "precision", "network", "batch", "kin", "rows",
    "measured_ms", "lowest_ms", "highest_ms",
    "shipped_ms", "shipped_within", "left_out_ms", "left_out_within",
    "unseen_ms", "unseen_within", "datasheet_ms", "datasheet_within",
    "donor_ms", "priced_ms", "roofline_ms",
))  # fmt: skip


def points_text(points: Iterable[FidelityPoint]) -> str:
    """Return the file of points, sorted by key: the same text for the same points."""
    return _FILE.text(
        (
            *point.key,
            point.kin,
            point.rows,
            *map(_ms, (point.measured_s, point.lowest_s, point.highest_s)),
            *_cells(point.shipped),
            *_cells(point.left_out),
            *_cells(point.unseen),
            *_cells(point.datasheet),
            _ms(point.donor_s),
            _ms(point.priced_s),
            _ms(point.roofline_s),
        )
        for point in sorted(points, key=lambda one: one.key)
    )


def read_points(path: Path) -> list[FidelityPoint]:
    """Read a file of points.

    Raises
    ------
    UsageError
        Where there is none, or it has other columns.
    """
    return [_point(line) for line in _FILE.read(path)]


def _point(line: dict[str, str]) -> FidelityPoint:
    return FidelityPoint(
        device=line["device"],
        precision=line["precision"],
        network=line["network"],
        batch=int(line["batch"]),
        kin=line["kin"],
        rows=int(line["rows"]),
        measured_s=float(line["measured_ms"]) / 1e3,
        lowest_s=float(line["lowest_ms"]) / 1e3,
        highest_s=float(line["highest_ms"]) / 1e3,
        shipped=_predicted(line, "shipped"),
        left_out=_predicted(line, "left_out"),
        unseen=_predicted(line, "unseen"),
        datasheet=_predicted(line, "datasheet"),
        donor_s=_seconds(line["donor_ms"]),
        priced_s=_seconds(line["priced_ms"]),
        roofline_s=_seconds(line["roofline_ms"]),
    )


def _predicted(line: dict[str, str], name: str) -> Predicted | None:
    seconds = _seconds(line[f"{name}_ms"])
    return None if seconds is None else Predicted(seconds, float(line[f"{name}_within"]))


def _seconds(told_ms: str) -> float | None:
    found = figure(told_ms)
    return None if found is None else found / 1e3


def _ms(seconds: float | None) -> str:
    return cell(None if seconds is None else seconds * 1e3)


def _cells(predicted: Predicted | None) -> tuple[str, str]:
    if predicted is None:
        return "", ""
    return _ms(predicted.seconds), cell(predicted.within)
