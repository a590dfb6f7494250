"""Server results of MLPerf as points, the systems they are of, and the guard that holds them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from catalog.fidelity.points import Lines, cell, figure
from catalog.measured import held_back, maker_of, precision_of
from catalog.points import Chips

Row = Mapping[str, Any]

LIMITS_S: Mapping[str, float] = {
    "resnet50": 0.015,
    "mobilenetv1_100": 0.01,
    "ssd_mobilenet_v1_300": 0.01,
    "ssd_resnet34_1200": 0.1,
    "retinanet_resnext50_800": 0.1,
}
"""Seconds that 99 of 100 queries may take, by network, the same in all rounds that had it.

v0.5: mlcommons/inference_policies@0012149b inference_rules.adoc, "Benchmarks"; from v0.7 on
mlcommons/inference@0edaaf5c mlperf.conf; RetinaNet: @001712e9 loadgen/mlperf.conf.
"""
ALTERED = "may be altered"
"""What a row's note says where the open division lets a submitter change the network."""
_CLOCK = re.compile(r"\s+@.*")

GOAL = 0.2
"""Error that half of the predictions are to be below."""


@dataclass(frozen=True, slots=True)
class ServerSystem:
    """A Server result of a system, and the others that say how fast it is.

    - `round`, `submitter`, `system`: which result it is; `round` as ``v1.0``.
    - `altered`: of the open division: its network may be another one.
    - `chip`, `unit`: what ran; the chip without its clock.
    - `devices`: accelerators, or the sockets of a system that has none.
    - `network`: name of the graph.
    - `precision`: of its arithmetic; empty where the row leaves it open.
    - `limit_s`: that 99 of 100 queries were answered within.
    - `server_per_s`: the largest rate of Poisson arrivals at which they were.
    - `p99_s`: what 99 of 100 took in that run: where it is far below the limit, something else
      ended it.
    - `offline_per_s`: samples a second where all are there at once.
    - `alone_s`: median seconds of a sample by itself (SingleStream).
    - `alone_of`: whose that is: ``system``, of its own; ``chip``, of others with its chip; empty:
      nobody's.
    """

    round: str
    submitter: str
    system: str
    altered: bool
    chip: str
    unit: str
    devices: int
    network: str
    precision: str
    limit_s: float
    server_per_s: float
    p99_s: float
    offline_per_s: float | None
    alone_s: float | None
    alone_of: str

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from others."""
        return self.round, self.submitter, self.system, self.network, str(self.altered)

    def __str__(self) -> str:
        altered = " (open division)" if self.altered else ""
        return f"{self.network} on {self.system} of {self.submitter}, {self.round}{altered}"


def server_systems(rows: Iterable[Row], chips: Chips) -> list[ServerSystem]:
    """Return the systems of all Server rows, by key. O(rows of MLPerf)."""
    of_mlperf = [row for row in rows if row["kind"] == "mlperf" and row.get("graphs")]
    offline = {
        (_of(row), _altered(row)): row["throughput_per_s"]
        for row in reversed(of_mlperf)
        if "Offline" in row["metric"]
    }
    alone = _by_whom([row for row in of_mlperf if "SingleStream" in row["metric"]], chips)
    found = []
    for row in of_mlperf:
        if "Server" not in row["metric"]:
            continue
        network, config = _network(row), row["config"]
        alone_s, alone_of = _single_stream(row, alone, chips)
        found.append(
            ServerSystem(
                round=_round(row),
                submitter=config["submitter"],
                system=config["system"],
                altered=_altered(row),
                chip=_chip(row, chips),
                unit=row["unit"],
                devices=_devices(row),
                network=network,
                precision=_precision(row),
                limit_s=LIMITS_S[network],
                server_per_s=row["throughput_per_s"],
                p99_s=config["latency_ms"]["p99"] / 1e3,
                offline_per_s=offline.get((_of(row), _altered(row))),
                alone_s=alone_s,
                alone_of=alone_of,
            )
        )
    return sorted(found, key=lambda one: one.key)


def _single_stream(
    row: Row, alone: Mapping[Hashable, Sequence[float]], chips: Chips
) -> tuple[float | None, str]:
    """SingleStream of the system itself, else of the submitter's others, else of the chip's."""
    if not _altered(row):
        for whose, key in _whose(row, chips):
            if key in alone:
                return float(np.median(alone[key])), whose
    return None, ""


def _by_whom(rows: Iterable[Row], chips: Chips) -> dict[Hashable, list[float]]:
    found: dict[Hashable, list[float]] = {}
    for row in rows:
        if not _altered(row):
            for _, key in _whose(row, chips):
                found.setdefault(key, []).append(row["latency_ms"] / 1e3)
    return found


def _whose(row: Row, chips: Chips) -> tuple[tuple[str, Hashable], ...]:
    """What a row is told of, the nearest first: its system, its submitter's like it, its chip."""
    like = (_chip(row, chips), _network(row), _precision(row), maker_of(row), held_back(row))
    return (("system", _of(row)), ("chip", (like, _who(row))), ("chip", like))


def _of(row: Row) -> tuple[str, ...]:
    return (*_who(row), row["config"]["system"], _network(row))


def _who(row: Row) -> tuple[str, str]:
    return _round(row), row["config"]["submitter"].lower()


def _round(row: Row) -> str:
    found = re.search(r"inference_results_(v[\d.]+)@", row["source"])
    assert found is not None
    return found[1]


def _network(row: Row) -> str:
    return Path(row["graphs"][0]["file"]).stem


def _altered(row: Row) -> bool:
    return ALTERED in row.get("note", "")


def _chip(row: Row, chips: Chips) -> str:
    told = _CLOCK.sub("", row["chip"].strip())
    return chips.name(told.replace("INTEL XEON PLATINUM", "Intel Xeon Platinum"))


def _devices(row: Row) -> int:
    """Accelerators; sockets, as ``2 x 40`` cores says them, where there are none."""
    accelerators = int(row["config"].get("accelerators") or 0)
    found = re.match(r"(\d+) x", str(row["config"].get("cores", "")))
    return accelerators or (int(found[1]) if found else 1)


def _precision(row: Row) -> str:
    """As the row says it, or else the name of its system, where its words leave it open."""
    told = precision_of(row["precision"])
    if told:
        return told
    words = f"{row['precision']} {row['config']['system']}".lower()
    if re.search("bf16|bfloat16", words):
        return "bfloat16"
    return "int8" if re.search("int8|8-bit", words) and "fp16" not in words else ""


@dataclass(frozen=True, slots=True)
class Alone:
    """What the catalog alone says of a system: the rate within the limit, and that of bulk."""

    served_per_s: float
    bulk_per_s: float


@dataclass(frozen=True, slots=True)
class ServerPoint:
    """A system's Server result, predicted.

    - `system`: what was measured.
    - `basis`: what `anchored` rests on: ``system``, the system's Offline and SingleStream;
      ``chip``, SingleStream of others with its chip; ``shape``, Offline alone, at other sizes of
      batches as the catalog's device of the chip; ``near``, as a device near to it; ``rate``,
      Offline alone. Empty where there is no Offline.
    - `anchored_per_s`: the rate by times through these anchors.
    - `instances`, `batch`: by which it is: on each device, and the largest batch.
    - `no_shape_per_s`: the rate where nothing is known but Offline: a batch takes as long as its
      share of that.
    - `left_out`, `unseen`, `datasheet`: by the catalog alone, where the chip is in it: fitted
      without the device's rows of the network, without the network, without the chip.
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


_OF_SYSTEM = (
    "round", "submitter", "system", "altered", "chip", "unit", "devices", "network", "precision",
    "limit_s", "server_per_s", "p99_s", "offline_per_s", "alone_s", "alone_of",
)  # fmt: skip
_OF_POINT = ("basis", "anchored_per_s", "instances", "batch", "no_shape_per_s")
_WAYS = ("left_out", "unseen", "datasheet")
_COUNTS = frozenset({"devices", "instances", "batch"})


def _column(field: str) -> str:
    """The column of a field: times stand in milliseconds there."""
    is_time = field.endswith("_s") and not field.endswith("per_s")
    return f"{field.removesuffix('_s')}_ms" if is_time else field


_FILE = Lines(
    "points of served rates",
    "make fidelity",
    (
        *map(_column, (*_OF_SYSTEM, *_OF_POINT)),
        *(f"{way}{column}" for way in _WAYS for column in ("_per_s", "_bulk_per_s")),
    ),
)


def server_text(points: Iterable[ServerPoint]) -> str:
    """Return the file of points, sorted by key: the same text for the same points."""
    return _FILE.text(
        (
            *(_written(point.system, field) for field in _OF_SYSTEM),
            *(_written(point, field) for field in _OF_POINT),
            *(told for way in _WAYS for told in _cells(getattr(point, way))),
        )
        for point in sorted(points, key=lambda one: one.key)
    )


def _written(of: ServerSystem | ServerPoint, field: str) -> object:
    value = getattr(of, field)
    if field == "altered":
        return "yes" if value else ""
    if not field.endswith("_s"):
        return value
    return cell(value if value is None or _column(field) == field else value * 1e3)


def read_server(path: Path) -> list[ServerPoint]:
    """Read a file of points."""
    return [
        ServerPoint(
            system=ServerSystem(**{field: _told(line, field) for field in _OF_SYSTEM}),
            **{field: _told(line, field) for field in _OF_POINT},
            **{way: _alone(line, way) for way in _WAYS},
        )
        for line in _FILE.read(path)
    ]


def _told(line: dict[str, str], field: str) -> Any:
    told = line[_column(field)]
    if field == "altered":
        return bool(told)
    if field in _COUNTS:
        return int(told)
    if not field.endswith("_s"):
        return told
    value = figure(told)
    return value if value is None or _column(field) == field else value / 1e3


def _alone(line: dict[str, str], name: str) -> Any:
    served = figure(line[f"{name}_per_s"])
    return None if served is None else Alone(served, float(line[f"{name}_bulk_per_s"]))


def _cells(alone: Alone | None) -> tuple[str, str]:
    return ("", "") if alone is None else (cell(alone.served_per_s), cell(alone.bulk_per_s))


ROUNDING = 1e-3
"""By which errors may differ: figures of the file, and what they rest on, have five digits."""


def missed(old: Iterable[ServerPoint], new: Iterable[ServerPoint]) -> tuple[str, ...]:
    """Return the results that had a rate and lost it, or were within `GOAL` and no longer are."""
    now = {point.key: point for point in new}
    lines = []
    for was in sorted(old, key=lambda one: one.key):
        before = was.off(was.anchored_per_s)
        if before is None:
            continue
        point = now.get(was.key)
        after = None if point is None else point.off(point.anchored_per_s)
        if after is None:
            lines.append(f"{was.system}: no rate")
        elif abs(before) <= GOAL and abs(after) > GOAL + ROUNDING:
            lines.append(f"{was.system}: off by {after:+.0%}, was {before:+.0%}")
    return tuple(lines)
