"""Points of the catalog's devices, their files, and the guard that holds them."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hetsim.errors import UsageError


@dataclass(frozen=True, slots=True)
class Lines:
    """A kind of file.

    - `what`: its points, in words.
    - `made_by`: the command that writes it.
    """

    what: str
    made_by: str
    columns: tuple[str, ...]

    def text(self, rows: Iterable[Sequence[object]]) -> str:
        """Return the file of rows of cells, each in the order of the columns."""
        out = io.StringIO()
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(self.columns)
        lines.writerows(rows)
        return out.getvalue()

    def read(self, path: Path) -> list[dict[str, str]]:
        """Read a file: the cells of each line by column."""
        if not path.is_file():
            raise UsageError(
                f"there are no {self.what}", where=str(path), hint=f"'{self.made_by}' writes them"
            )
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file)
            if tuple(lines.fieldnames or ()) != self.columns:
                raise UsageError(
                    "the file has other columns",
                    where=str(path),
                    hint=f"'{self.made_by}' writes it anew",
                )
            return list(lines)


def cell(value: float | None) -> str:
    """Return a figure with five digits; None is empty."""
    return "" if value is None else f"{value:.5g}"


def figure(told: str) -> float | None:
    """Return the figure of a cell; None where it is empty."""
    return float(told) if told else None


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

    - `device`: name in the catalog; with ``:ncnn`` behind it, by that other runtime.
    - `precision`: of the figures that price it.
    - `network`: name of the graph, without its ending.
    - `kin`: of the figures.
    - `rows`: that were measured.
    - `measured_s`, `lowest_s`, `highest_s`: median, least and largest of them, for the whole batch.
    - `shipped`: by the figures of the catalog, to which the point was fitted.
    - `left_out`: by figures fitted without the device's rows of the network; others of its kin may
      have run it.
    - `unseen`: by figures fitted without the network, on any device of the kin.
    - `datasheet`: by what kin have at the device's datasheet, fitted without the chip; None where
      it has no kin.
    - `donor_s`: by one factor on the times of the best other device, which has run the network;
      None where there is none.
    - `priced_s`: what a problem of the whole network on the device alone takes by the catalog's
      figures, its inputs and outputs moved as they were in what was measured; None at other batches
      than 1.
    - `roofline_s`: the same by the cost model ``roofline``.
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


_MEASURED = ("measured", "lowest", "highest")
_WAYS = ("shipped", "left_out", "unseen", "datasheet")
_ALONE = ("donor", "priced", "roofline")
_FILE = Lines("points of fidelity", "make fit", (
    "device", "precision", "network", "batch", "kin", "rows",
    *(f"{name}_ms" for name in _MEASURED),
    *(f"{way}{column}" for way in _WAYS for column in ("_ms", "_within")),
    *(f"{name}_ms" for name in _ALONE),
))  # fmt: skip


def points_text(points: Iterable[FidelityPoint]) -> str:
    """Return the file of points, sorted by key: the same text for the same points."""
    return _FILE.text(
        (
            *point.key,
            point.kin,
            point.rows,
            *(_ms(getattr(point, f"{name}_s")) for name in _MEASURED),
            *(told for way in _WAYS for told in _cells(getattr(point, way))),
            *(_ms(getattr(point, f"{name}_s")) for name in _ALONE),
        )
        for point in sorted(points, key=lambda one: one.key)
    )


def read_points(path: Path) -> list[FidelityPoint]:
    """Read a file of points."""
    return [_point(line) for line in _FILE.read(path)]


def _point(line: dict[str, str]) -> FidelityPoint:
    told: dict[str, Any] = {
        f"{name}_s": _seconds(line[f"{name}_ms"]) for name in (*_MEASURED, *_ALONE)
    }
    told |= {way: _predicted(line, way) for way in _WAYS}
    return FidelityPoint(
        device=line["device"],
        precision=line["precision"],
        network=line["network"],
        batch=int(line["batch"]),
        kin=line["kin"],
        rows=int(line["rows"]),
        **told,
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


APART = 1.1
"""Times that pairs must be apart to have an order that may not be lost."""
ROUNDING = 2e-4
"""Logarithm by which figures of the file may be off: they have five digits."""


@dataclass(frozen=True, slots=True)
class Losses:
    """What new points have lost, each told in a line.

    - `gone`: points that were predicted and no longer are.
    - `uncovered`: measured times that were inside the 80 % interval and no longer are.
    - `flipped`: pairs of devices, measured more than `APART` times apart on one network, that were
      predicted in the right order and no longer are.
    - `unserved`: server results whose rate is no longer predicted, or no longer as near as the
      goal.
    """

    gone: tuple[str, ...]
    uncovered: tuple[str, ...]
    flipped: tuple[str, ...]
    unserved: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.gone or self.uncovered or self.flipped or self.unserved)

    def text(self, most: int = 20) -> str:
        """Return what was lost, of each kind the first `most` lines."""
        parts = []
        for what, lines in (
            ("points are no longer predicted", self.gone),
            ("intervals no longer cover what was measured", self.uncovered),
            ("pairs of devices are now predicted in the wrong order", self.flipped),
            ("served rates are no longer predicted as near", self.unserved),
        ):
            if lines:
                parts.append(f"{len(lines)} {what}:")
                parts += [f"  {line}" for line in lines[:most]]
                if len(lines) > most:
                    parts.append(f"  and {len(lines) - most} more")
        return "\n".join(parts)


def losses(old: Iterable[FidelityPoint], new: Iterable[FidelityPoint]) -> Losses:
    """Return what is worse in `new`, by the measurements of `old`."""
    now = {point.key: point for point in new}
    gone, uncovered = [], []
    kept: defaultdict[tuple[str, int], list[tuple[FidelityPoint, float, float]]]
    kept = defaultdict(list)
    for was in sorted(old, key=lambda one: one.key):
        if was.shipped is None:
            continue
        point = now.get(was.key)
        if point is None or point.shipped is None:
            gone.append(str(was))
            continue
        before, after = was.shipped, point.shipped
        beyond = abs(math.log(was.measured_s / after.seconds)) - math.log(after.within)
        if before.covers(was.measured_s) and beyond > ROUNDING:
            uncovered.append(
                f"{was}: measured {_in_ms(was.measured_s)}, predicted {_in_ms(after.seconds)} "
                f"within {after.within:.3g}x (was {_in_ms(before.seconds)} within "
                f"{before.within:.3g}x)"
            )
        kept[was.network, was.batch].append((was, before.seconds, after.seconds))
    flipped = [line for found in kept.values() for line in _flipped(found)]
    return Losses(tuple(gone), tuple(uncovered), tuple(flipped))


def _flipped(found: Sequence[tuple[FidelityPoint, float, float]]) -> list[str]:
    told = []
    for index, (one, one_was, one_is) in enumerate(found):
        for other, other_was, other_is in found[:index]:
            if one.device == other.device:
                continue
            measured = math.log(one.measured_s / other.measured_s)
            sign = math.copysign(1.0, measured)
            if abs(measured) <= math.log(APART) or sign * math.log(one_was / other_was) <= 0:
                continue
            if sign * math.log(one_is / other_is) < -ROUNDING:
                told.append(
                    f"{one} against {other.device} in {other.precision}: measured "
                    f"{_in_ms(one.measured_s)} and {_in_ms(other.measured_s)}, predicted "
                    f"{_in_ms(one_is)} and {_in_ms(other_is)} (was {_in_ms(one_was)} and "
                    f"{_in_ms(other_was)})"
                )
    return told


def _in_ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"
