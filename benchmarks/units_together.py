"""Published rows of several units at once against plans of them on the virtual clock.

JSON lines out: a line a row with what was measured and what is predicted, the reasons why others
are not, then the median and the 90th percentile of the relative error by kind of plan. Nothing is
fitted to these rows: each unit has the figures that it has alone, and the plan is the one that the
row's runtime makes.

*Copies* (graphics and DLAs, cores and graphics): the whole network on each unit at the batch that
fits take for rates, requests dealt out by ``multi``, within the power and the memory that units
share (``hetsim.analysis.sustained_speed``); a rate. *Fallback* (an NPU whose runtime leaves
some ops to the cores): ``hetero`` with the ops that the runtime refuses; a latency.

``--without power`` and ``--without memory`` let devices that are busy at once keep the power or the
bandwidth that they have alone,
``--without dequantizing`` lets weights that the cores read be stored in floats, ``--without
datasheet`` prices these products by the figures of another runtime that the catalog has for the
cores, ``--without fallback`` gives the NPU all of the network: what each of these is worth.

``python benchmarks/units_together.py`` takes about half a minute.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import Counter
from collections.abc import Collection
from typing import Any

from catalog.measured import measured_folder, read_rows
from catalog.points import read_graphs
from hetsim.errors import HetsimError
from mixed_rows.copies import copies_s
from mixed_rows.fallback import FALLBACK, fallback_s, refused_by
from mixed_rows.networks import Networks, Row, network_of
from mixed_rows.platforms import platform_of

WITHOUT = ("power", "memory", "dequantizing", "datasheet", "fallback")


def left_out(row: Row) -> str | None:
    """Return why a row cannot be predicted, or None."""
    if not row.get("graphs"):
        return "no graph stands for the network"
    if platform_of(row["chip"]) is None:
        return "the chip is not in the catalog"
    words = f"{row['source']} {row.get('config')}".lower()
    if "maxq" in words:
        return "a board held below its power, at clocks that are not told"
    if "dlas are not used in the offline" in words:
        return "its own notes say that one unit ran"
    if row["unit"] in FALLBACK and refused_by(row) is None:
        return "which ops the runtime refuses is not known"
    return None


def run(cost: str, kinds: set[str], without: Collection[str]) -> None:
    """Predict the rows of several units and print them, then the errors by kind."""
    folder = measured_folder()
    networks = Networks(read_graphs(folder))
    rows = [row for row in read_rows(folder) if "+" in row["unit"] and row["unit"] in kinds]
    left = Counter(reason for row in rows if (reason := left_out(row)) is not None)
    taken = [row for row in rows if left_out(row) is None]
    errors: dict[str, list[float]] = {}
    known: dict[tuple[Any, ...], tuple[float, dict[str, Any]]] = {}
    for row in sorted(taken, key=lambda row: (network_of(row), row["unit"], row["chip"])):
        fallback = row["unit"] in FALLBACK
        asked = (network_of(row), row["unit"], row["chip"], row["precision"], row["runtime"])
        same = asked if fallback else asked[:-1]
        try:
            if same not in known:
                known[same] = (fallback_s if fallback else copies_s)(row, networks, cost, without)
        except HetsimError as error:
            left[f"{type(error).__name__}: {error}"] += 1
            continue
        seconds, how = known[same]
        measured = row["latency_ms"] / 1e3 if fallback else 1 / row["throughput_per_s"]
        errors.setdefault(row["unit"], []).append(seconds / measured)
        emit(
            unit=row["unit"],
            chip=row["chip"],
            model=row["model"],
            precision=row["precision"],
            runtime=row["runtime"],
            source=row["source"],
            measured_ms=round(1e3 * measured, 4),
            predicted_ms=round(1e3 * seconds, 4),
            ratio=round(seconds / measured, 3),
            **how,
        )
    for reason, count in left.items():
        emit(rows=count, not_predicted=reason)
    for kind, ratios in [*errors.items(), ("all", [r for own in errors.values() for r in own])]:
        off = sorted(abs(ratio - 1) for ratio in ratios)
        if off:
            emit(
                unit=kind,
                rows=len(off),
                median_error=round(statistics.median(off), 3),
                p90_error=round(off[math.ceil(0.9 * len(off)) - 1], 3),
                median_ratio=round(statistics.median(ratios), 3),
            )


def emit(**record: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"benchmark": "units_together", **record}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cost", default="fitted", help="the cost model")
    parser.add_argument("--units", action="append", help="of these units alone, as rows say them")
    parser.add_argument("--without", action="append", choices=WITHOUT, help="one of its reasons")
    asked = parser.parse_args()
    run(
        asked.cost,
        set(asked.units or ("gpu+dla", "cpu+gpu", *FALLBACK)),
        frozenset(asked.without or ()),
    )
